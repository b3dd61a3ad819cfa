"""RLOO: REINFORCE with a leave-one-out baseline (Kool et al. 2019; Ahmadian et al., arXiv 2402.14740)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agentgym.credit.numerics import Weighting, centre, choice, others_mean, outcome_values, varies
from agentgym.credit.protocols import Array, Ragged, Values
from agentgym.credit.streams import Layout
from agentgym.types import Group


class RLOO:
    """``A_i = R_i - mean_{j != i} R_j``: unbiased, no standard deviation.

    What dense turn rewards c do (``dense``):

    ``centred``  ``A_{i,t} = A_i + a * (c_{i,t} - mean_t c_i)``, A_i from the outcome alone, a = ``dense_weight``:
                 contrast of outcomes between episodes, zero-mean credit within one
    ``sum``      they join ``R_i``, and every turn gets the same A_i

    ``group_weighting="turn"``: the other episodes count once a turn in the mean; an episode is never part of its own
    baseline. A group of one gives 0 contrast, a constant group exactly 0.
    """

    def __init__(
        self,
        dense: Literal["centred", "sum"] = "centred",
        dense_weight: float = 1.0,
        group_weighting: Weighting = "trajectory",
    ) -> None:
        choice("rloo", "dense", dense, ("centred", "sum"))
        choice("rloo", "group_weighting", group_weighting, ("trajectory", "turn"))
        self.dense, self.dense_weight, self.group_weighting = dense, float(dense_weight), group_weighting
        self.traits = frozenset({"group_relative", "trajectory_sum" if dense == "sum" else "turn_contrast"})

    def compute(self, groups: list[Group], values: Values | None) -> Ragged:
        """Advantages ``[group][episode][turn]``."""
        values = values or outcome_values(groups)
        layout = Layout(values.total)
        if self.dense == "sum":
            return layout.split(self._contrast(layout.sums(layout.flat(values.total)), layout)[layout.owner])
        contrast = self._contrast(np.concatenate([np.zeros(0), *values.outcome]), layout)
        credit = centre(layout.flat(values.dense), layout.owner)
        return layout.split(contrast[layout.owner] + self.dense_weight * credit)

    def _contrast(self, returns: Array, layout: Layout) -> Array:
        alive = varies(returns, layout.group)[layout.group]
        weights = layout.weights(self.group_weighting)
        contrast: Array = np.where(alive, returns - others_mean(returns, weights, layout.group), 0.0)
        return contrast
