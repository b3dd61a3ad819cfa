"""Numbers worth logging at every step: each component apart, the outcome, group sizes, dead groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.credit.components import CreditError
from agentgym.credit.numerics import CONSTANT, mean
from agentgym.credit.projection import empty_turns
from agentgym.credit.protocols import Array, Ragged
from agentgym.credit.streams import Streams
from agentgym.types import Group


def check_group_ids(groups: Sequence[Group]) -> None:
    """Refuse a batch of one-episode groups that share a task: a group id per episode."""
    keys = [group.key for group in groups]
    if len(keys) > 1 and all(len(group) == 1 for group in groups) and len(set(keys)) < len(keys):
        task = next(group.task for group in groups if keys.count(group.key) > 1)
        raise CreditError(
            f"{keys.count(task.id)} groups of {task.env} task {task.name!r} hold one episode each, so no group has a "
            "baseline. Put the episodes of one task and start state into one Group"
        )


def summarise(
    groups: Sequence[Group], live: Sequence[Group], streams: Streams, advantages: Ragged, dead: list[bool]
) -> dict[str, float]:
    """Flat floats. A mean, standard deviation or correlation that is not defined is left out."""
    episodes = [episode for group in live for episode in group]
    outcomes = np.array([episode.outcome for episode in episodes], np.float64)
    every = np.concatenate([np.zeros(0), *(turns for group in advantages for turns in group)])
    spreads = _spreads(outcomes, [len(group) for group in live])
    out = {
        "credit/dead_groups": _share(dead),
        "credit/singleton_groups": _share([len(group) == 1 for group in live]),
        "credit/group_size_min": float(min((len(group) for group in live), default=0)),
        "credit/group_size_max": float(max((len(group) for group in live), default=0)),
        "credit/dropped_episodes": float(sum(len(group) for group in groups) - len(episodes)),
        "credit/empty_turns": float(sum(empty_turns(episode) for episode in episodes)),
        "credit/zero_advantage_turns": float((every == 0).mean()) if len(every) else 0.0,
        "credit/advantage_abs_mean": float(np.abs(every).mean()) if len(every) else 0.0,
    }
    if len(spreads):
        out["credit/in_group_std"] = float(spreads.mean())
    if episodes:
        out["credit/outcome_mean"] = float(outcomes.mean())
        out["credit/outcome_std"] = float(outcomes.std())
    for name in streams.names:
        out.update(_component(name, streams.per_episode(name), outcomes))
    return out


def _spreads(outcomes: Array, sizes: list[int]) -> Array:
    """The outcomes' standard deviation in each group of two or more episodes."""
    label = np.repeat(np.arange(len(sizes)), sizes)
    offset = outcomes - mean(outcomes, np.ones(len(outcomes)), label)[label]
    variance = mean(offset**2, np.ones(len(outcomes)), label)
    result: Array = np.sqrt(variance)[np.array(sizes, np.int64)[: len(variance)] > 1]
    return result


def _component(name: str, sums: Array, outcomes: Array) -> dict[str, float]:
    out = {f"credit/{name}/mean": float(sums.mean()), f"credit/{name}/std": float(sums.std())}
    if len(sums) > 1 and np.ptp(sums) > CONSTANT and np.ptp(outcomes) > CONSTANT:
        out[f"credit/{name}/outcome_corr"] = float(np.corrcoef(sums, outcomes)[0, 1])
    return out


def _share(flags: list[bool]) -> float:
    return float(np.mean(flags)) if flags else 0.0
