"""REINFORCE++: returns to go, whitened over the whole batch (Hu et al., arXiv 2501.03262)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agentgym.credit.discounted_return import DiscountedReturn
from agentgym.credit.numerics import choice, fraction, outcome_values, z_score
from agentgym.credit.protocols import Array, Ragged, Values
from agentgym.credit.streams import Flags, Layout, sampled_counts, text_only
from agentgym.types import Group


class ReinforcePP:
    """``A_{i,t} = (G_{i,t} - mean) / (std + 1e-6)``, mean and population std over every turn of the batch.

    ``gamma``     discount per turn, in [0, 1]. ``G_t = sum_{k>=t} gamma^{k-t} r_k`` over all paid rewards, dense
                  ones included; observations between turns neither discount nor cut it (verl's version does)
    ``baseline``  ``none``; or ``group`` (REINFORCE++-baseline, for batches of tasks of different difficulty): first
                  subtract the group's mean over episodes of G averaged over an episode's turns
    ``weights``   what a turn counts in mean and std: its sampled ``token`` s (a turn that drew none counts 0; in an
                  episode without token rows every turn counts 1), ``turn``: 1, ``trajectory``: 1 / its episode's turns
    ``whiten``    divide by the std. ``centre``: subtract the batch mean (the std is about the mean either way)

    A batch without spread gives exactly 0 (unless neither ``whiten`` nor ``centre`` is on). With ``baseline="group"``
    so does a group of one episode, or one whose episodes' returns are equal while no dense reward tells turns apart;
    such groups are left out of mean and std too, for else a batch of many dead groups would blow up the few others.
    """

    def __init__(
        self,
        gamma: float = 1.0,
        baseline: Literal["none", "group"] = "none",
        weights: Literal["token", "turn", "trajectory"] = "token",
        whiten: bool = True,
        centre: bool = True,
    ) -> None:
        fraction("reinforce_pp", gamma=gamma)
        choice("reinforce_pp", "baseline", baseline, ("none", "group"))
        choice("reinforce_pp", "weights", weights, ("token", "turn", "trajectory"))
        self.returns = DiscountedReturn(gamma, "mean" if baseline == "group" else "none")
        self.baseline, self.weights, self.whiten, self.centre = baseline, weights, whiten, centre
        self.traits = self.returns.traits | ({"normalises"} if whiten else set())

    def compute(self, groups: list[Group], values: Values | None) -> Ragged:
        """Advantages ``[group][episode][turn]``."""
        values = values or outcome_values(groups)
        layout = Layout(values.total)
        returns = self.returns.flat(layout, layout.flat(values.total), layout.flat(values.dense))
        if not (self.whiten or self.centre):
            return layout.split(returns)
        counted = self._alive(returns, layout)
        weights = np.where(counted, self._weights(groups, layout), 0.0)
        scores = z_score(returns, weights, "population" if self.whiten else "none", centred=self.centre)
        return layout.split(np.where(counted, scores, 0.0))

    def _alive(self, returns: Array, layout: Layout) -> Flags:
        if self.baseline == "none":
            return np.ones(len(returns), np.bool_)
        alive: Flags = (np.bincount(layout.turn_group, returns != 0, len(layout.sizes)) > 0)[layout.turn_group]
        return alive

    def _weights(self, groups: list[Group], layout: Layout) -> Array:
        if self.weights == "turn":
            return np.ones(len(layout.owner))
        if self.weights == "trajectory":
            return 1.0 / layout.lengths[layout.owner]
        return np.where(text_only(groups), 1, sampled_counts(groups)).astype(np.float64)
