"""Hand-made attempts with actions and milestones, and a model that answers from a function."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agentgym.augment import Mode, PromptContext
from agentgym.policy import Message
from agentgym.types import Episode, Group, Observation, Task, Termination, Turn

TASK = Task("fake", "t", "train")


def make_attempt(
    index: int,
    success: bool = False,
    reached: int = 0,
    *,
    task: Task = TASK,
    milestones: Sequence[str] = ("key", "door"),
    actions: Sequence[str] = ("look", "go"),
    refused: Sequence[str] = (),
    lessons: str = "",
    text: str = "Your task is to: open the door.",
    last: str = "",
) -> Episode:
    """One turn an action; ``reached`` milestones are reached in the last ``reached`` turns."""
    turns = []
    for t, action in enumerate(actions):
        have = tuple(milestones[: max(0, reached - (len(actions) - 1 - t))])
        ended = success and t == len(actions) - 1
        after = last if t == len(actions) - 1 else f"seen {t + 1}"
        seen = text if t == 0 else f"seen {t}"
        turns.append(
            Turn(t, seen, "r", action, after, seen, grounded=action not in refused, terminated=ended, milestones=have)
        )
    info = {"prompt_sources": [f"lesson:{lessons}"]} if lessons else {}
    ended_by = Termination.ENV_DONE if success else Termination.MAX_TURNS
    return Episode(
        task, index, index, turns, ended_by, float(success), success, milestone_names=tuple(milestones), info=info
    )


def make_context(slot: int, slots: int = 4, mode: Mode = "train", **options: Any) -> PromptContext:
    """The first turn of an episode of task ``t``."""
    text = options.pop("text", "Your task is to: open the door.")
    return PromptContext(options.pop("task", TASK), slot, slots, options.pop("turns", ()), Observation(text), (), mode)


class FakeGenerator:
    """Answers ``answer(question, seed)`` after ``delay(question)`` seconds; an exception it returns is raised."""

    def __init__(self, answer: Callable[[str, int], Any], delay: Callable[[str], float] = lambda text: 0.0) -> None:
        self.answer, self.delay = answer, delay
        self.questions: list[str] = []
        self.seeds: list[int] = []
        self.open = self.most = 0

    async def complete(self, messages: list[Message], *, max_tokens: int = 512, seed: int = 0) -> str:
        text = "\n".join(message["content"] for message in messages)
        self.questions.append(text)
        self.seeds.append(seed)
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            await asyncio.sleep(self.delay(text))
        finally:
            self.open -= 1
        found = self.answer(text, seed)
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def attempt() -> Callable[..., Episode]:
    """:func:`make_attempt`."""
    return make_attempt


@pytest.fixture(scope="session")
def attempts() -> Callable[..., Group]:
    """A group of :func:`make_attempt` by keyword sets."""

    def make(*specs: dict[str, Any], task: Task = TASK) -> Group:
        return Group(task, [make_attempt(i, task=task, **spec) for i, spec in enumerate(specs)])

    return make


@pytest.fixture(scope="session")
def context() -> Callable[..., PromptContext]:
    """:func:`make_context`."""
    return make_context


@pytest.fixture(scope="session")
def fake_generator() -> type[FakeGenerator]:
    """:class:`FakeGenerator`."""
    return FakeGenerator
