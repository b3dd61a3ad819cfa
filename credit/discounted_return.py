"""Discounted return: REINFORCE over turns (Williams 1992), with an optional group baseline."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agentgym.credit.numerics import (
    Weighting,
    choice,
    is_constant,
    others_mean,
    outcome_values,
    returns_to_go,
    turn_counts,
)
from agentgym.credit.protocols import Array, Ragged, Values
from agentgym.errors import ConfigError
from agentgym.types import Group


class DiscountedReturn:
    """``A_{i,t} = G_{i,t} - b_i`` with ``G_t = sum_{k>=t} gamma^{k-t} r_k`` over turns.

    An episode's return, for the baseline, is its G averaged over its turns, so that baseline and G share a scale
    (with gamma 1 and the outcome alone it is the outcome). ``baseline``:

    ``leave_one_out``  mean over the group's other episodes (the alternative for dense rewards)
    ``mean``           mean over all episodes of the group, i included
    ``none``           0: no group statistic, so the two rules below do not apply

    ``group_weighting="turn"``: episodes count once a turn in that mean. A group of one gives 0, and so does a group
    whose episode returns are equal while no dense reward tells its turns apart.
    """

    def __init__(
        self,
        gamma: float = 0.95,
        baseline: Literal["leave_one_out", "mean", "none"] = "leave_one_out",
        group_weighting: Weighting = "trajectory",
    ) -> None:
        if not 0 <= gamma <= 1:
            raise ConfigError(f"estimator 'discounted_return': gamma must be in [0, 1], got {gamma}")
        choice("discounted_return", "baseline", baseline, ("leave_one_out", "mean", "none"))
        choice("discounted_return", "group_weighting", group_weighting, ("trajectory", "turn"))
        self.gamma, self.baseline, self.group_weighting = gamma, baseline, group_weighting
        self.traits = frozenset({"group_relative"} if baseline != "none" else set())

    def compute(self, groups: list[Group], values: Values | None) -> Ragged:
        """Advantages ``[group][episode][turn]``."""
        values = values or outcome_values(groups)
        return [self._group(rewards, dense) for rewards, dense in zip(values.total, values.dense, strict=True)]

    def _group(self, rewards: list[Array], dense: list[Array]) -> list[Array]:
        to_go = [returns_to_go(turns, self.gamma) for turns in rewards]
        if self.baseline == "none":
            return to_go
        means = np.array([g.mean() if len(g) else 0.0 for g in to_go], np.float64)
        if len(means) < 2 or (is_constant(means) and not any(c.any() for c in dense)):
            return [np.zeros_like(g) for g in to_go]
        weights = turn_counts(to_go, self.group_weighting)
        if self.baseline == "leave_one_out":
            base = others_mean(means, weights)
        else:
            base = np.full(len(means), np.average(means, weights=weights) if weights.any() else 0.0)
        return [g - b for g, b in zip(to_go, base, strict=True)]
