"""HGPO: GiGPO's step groups at several depths of history, a weighted mean of them (ICLR 2026)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agentgym.credit.anchors import Anchor, anchors
from agentgym.credit.gigpo import within
from agentgym.credit.numerics import (
    Label,
    Norm,
    Std,
    Weighting,
    choice,
    fraction,
    outcome_values,
    returns_to_go,
    z_score,
)
from agentgym.credit.protocols import Array, Ragged, Values
from agentgym.credit.streams import Layout
from agentgym.errors import ConfigError
from agentgym.types import Group


class HGPO:
    """``A_{i,t} = sum_k k^a A^k_{i,t} / sum_k k^a`` over those k = 1 .. K+1 whose group has two members or more.

    ``A^k`` is the discounted return G_t against that of all turns of the group whose last k observations, the
    present one included, are the same. An episode's beginning is part of the history: a turn with fewer than k
    observations before it matches turns with the same ones from the beginning. Members are counted, not recognised
    by a value other than 0, so a true advantage of 0 takes part in the mean.

    ``history``      K, >= 0 (0 is GiGPO's step term alone). ``weight_exponent`` a: how much the longer ones count
    ``norm``, ``std``  of every A^k, see GiGPO. ``base_group``: add the episode term A^E of GiGPO, with the same norm
    ``anchor``       ``state_key`` or ``observation``. ``group_weighting``: of A^E, see GRPO

    A turn that shares its state with no other gives 0, an empty anchor is no state, a group of one episode gives 0.
    """

    def __init__(
        self,
        history: int = 2,
        gamma: float = 0.95,
        weight_exponent: float = 1.0,
        norm: Norm = "mean",
        std: Literal["population", "sample"] = "population",
        base_group: bool = False,
        anchor: Anchor = "state_key",
        group_weighting: Weighting = "trajectory",
    ) -> None:
        fraction("hgpo", gamma=gamma)
        choice("hgpo", "norm", norm, ("mean", "mean_std"))
        choice("hgpo", "std", std, ("population", "sample"))
        choice("hgpo", "anchor", anchor, ("state_key", "observation"))
        choice("hgpo", "group_weighting", group_weighting, ("trajectory", "turn"))
        if history < 0 or not np.isfinite(weight_exponent):
            raise ConfigError(
                f"estimator 'hgpo': history must be >= 0 and weight_exponent finite, got {history}, {weight_exponent}"
            )
        self.std: Std = std if norm == "mean_std" else "none"
        self.history, self.gamma, self.weight_exponent = history, gamma, float(weight_exponent)
        self.base_group, self.anchor, self.group_weighting = base_group, anchor, group_weighting
        self.traits = frozenset({"group_relative"} | ({"normalises"} if self.std != "none" else set()))

    def compute(self, groups: list[Group], values: Values | None) -> Ragged:
        """Advantages ``[group][episode][turn]``."""
        values = values or outcome_values(groups)
        layout = Layout(values.total)
        total = layout.flat(values.total)
        out = self._step(returns_to_go(total, self.gamma, layout.lengths), anchors(groups, self.anchor), layout)
        if self.base_group:
            weights = layout.weights(self.group_weighting)
            out = out + z_score(layout.sums(total), weights, self.std, layout.group)[layout.owner]
        return layout.split(np.where(layout.singleton(), 0.0, out))

    def _step(self, to_go: Array, state: Label, layout: Layout) -> Array:
        total, weight = np.zeros(len(to_go)), np.zeros(len(to_go))
        label = state
        for k in range(1, self.history + 2):
            if k > 1:
                label = _longer(label, state, layout)
            known = label >= 0
            shared = known & (np.bincount(label[known], minlength=1)[np.maximum(label, 0)] > 1)
            total += k**self.weight_exponent * within(to_go, label, shared, self.std)
            weight += np.where(shared, k**self.weight_exponent, 0.0)
        return total / np.where(weight > 0, weight, 1.0)


def _longer(label: Label, state: Label, layout: Layout) -> Label:
    """From numbers of the last k - 1 observations to numbers of the last k; -1 where one of them is no state."""
    begins = np.zeros(len(state), np.bool_)
    begins[(layout.ends - layout.lengths)[layout.lengths > 0]] = True
    before = np.where(begins, 0, np.append(-1, label)[: len(label)] + 1)  # 0 stands for the episode's beginning
    known = (state >= 0) & (begins | (before > 0))
    out = np.full(len(state), -1, np.int64)
    pairs = before[known] * (int(state.max(initial=0)) + 1) + state[known]
    out[known] = np.unique(pairs, return_inverse=True)[1]
    return out
