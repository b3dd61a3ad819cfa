"""A batch as flat arrays over turns: read once, computed on as a whole, cut into episodes at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from agentgym.credit.components import CreditError, finite, read
from agentgym.credit.protocols import Array, Ragged
from agentgym.types import Episode, Group

Index = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Streams:
    """``names`` are the components present; reading refuses NaN and infinity with env, task, turn and component."""

    def __init__(self, episodes: Sequence[Episode]) -> None:
        rewards = [turn.rewards for episode in episodes for turn in episode.turns]
        self.names = sorted(set().union(*rewards))
        self.lengths = np.array([len(episode.turns) for episode in episodes], np.int64)
        self._owner = np.repeat(np.arange(len(episodes)), self.lengths)
        self._flat = {name: finite(read(rewards, name), episodes, name) for name in self.names}

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
        return cut([len(group) for group in groups], self.lengths, flat)


class Layout:
    """The shape of a ragged batch, for arithmetic on all of its turns at once.

    ``sizes``    episodes per group, ``lengths`` turns per episode
    ``ends``     per episode, the flat index after its last turn
    ``group``    the group of each episode, ``owner`` the episode of each turn, ``turn_group`` the group of each turn
    """

    def __init__(self, ragged: Ragged) -> None:
        self.sizes = [len(group) for group in ragged]
        self.lengths: Index = np.array([len(turns) for group in ragged for turns in group], np.int64)
        self.ends: Index = np.cumsum(self.lengths)
        self.group: Index = np.repeat(np.arange(len(self.sizes)), self.sizes)
        self.owner: Index = np.repeat(np.arange(len(self.lengths)), self.lengths)
        self.turn_group: Index = self.group[self.owner]

    def flat(self, ragged: Ragged) -> Array:
        """All turns in one array. Raises CreditError where the shape differs from this batch's."""
        pieces = [turns for group in ragged for turns in group]
        if [len(piece) for piece in pieces] != self.lengths.tolist():
            raise CreditError("per-turn values of an estimator differ in shape: not the same episodes and turns")
        return np.concatenate(pieces).astype(np.float64) if pieces else np.zeros(0)

    def split(self, flat: Array) -> Ragged:
        """``[group][episode][turn]``: views into ``flat``."""
        return cut(self.sizes, self.lengths, flat)

    def sums(self, flat: Array) -> Array:
        """Per episode, the sum over its turns."""
        return np.bincount(self.owner, flat, len(self.lengths)).astype(np.float64)

    def weights(self, weighting: str) -> Array:
        """Per episode, what it counts in a group's statistics: 1 (``trajectory``) or its turns (``turn``)."""
        return np.ones(len(self.lengths)) if weighting == "trajectory" else self.lengths.astype(np.float64)

    def singleton(self) -> Flags:
        """Per turn: is it in a group of one episode? Such a group has no contrast."""
        return np.asarray(self.sizes, np.int64)[self.turn_group] < 2


def cut(sizes: Sequence[int], lengths: Index, flat: Array) -> Ragged:
    """Flat values as ``[group][episode][turn]``."""
    ends = np.cumsum(lengths).tolist()
    pieces = [flat[end - n : end] for end, n in zip(ends, lengths.tolist(), strict=True)]
    stops = np.cumsum(np.asarray(sizes, np.int64)).tolist()
    return [pieces[stop - n : stop] for stop, n in zip(stops, sizes, strict=True)]


def sampled_counts(groups: Sequence[Group]) -> Index:
    """Per turn, flat: how many of its tokens the sampler drew (0 for a turn without a token span)."""
    spans = [t.end - t.start if t.row >= 0 else 0 for group in groups for episode in group for t in episode.turns]
    return np.array(spans, np.int64)


def text_only(groups: Sequence[Group]) -> Flags:
    """Per turn, flat: does its episode have no token rows at all, so that turns cannot be told apart by tokens?"""
    lengths = [len(episode.turns) for group in groups for episode in group]
    return np.repeat(np.array([not episode.rows for group in groups for episode in group], np.bool_), lengths)
