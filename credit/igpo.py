"""IGPO's estimator: normalise information gains and outcomes in the group, then accumulate (arXiv 2510.14967)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agentgym.credit.numerics import choice, fraction, outcome_values, returns_to_go, varies, z_score
from agentgym.credit.protocols import Array, Ragged, Values
from agentgym.credit.streams import Layout
from agentgym.errors import ConfigError
from agentgym.types import Group


class IGPO:
    """``A_{i,t} = sum_{k>=t} gamma^{k-t} r~_{i,k}``: normalised gains on all turns but the last, normalised outcome
    on the last.

    ``norm``  ``separate`` (as published): the group's gains and its outcomes each get their own z-score;
              ``joint``: one for both. Population std. The gains are ``values.dense`` of every turn but an episode's
              last: chosen by place, so a gain of exactly 0 is one. What an episode's last turn holds of dense reward
              is not paid (``report`` counts such turns), and an episode without turns has an outcome but no turn.
    ``ig_weight``  multiplies the gains after normalisation. ``gamma`` in [0, 1], per turn.

    A group of one episode gives 0, and so do gains, or outcomes, without spread; ``joint`` gives 0 where both have
    none (else a group that always succeeds, and has no known answer, would be paid for gains that are all 0).
    """

    def __init__(
        self, norm: Literal["separate", "joint"] = "separate", gamma: float = 1.0, ig_weight: float = 1.0
    ) -> None:
        choice("igpo", "norm", norm, ("separate", "joint"))
        fraction("igpo", gamma=gamma)
        if ig_weight < 0:
            raise ConfigError(f"estimator 'igpo': ig_weight must be >= 0, got {ig_weight}")
        self.norm, self.gamma, self.ig_weight = norm, gamma, float(ig_weight)
        self.traits = frozenset({"group_relative", "normalises", "turn_contrast"})
        self._unpaid = 0

    def compute(self, groups: list[Group], values: Values | None) -> Ragged:
        """Advantages ``[group][episode][turn]``."""
        values = values or outcome_values(groups)
        layout = Layout(values.total)
        dense, outcome = layout.flat(values.dense), np.concatenate([np.zeros(0), *values.outcome])
        played = layout.lengths > 0
        final = np.zeros(len(dense), np.bool_)
        final[layout.ends[played] - 1] = True
        self._unpaid = int(np.count_nonzero(dense[final]))
        gains = (dense[~final], layout.turn_group[~final])
        if self.norm == "separate":
            gain, score = _z(*gains), _z(outcome, layout.group)
        else:
            pooled = _z(np.concatenate([gains[0], outcome]), np.concatenate([gains[1], layout.group]))
            gain, score = pooled[: len(gains[0])], pooled[len(gains[0]) :]
        rewards = np.zeros(len(dense))
        rewards[~final], rewards[final] = self.ig_weight * gain, score[played]
        contrast = np.zeros(len(layout.sizes), np.bool_)
        for found in (varies(*gains), varies(outcome, layout.group)):
            contrast[: len(found)] |= found
        rewards *= contrast[layout.turn_group]
        advantages = returns_to_go(rewards, self.gamma, layout.lengths)
        return layout.split(np.where(layout.singleton(), 0.0, advantages))

    def report(self) -> dict[str, float]:
        """``unpaid_final_turns``: last turns whose dense reward was left out in the last ``compute``."""
        return {"unpaid_final_turns": float(self._unpaid)}


def _z(x: Array, label: np.ndarray) -> Array:
    return z_score(x, np.ones(len(x)), "population", label)
