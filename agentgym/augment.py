"""Prompt augmentation: text that a lesson memory or a subgoal adviser adds to a turn's prompt.

The added text is prompt: it is recorded with the turn, and never trained on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from agentgym.types import Observation, Task, Turn

Mode = Literal["train", "eval"]


@dataclass(frozen=True, slots=True)
class PromptContext:
    """What an augmenter sees before a turn.

    ``slot``   index of the episode in its group of ``slots`` episodes; ``turn`` = ``len(turns)``, the turn to come
    ``turns``  the turns so far; ``observation`` the present one
    ``mode``   ``train`` or ``eval``; in ``eval`` an augmenter changes nothing that it keeps
    """

    task: Task
    slot: int
    slots: int
    turns: Sequence[Turn]
    observation: Observation
    milestone_names: tuple[str, ...] = ()
    mode: Mode = "eval"

    @property
    def turn(self) -> int:
        """Index of the turn to come."""
        return len(self.turns)


@dataclass(frozen=True, slots=True)
class PromptPatch:
    """Text added below the observation of one turn.

    ``source``  names where it came from; it is recorded, since groups must not mix sources unnoticed
    ``sticky``  in the window layout, whose prompt is rebuilt each turn, show it in all later turns too (a chat keeps
                every message anyway)
    """

    text: str
    source: str
    sticky: bool = False


class Augmenter(Protocol):
    """Asked before every turn; None adds nothing. May be a coroutine, where an answer comes from a model."""

    def augment(self, context: PromptContext) -> PromptPatch | Awaitable[PromptPatch | None] | None: ...
