"""Named per-turn reward components: written once, never overwritten, always logged apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, nan
from operator import itemgetter

import numpy as np

from agentgym.credit.protocols import Array, Ragged
from agentgym.errors import AgentGymError, unknown
from agentgym.types import Episode, Group


class CreditError(AgentGymError):
    """A reward, a component or an advantage is not what credit assignment can work with."""


def add_component(episode: Episode, name: str, values: Sequence[float] | Array) -> None:
    """Write component ``name`` on every turn. Raises CreditError if it exists or holds NaN or infinity."""
    if len(values) != len(episode.turns):
        raise CreditError(
            f"{episode.where}: component {name!r} has {len(values)} values for {len(episode.turns)} turns"
        )
    numbers: list[float] = values.tolist() if isinstance(values, np.ndarray) else list(map(float, values))
    for turn, value, sound in zip(episode.turns, numbers, map(isfinite, numbers), strict=True):
        rewards = turn.rewards
        if name in rewards:
            raise CreditError(
                f"{episode.where}, turn {turn.index}: component {name!r} exists already "
                f"({rewards[name]!r}) and components are never overwritten; give the new one another name"
            )
        if not sound:
            raise CreditError(f"{episode.where}, turn {turn.index}: component {name!r} is {value!r}, must be finite")
        rewards[name] = value


def read(rewards: Sequence[Mapping[str, float]], name: str) -> Array:
    """One component of many turns, given their ``rewards``; 0 on turns without it."""
    try:
        return np.fromiter(map(itemgetter(name), rewards), np.float64, len(rewards))
    except KeyError:
        return np.fromiter((turn.get(name, 0.0) for turn in rewards), np.float64, len(rewards))


def finite(values: Array, episodes: Sequence[Episode], name: str) -> Array:
    """``values`` of all turns of the episodes, unchanged. Raises CreditError with the place of a NaN or infinity."""
    if not np.isfinite(values).all():
        at = int(np.flatnonzero(~np.isfinite(values))[0])
        episode, turn = [(episode, turn) for episode in episodes for turn in episode.turns][at]
        raise CreditError(f"{episode.where}, turn {turn.index}: component {name!r} is {values[at]}, must be finite")
    return values


def flat_component(episodes: Sequence[Episode], name: str) -> Array:
    """One component of all turns of all episodes in one array; 0 on turns without it. Refuses NaN and infinity."""
    return finite(read([turn.rewards for episode in episodes for turn in episode.turns], name), episodes, name)


def component(episode: Episode, name: str) -> Array:
    """One component of one episode, per turn; 0 on turns without it. Raises CreditError on NaN or infinity."""
    return flat_component([episode], name)


def turn_rewards(episode: Episode, names: Sequence[str]) -> Array:
    """The sum of the named components, per turn. A name that no turn of the episode carries is refused."""
    total = np.zeros(len(episode.turns))
    for name in names:
        if episode.turns and not any(name in turn.rewards for turn in episode.turns):
            known = {key for turn in episode.turns for key in turn.rewards}
            raise unknown(f"reward component in {episode.where}", name, known)
        total += component(episode, name)
    return total


def components(groups: Sequence[Group]) -> dict[str, Ragged]:
    """All components, ``name -> [group][episode][turn]``; NaN where a turn lacks the name (absent is not 0)."""
    names = sorted({name for group in groups for episode in group for turn in episode.turns for name in turn.rewards})
    return {
        name: [
            [np.array([turn.rewards.get(name, nan) for turn in episode.turns], np.float64) for episode in group]
            for group in groups
        ]
        for name in names
    }
