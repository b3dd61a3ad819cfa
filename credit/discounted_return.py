"""Discounted return: REINFORCE over turns (Williams 1992), with an optional group baseline."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agentgym.credit.numerics import (
    Weighting,
    choice,
    fraction,
    mean,
    others_mean,
    outcome_values,
    returns_to_go,
    varies,
)
from agentgym.credit.protocols import Array, Ragged, Values
from agentgym.credit.streams import Layout
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
        fraction("discounted_return", gamma=gamma)
        choice("discounted_return", "baseline", baseline, ("leave_one_out", "mean", "none"))
        choice("discounted_return", "group_weighting", group_weighting, ("trajectory", "turn"))
        self.gamma, self.baseline, self.group_weighting = gamma, baseline, group_weighting
        self.traits = frozenset({"group_relative"} if baseline != "none" else set())

    def compute(self, groups: list[Group], values: Values | None) -> Ragged:
        """Advantages ``[group][episode][turn]``."""
        values = values or outcome_values(groups)
        layout = Layout(values.total)
        return layout.split(self.flat(layout, layout.flat(values.total), layout.flat(values.dense)))

    def flat(self, layout: Layout, total: Array, dense: Array) -> Array:
        """The same on flat rewards, per turn."""
        to_go = returns_to_go(total, self.gamma, layout.lengths)
        if self.baseline == "none":
            return to_go
        means = layout.sums(to_go) / np.maximum(layout.lengths, 1)
        weights = layout.weights(self.group_weighting)
        if self.baseline == "leave_one_out":
            base = others_mean(means, weights, layout.group)
        else:
            base = mean(means, weights, layout.group)[layout.group]
        told_apart = np.bincount(layout.turn_group, dense != 0, len(layout.sizes)) > 0
        alive = varies(means, layout.group)[layout.group] | told_apart[layout.group]
        alive &= np.asarray(layout.sizes, np.int64)[layout.group] > 1
        result: Array = np.where(alive[layout.owner], to_go - base[layout.owner], 0.0)
        return result
