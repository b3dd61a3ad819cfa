"""Gated reward accumulation, G-RA (arXiv 2508.10548): lesser rewards count only once the greater ones are earned.

``R = sum_i R^(i) * prod_{j greater than i} 1[R^(j) > delta_j]``, the comparison strict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import copysign
from typing import Any

import numpy as np

from agentgym.credit.components import add_component, flat_component
from agentgym.credit.gate_levels import make_tier
from agentgym.credit.protocols import Array, Services
from agentgym.errors import ConfigError, unknown
from agentgym.types import Episode, Group

#: components whose values mean something together only (differences of a potential, shares of the outcome): gated with
#: their negative values, since the negative half of a telescoping sum is no penalty
WHOLE = frozenset({"milestone", "mira", "spa", "info_gain", "delta"})


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
        self.tiers = [make_tier(number, tier, last=number == len(tiers) - 1) for number, tier in enumerate(tiers)]
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
        opened = np.array([self._open(episode) for episode in live], bool).reshape(len(live), len(self.tiers))
        owner = np.repeat(np.arange(len(live)), [len(episode.turns) for episode in live])
        for name, above in self._gates.items():
            values = flat_component(live, name)
            _write(live, f"gated:{name}", np.where(opened[owner, above], values, self._closed(name, values)))
        if self._rescue:
            closed = ~opened[:, list(self._gates.values())].all(axis=1)
            last = np.cumsum([len(episode.turns) for episode in live]) - 1
            values = np.zeros(len(owner))
            for i in np.flatnonzero(closed):
                if live[i].turns:
                    values[last[i]] = live[i].outcome
            _write(live, "gated:outcome", values)
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

    def _closed(self, name: str, values: Array) -> Array:
        """What passes a closed gate: penalties at most."""
        if self.gate_penalties or WHOLE.intersection(name.split(":")):
            return np.zeros_like(values)
        sign = copysign(1.0, self._weights[name])
        return sign * np.minimum(sign * values, 0.0)

    def _numbers(self, live: list[Episode], opened: np.ndarray[Any, Any]) -> dict[str, float]:
        if not live:
            return {}
        total = sum(weight * float(flat_component(live, name).sum()) for name, weight in self._paid.items()) / len(live)
        rates = {f"open/{tier.name}": float(opened[:, i].mean()) for i, tier in enumerate(self.tiers) if i}
        return {**rates, "total": total, "outcome": float(np.mean([e.outcome for e in live]))}


def _write(episodes: list[Episode], name: str, values: Array) -> None:
    at = 0
    for episode in episodes:
        add_component(episode, name, values[at : at + len(episode.turns)].tolist())
        at += len(episode.turns)
