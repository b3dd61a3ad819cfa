"""All components of a batch as flat arrays over turns: read once, summed and cut into episodes from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from agentgym.credit.components import flat_component
from agentgym.credit.protocols import Array, Ragged
from agentgym.types import Episode, Group


class Streams:
    """``names`` are the components present; reading refuses NaN and infinity with env, task, turn and component."""

    def __init__(self, episodes: Sequence[Episode]) -> None:
        self.names = sorted({name for episode in episodes for turn in episode.turns for name in turn.rewards})
        self.lengths = np.array([len(episode.turns) for episode in episodes], np.int64)
        self._owner = np.repeat(np.arange(len(episodes)), self.lengths)
        self._flat = {name: flat_component(episodes, name) for name in self.names}

    def sum(self, weights: Mapping[str, float]) -> Array:
        """The weighted sum of components, per turn; a name that no turn carries adds nothing."""
        out = np.zeros(int(self.lengths.sum()))
        for name, weight in weights.items():
            if name in self._flat:
                out += weight * self._flat[name]
        return out

    def per_episode(self, name: str) -> Array:
        """The sum of one component over each episode's turns."""
        values = self._flat.get(name, np.zeros(len(self._owner)))
        return np.bincount(self._owner, weights=values, minlength=len(self.lengths)).astype(np.float64)

    def split(self, groups: Sequence[Group], flat: Array) -> Ragged:
        """Per-turn values as ``[group][episode][turn]``; the groups hold this batch's episodes in order."""
        ends = np.cumsum(self.lengths).tolist()
        pieces = iter([flat[end - n : end] for end, n in zip(ends, self.lengths.tolist(), strict=True)])
        return [[next(pieces) for _ in group] for group in groups]
