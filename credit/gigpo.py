"""GiGPO: group-in-group policy optimisation (Feng et al., arXiv 2505.10978)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agentgym.credit.anchors import Anchor, anchors
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


class GiGPO:
    """``A_{i,t} = A^E_i + omega * A^S_{i,t}``.

    ``A^E``  the episode's paid rewards against its group's, as GRPO; ``A^S``  the discounted return
    ``G_t = sum_{k>=t} gamma^{k-t} r_k`` (dense rewards included) against that of all turns of the group that were
    taken from the same state, in any episode at any time.

    ``norm``         of A^S: ``mean`` subtracts the mean, ``mean_std`` divides by ``std`` (``population``, ``sample``)
    ``episode_std``  the same for A^E: ``population``, ``sample``, ``none``; None: as A^S
    ``anchor``       what a state is known by: ``state_key``, the raw observation without counters, or ``observation``
    ``similarity``   texts whose difflib ratio with the first of a cluster is at least this count as one state, in
                     (0, 1]; None: equal texts only (quadratic in a group's distinct states; for search)
    ``first_visit``  an episode counts once in a state, with its first visit; later ones get A^S = 0
    ``group_weighting``  of A^E, see GRPO

    A state met once gives A^S = 0; an empty anchor is no state. A group of one episode gives 0.
    """

    def __init__(
        self,
        gamma: float = 0.95,
        omega: float = 1.0,
        norm: Norm = "mean",
        std: Literal["population", "sample"] = "population",
        episode_std: Std | None = None,
        anchor: Anchor = "state_key",
        similarity: float | None = None,
        first_visit: bool = False,
        group_weighting: Weighting = "trajectory",
    ) -> None:
        fraction("gigpo", gamma=gamma, similarity=1.0 if similarity is None else similarity)
        choice("gigpo", "norm", norm, ("mean", "mean_std"))
        choice("gigpo", "std", std, ("population", "sample"))
        choice("gigpo", "anchor", anchor, ("state_key", "observation"))
        choice("gigpo", "group_weighting", group_weighting, ("trajectory", "turn"))
        if similarity == 0:
            raise ConfigError("estimator 'gigpo': similarity 0 makes all states one; use a value in (0, 1], such as .9")
        self.step_std: Std = std if norm == "mean_std" else "none"
        self.episode_std: Std = self.step_std if episode_std is None else episode_std
        choice("gigpo", "episode_std", self.episode_std, ("population", "sample", "none"))
        self.gamma, self.omega, self.anchor, self.similarity = gamma, float(omega), anchor, similarity
        self.first_visit, self.group_weighting = first_visit, group_weighting
        normalised = {self.step_std, self.episode_std} != {"none"}
        self.traits = frozenset({"group_relative"} | ({"normalises"} if normalised else set()))

    def compute(self, groups: list[Group], values: Values | None) -> Ragged:
        """Advantages ``[group][episode][turn]``."""
        values = values or outcome_values(groups)
        layout = Layout(values.total)
        total = layout.flat(values.total)
        weights = layout.weights(self.group_weighting)
        episode = z_score(layout.sums(total), weights, self.episode_std, layout.group)[layout.owner]
        to_go = returns_to_go(total, self.gamma, layout.lengths)
        step = self._step(to_go, anchors(groups, self.anchor, self.similarity), layout)
        return layout.split(np.where(layout.singleton(), 0.0, episode + self.omega * step))

    def _step(self, to_go: Array, state: Label, layout: Layout) -> Array:
        member = state >= 0
        if self.first_visit:
            visit = layout.owner * (int(state.max(initial=0)) + 1) + state
            first = np.unique(np.where(member, visit, -1), return_index=True)[1]
            member &= np.isin(np.arange(len(state)), first)
        return within(to_go, state, member, self.step_std)


def within(x: Array, state: Label, member: np.ndarray, std: Std) -> Array:
    """``x`` against the members with the same ``state``; 0 for a member alone in its state, and for all others."""
    scores = z_score(x, member.astype(np.float64), std, np.maximum(state, 0))
    return np.where(member, scores, 0.0)
