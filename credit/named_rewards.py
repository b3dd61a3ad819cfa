"""Turn rewards that an environment names itself, paid one by one (``step.info["rewards"]``)."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from agentgym.credit.components import CreditError, add_component
from agentgym.credit.protocols import Services
from agentgym.errors import ConfigError, unknown
from agentgym.types import Episode, Group

KEY = "rewards"


class NamedRewards:
    """Pays the rewards that the environment names in ``info["rewards"]``, each as a component of its own name.

    ``weights``  name -> weight
    ``cap``      a component's values of one episode sum to at most this, what comes later counts 0, so that a reward
                 that every turn earns cannot be farmed by taking more turns (None: no cap). Only positive values count
                 towards it and are cut.

    Unknown names are refused where the environment names others. Episodes without any (another environment, or not a
    step taken) get 0 and are counted. Meant to stand below a gate: see :mod:`agentgym.credit.gated`.
    """

    name = "named_rewards"
    requires: frozenset[str] = frozenset()
    traits: frozenset[str] = frozenset()

    def __init__(self, weights: Mapping[str, float] | None = None, cap: float | None = 1.0) -> None:
        if not weights:
            raise ConfigError("named_rewards: weights must name at least one reward, such as {format: 0.05}")
        for name, weight in weights.items():
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not isfinite(weight):
                raise ConfigError(f"named_rewards: the weight of {name!r} must be a finite number, got {weight!r}")
        if cap is not None and not cap > 0:
            raise ConfigError(f"named_rewards: cap must be above 0, or null for none, got {cap!r}")
        self.weights, self.cap = {str(name): float(weight) for name, weight in weights.items()}, cap
        self._report: dict[str, float] = {}

    def plan(self, paid: dict[str, float]) -> dict[str, float]:
        """Adds every named reward. Raises ConfigError for a name that is paid already."""
        for name in self.weights:
            if name in paid:
                raise ConfigError(f"named_rewards: a component {name!r} is paid already")
        return {**paid, **self.weights}

    async def apply(self, groups: list[Group], svc: Services, step: int) -> None:
        """Write the components of every turn."""
        without = 0
        for episode in (episode for group in groups for episode in group):
            told = [turn.info.get(KEY) for turn in episode.turns]
            known = {key for one in told if isinstance(one, Mapping) for key in one}
            without += not known
            for name in self.weights:
                if known and name not in known:
                    raise unknown(f"reward named by {episode.where}", name, known)
                add_component(episode, name, self._capped([_value(one, name, episode) for one in told]))
        self._report = {"episodes_without": float(without)}

    def report(self) -> dict[str, float]:
        """``episodes_without``: episodes whose environment named no rewards."""
        return self._report

    def _capped(self, values: list[float]) -> list[float]:
        if self.cap is None:
            return values
        left, out = self.cap, []
        for value in values:
            out.append(min(value, left))
            left -= max(out[-1], 0.0)
        return out


def _value(told: Any, name: str, episode: Episode) -> float:
    value = told.get(name, 0.0) if isinstance(told, Mapping) else 0.0
    if isinstance(value, bool | int | float) and isfinite(value):
        return float(value)
    raise CreditError(f"{episode.where}: the environment's reward {name!r} is {value!r}, must be a finite number")
