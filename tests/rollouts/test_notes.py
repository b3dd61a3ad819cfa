"""Notes that an augmenter adds to prompts: where they stand, what is recorded, what happens when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fakes import Counter

from agentgym.augment import PromptContext, PromptPatch
from agentgym.policy import Message, Policy, PolicyRequest, SampledTurn
from agentgym.prompts import PromptLayout
from agentgym.rollouts import Limits, RolloutConfig, RolloutEngine
from agentgym.types import Episode


class Listener(Policy):
    """Keeps the prompts it was given and always opens door 1."""

    name = "listener"

    def __init__(self) -> None:
        self.prompts: list[list[Message]] = []

    async def act(self, request: PolicyRequest) -> SampledTurn:
        self.prompts.append(request.messages)
        return SampledTurn("<action>look</action>")


class Adviser:
    """Calls a function."""

    def __init__(self, say: Callable[[PromptContext], Any]) -> None:
        self.augment = say


def play(
    say: Callable[[PromptContext], Any], layout: str = "chat", n: int = 1, **limits: Any
) -> tuple[Listener, list[Episode]]:
    listener = Listener()
    config = RolloutConfig(
        PromptLayout(layout=layout, history=1),  # type: ignore[arg-type]
        limits=Limits(max_turns=3, **limits), augmenter=Adviser(say), mode="train", concurrency=1,
    )  # fmt: skip
    with RolloutEngine(Counter, listener, config) as engine:
        (group,) = engine.run_sync(Counter().tasks("train")[:1], n=n, seed=0)
    return listener, group.episodes


def test_a_chat_keeps_notes_where_they_were_given() -> None:
    listener, (episode,) = play(lambda c: PromptPatch(f"note {c.turn}", "me") if c.turn != 1 else None)
    users = [m["content"] for m in listener.prompts[2] if m["role"] == "user"]
    assert [text.rpartition("\n")[2] for text in users][::2] == ["note 0", "note 2"]
    assert "note" not in users[1]
    assert [turn.info.get("note") for turn in episode.turns] == ["note 0", None, "note 2"]
    assert [turn.info.get("note_source") for turn in episode.turns] == ["me", None, "me"]
    assert episode.info["prompt_sources"] == ["me"]


@pytest.mark.parametrize(("sticky", "last"), [(True, "once"), (False, "")])
def test_a_window_shows_sticky_notes_again(sticky: bool, last: str) -> None:
    listener, (episode,) = play(lambda c: None if c.turn else PromptPatch("once", "me", sticky), "window")
    assert [prompt[-1]["content"].endswith("once") for prompt in listener.prompts] == [True, sticky, sticky]
    assert episode.turns[2].info.get("note", "") == last


def test_the_context_tells_slot_size_mode_and_what_happened() -> None:
    seen: list[PromptContext] = []
    play(seen.append, n=2)
    assert [(c.slot, c.slots, c.turn, c.mode) for c in seen] == [(i, 2, t, "train") for i in (0, 1) for t in range(3)]
    assert [turn.action for turn in seen[2].turns] == ["look", "look"]
    assert seen[0].observation.text


def test_an_augmenter_may_be_a_coroutine() -> None:
    async def say(context: PromptContext) -> PromptPatch:
        await asyncio.sleep(0)
        return PromptPatch("later", "model")

    _, (episode,) = play(say)
    assert episode.turns[0].info["note"] == "later"


@pytest.mark.parametrize(
    ("say", "message"),
    [
        (lambda c: 1 / 0, "the augmenter raised ZeroDivisionError"),
        (lambda c: "text", "the augmenter gave str, expected PromptPatch or None"),
        (lambda c: asyncio.sleep(60), "the augmenter gave nothing within 0.1 s"),
    ],
)
def test_a_failing_augmenter_ends_the_episode_not_the_run(say: Callable[[PromptContext], Any], message: str) -> None:
    _, (episode,) = play(say, policy_timeout=0.1)
    assert episode.termination == "aborted"
    assert message in episode.error
