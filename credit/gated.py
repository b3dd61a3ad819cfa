"""Gated reward accumulation, G-RA (arXiv 2508.10548): lesser rewards count only once the greater ones are earned.

``R = sum_i R^(i) * prod_{j greater than i} 1[R^(j) > delta_j]``, the comparison strict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import copysign, isfinite
from typing import Any

import numpy as np

from agentgym.credit.components import add_component, component
from agentgym.credit.gate_levels import Level, make_level, refuse_unknown
from agentgym.credit.protocols import Array, Services
from agentgym.errors import ConfigError, unknown
from agentgym.types import Episode, Group

#: components whose values mean something together only (differences of a potential, shares of the outcome): gated with
#: their negative values, since the negative half of a telescoping sum is no penalty
WHOLE = frozenset({"milestone", "mira", "spa", "info_gain", "delta"})


@dataclass(frozen=True, slots=True)
class Tier:
    """``components`` count where every tier above is open; this one is open where ``level(episode) > threshold``."""

    name: str
    level: Level | None
    threshold: float
    components: tuple[str, ...]


class Gated:
    """Pays ``gated:X`` in place of each gated component X: its values where the gate is open, else 0.

    The short form has two tiers: ``levels`` strictly above ``threshold`` opens ``components`` (default: everything
    paid but the outcome). ``levels``: ``outcome`` (threshold 0), ``success``, ``swe`` (threshold -0.5: opens for any
    patch that is not empty), ``component:NAME``, or a mapping by termination (see
    :func:`agentgym.credit.gate_levels.make_level`).

    ``tiers``  the long form, greatest first: ``[{name, level, threshold, components}]``; the last needs no level. The
               first tier's own components are never gated.
    ``gate_penalties``  False (default): values that cost (negative, under a positive weight) pass a closed gate, else
               who never submits escapes them. Components in :data:`WHOLE`, and transforms of them, are gated whole
               either way.

    The gate is judged after the episode, so an episode that a limit cut is closed where its level says so (nothing
    submitted); one that failed (``env_error``, ``aborted``) is neither open nor closed. Where another component
    redistributes the outcome and is closed, the outcome itself is paid on the last turn as ``gated:outcome``: the
    greatest reward is never gated. Rates, total and outcome are reported apart: completion is not resolution.
    """

    name = "gated"
    stage = "gate"
    traits = frozenset({"gate"})
    requires = frozenset[str]()

    def __init__(
        self,
        levels: str | Mapping[str, float] = "outcome",
        threshold: float | None = None,
        components: Sequence[str] | None = None,
        tiers: Sequence[Mapping[str, Any]] | None = None,
        gate_penalties: bool = False,
    ) -> None:
        if tiers is not None and (threshold is not None or components is not None or levels != "outcome"):
            raise ConfigError("gated: give tiers, or levels with threshold and components, not both")
        self.gate_penalties = gate_penalties
        self._default = tiers is None and components is None
        if tiers is None:
            top = {"name": "outcome" if levels == "outcome" else "top", "level": levels, "threshold": threshold}
            tiers = [top, {"name": "dense", "components": list(components or ())}]
        self.tiers = [_tier(number, tier, last=number == len(tiers) - 1) for number, tier in enumerate(tiers)]
        if len(self.tiers) < 2 or len({tier.name for tier in self.tiers}) < len(self.tiers):
            raise ConfigError("gated: at least two tiers with names of their own, greatest first")
        names = [name for tier in self.tiers for name in tier.components]
        if len(set(names)) < len(names):
            raise ConfigError(f"gated: a component stands in one tier only, got {names}")
        self._gates: dict[str, int] = {}  # component -> how many tiers stand above it
        self._paid: dict[str, float] = {}
        self._rescue = False
        self._report: dict[str, float] = {}

    def plan(self, paid: dict[str, float]) -> dict[str, float]:
        """``X`` -> ``gated:X``, with its weight."""
        rank = {name: number for number, tier in enumerate(self.tiers) for name in tier.components if number}
        if self._default:
            rank = {name: 1 for name in paid if name != "outcome"}
        for name in rank:
            if name not in paid:
                raise unknown("component to be gated", name, paid, "Only what is paid can be gated.")
        if not rank:
            raise ConfigError(
                "gated: nothing but the outcome is paid, so there is nothing to gate; list a dense module"
            )
        self._gates, self._weights = rank, {name: paid[name] for name in rank}
        out = {f"gated:{name}" if name in rank else name: weight for name, weight in paid.items()}
        self._rescue = "outcome" not in paid and ("spa" in rank or rank.keys() == paid.keys())
        if self._rescue:
            out["gated:outcome"] = 1.0
        self._paid = dict(out)
        return out

    async def apply(self, groups: list[Group], svc: Services, step: int) -> None:
        """Judge every episode's tiers, then write the gated components."""
        live = [episode for group in groups for episode in group if not episode.termination.is_failure]
        opened = np.zeros((len(live), len(self.tiers)), bool)
        for number, episode in enumerate(live):
            opened[number] = self._open(episode)
            for name, above in self._gates.items():
                add_component(episode, f"gated:{name}", self._pass(name, episode, bool(opened[number, above])))
            if self._rescue:
                closed = not all(opened[number, above] for above in self._gates.values())
                values = np.zeros(len(episode.turns))
                values[-1:] = episode.outcome if closed else 0.0
                add_component(episode, "gated:outcome", values)
        self._report = self._numbers(live, opened)

    def report(self) -> dict[str, float]:
        """``open/<tier>``: share of episodes in which that tier's components counted; ``total``: mean reward paid
        after the gate; ``outcome``: mean outcome."""
        return self._report

    def _open(self, episode: Episode) -> list[bool]:
        """Per tier: do its components count? The first one's always do."""
        out = [True]
        for tier in self.tiers[:-1]:
            out.append(out[-1] and tier.level is not None and tier.level(episode) > tier.threshold)
        return out

    def _pass(self, name: str, episode: Episode, is_open: bool) -> Array:
        values = component(episode, name)
        if is_open:
            return values
        if self.gate_penalties or WHOLE.intersection(name.split(":")):
            return np.zeros_like(values)
        sign = copysign(1.0, self._weights[name])
        return sign * np.minimum(sign * values, 0.0)

    def _numbers(self, live: list[Episode], opened: np.ndarray[Any, Any]) -> dict[str, float]:
        if not live:
            return {}
        totals = [sum(w * float(component(e, name).sum()) for name, w in self._paid.items()) for e in live]
        rates = {f"open/{tier.name}": float(opened[:, i].mean()) for i, tier in enumerate(self.tiers) if i}
        return {**rates, "total": float(np.mean(totals)), "outcome": float(np.mean([e.outcome for e in live]))}


def _tier(number: int, spec: Mapping[str, Any], last: bool) -> Tier:
    where = f"gated: tier {number}"
    refuse_unknown(where, spec, ("name", "level", "threshold", "components"))
    name, given = str(spec.get("name", number)), spec.get("components", ())
    if isinstance(given, str):
        raise ConfigError(f"{where} ({name}): components is a list of names, got {given!r}")
    if spec.get("level") is None:
        if not last:
            raise ConfigError(f"{where} ({name}) needs a level: only the last tier gates nothing")
        return Tier(name, None, 0.0, tuple(given))
    level, usual = make_level(spec["level"])
    threshold = usual if spec.get("threshold") is None else spec["threshold"]
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not isfinite(threshold):
        raise ConfigError(f"{where} ({name}): level {spec['level']!r} needs a finite threshold, got {threshold!r}")
    return Tier(name, level, float(threshold), tuple(given))
