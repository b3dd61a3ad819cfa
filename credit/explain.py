"""What credit says about recorded episodes, as plain rows: every component and the advantage of every turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym.credit.pipeline import CreditPipeline, CreditResult, live_groups
from agentgym.types import Episode, Group


@dataclass(frozen=True, slots=True)
class TurnCredit:
    """One turn: ``components`` as recorded, ``paid`` their weighted sum as the estimator saw it, ``advantage``."""

    turn: int
    action: str | None
    valid: bool
    grounded: bool
    components: dict[str, float]
    paid: float
    advantage: float


@dataclass(frozen=True, slots=True)
class EpisodeCredit:
    """One episode and its turns."""

    episode: Episode
    turns: list[TurnCredit]

    def to_dict(self) -> dict[str, Any]:
        """JSON-compatible."""
        episode = self.episode
        return {
            "task": episode.task.name,
            "task_id": episode.task.id,
            "episode": episode.index,
            "outcome": episode.outcome,
            "success": episode.success,
            "termination": episode.termination.value,
            "turns": [{name: getattr(turn, name) for name in TurnCredit.__slots__} for turn in self.turns],
        }


def group(episodes: Iterable[Episode]) -> list[Group]:
    """Episodes by task, in order of first appearance."""
    found: dict[str, Group] = {}
    for episode in episodes:
        found.setdefault(episode.task.id, Group(episode.task, [])).episodes.append(episode)
    return list(found.values())


def explain(
    groups: list[Group], pipeline: CreditPipeline, fit: bool = True
) -> tuple[list[EpisodeCredit], CreditResult]:
    """Run ``pipeline`` over recorded groups. ``fit``: let modules that learn fit themselves on these very groups.

    The groups' turns keep the components afterwards; those that an earlier pipeline recorded under the same names are
    replaced.
    """
    forget(groups, pipeline)
    if fit and pipeline.parts.warmup_episodes:
        pipeline.parts.warm_up(live_groups(groups))
    result = pipeline.run(groups)
    return list(_rows(groups, pipeline, result)), result


def forget(groups: list[Group], pipeline: CreditPipeline) -> None:
    """Take the components that ``pipeline`` is about to write off the groups' turns; ``env`` was recorded in play."""
    own = {getattr(part, "component", getattr(part, "name", "")) for part in pipeline.rewarders} | set(pipeline.paid)
    own.discard("env")
    for episode in (episode for some in groups for episode in some):
        for turn in episode.turns:
            turn.rewards = {name: value for name, value in turn.rewards.items() if name not in own}


def _rows(groups: list[Group], pipeline: CreditPipeline, result: CreditResult) -> Iterator[EpisodeCredit]:
    for some, advantages in zip(groups, result.advantages, strict=True):
        for episode, values in zip(some, advantages, strict=True):
            yield EpisodeCredit(
                episode,
                [
                    TurnCredit(
                        turn.index, turn.action, turn.valid, turn.grounded, dict(turn.rewards),
                        float(np.sum([w * turn.rewards.get(name, 0.0) for name, w in pipeline.paid.items()])),
                        float(value),
                    )
                    for turn, value in zip(episode.turns, values, strict=True)
                ],
            )  # fmt: skip
