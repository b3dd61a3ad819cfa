"""What an evaluation keeps of an episode: a few numbers, so that ten thousand episodes fit into a few megabytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentgym.types import Episode, Termination


@dataclass(frozen=True, slots=True)
class Outcome:
    """One episode in numbers. ``failed``: the infrastructure ended it, so it counts as unsolved with outcome 0.

    ``invalid`` and ``refused`` count turns, ``money`` is in the currency of the prices given; ``error`` names the
    episode and what broke it.
    """

    task: str
    kind: str
    index: int
    success: bool
    outcome: float
    termination: str
    failed: bool
    turns: int
    sampled_tokens: int
    prompt_tokens: int
    invalid: int
    refused: int
    money: float = 0.0
    error: str = ""

    @classmethod
    def of(cls, episode: Episode) -> Outcome:
        """The numbers of ``episode``."""
        failed = episode.termination.is_failure
        sampled = prompt = invalid = refused = 0
        money = 0.0
        for turn in episode.turns:
            sampled += turn.sampled_tokens
            prompt += turn.prompt_tokens
            invalid += not turn.valid
            refused += not turn.grounded
            money += turn.info.get("cost", 0.0)
        return cls(
            episode.task.id, episode.task.kind, episode.index, episode.success,
            0.0 if failed else episode.outcome, episode.termination.value, failed, len(episode.turns), sampled, prompt,
            invalid, refused, money, _error(episode) if failed else "",
        )  # fmt: skip

    @property
    def key(self) -> tuple[str, int]:
        """Task id and attempt."""
        return self.task, self.index


def truncations(terminations: dict[str, int]) -> dict[str, int]:
    """Those of ``terminations`` (reason -> episodes) that are limits: the state was not terminal."""
    return {name: count for name, count in terminations.items() if Termination(name).is_truncation}


def _error(episode: Episode) -> str:
    known = episode.error.startswith(episode.where)
    return episode.error if known else f"{episode.where}: {episode.error}"


def mean(values: list[Any]) -> float:
    """The mean; 0 of nothing."""
    return sum(values) / len(values) if values else 0.0
