"""RLOO: REINFORCE with a leave-one-out baseline (Kool et al. 2019; Ahmadian et al., arXiv 2402.14740)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agentgym.credit.numerics import Weighting, centre, choice, is_constant, others_mean, outcome_values, turn_counts
from agentgym.credit.protocols import Array, Ragged, Values
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
        self.traits = frozenset({"group_relative"} | ({"trajectory_sum"} if dense == "sum" else set()))

    def compute(self, groups: list[Group], values: Values | None) -> Ragged:
        """Advantages ``[group][episode][turn]``."""
        values = values or outcome_values(groups)
        out: Ragged = []
        for group, credit, outcome in zip(values.total, values.dense, values.outcome, strict=True):
            if self.dense == "sum":
                returns = np.array([turns.sum() for turns in group], np.float64)
                out.append([np.full(len(c), a) for c, a in zip(credit, self._contrast(returns, group), strict=True)])
            else:
                contrast = self._contrast(outcome, group)
                out.append([a + self.dense_weight * centre(c) for c, a in zip(credit, contrast, strict=True)])
        return out

    def _contrast(self, returns: Array, group: list[Array]) -> Array:
        if is_constant(returns):
            return np.zeros_like(returns)
        return returns - others_mean(returns, turn_counts(group, self.group_weighting))
