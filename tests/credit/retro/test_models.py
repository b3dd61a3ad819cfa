"""Reflections by a model: what it is shown, what is made of its answer, and what happens when none comes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.credit.protocols import Services
from agentgym.credit.retro import Retro
from agentgym.credit.retro.models import messages_for, parse, transcript
from agentgym.judge import JudgeError
from agentgym.types import Episode, Group

Attempt = Callable[..., Episode]
Attempts = Callable[..., Group]


def answer(completed: Any = 1, total: Any = 2, success: Any = False, lesson: Any = "look for the key first") -> str:
    return json.dumps({"completed": completed, "total": total, "success": success, "lesson": lesson})


def reflect(part: Retro, groups: list[Group], generator: Any, step: int = 3) -> list[float]:
    """Apply and give R_int of every episode."""
    asyncio.run(part.apply(groups, Services({part.reflection: generator}), step))
    return [episode.turns[-1].rewards["retro"] for group in groups for episode in group]


@pytest.mark.parametrize(
    ("text", "phi", "predicted", "lesson"),
    [
        (answer(), 0.5, False, "look for the key first"),
        (f"Sure!\n```json\n{answer(2, 2, True)}\n```\nHope it helps {{}}", 1.0, True, "look for the key first"),
        ('{"note": 1} {"phi": 0.25, "success": "yes", "lesson": "x"}', 0.25, True, "x"),
        ('{"phi": 0.9, "success": true} no, rather {"phi": 0.1, "success": false}', 0.1, False, ""),
        (answer(9, 3), 1.0, False, "look for the key first"),
        (answer(-1, 3), 0.0, False, "look for the key first"),
        (answer("1", "4"), 0.25, False, "look for the key first"),
        (answer(lesson=["a", "b"]), 0.5, False, ""),
        (answer(success=None), 0.5, None, "look for the key first"),
        ('{"completed": {"phi": 1}, "total": 2, "phi": 0.5}', 0.5, None, ""),
    ],
)
def test_answers_are_read(text: str, phi: float, predicted: bool | None, lesson: str) -> None:
    found = parse(text)
    assert (found.phi, found.predicted, found.lesson, found.problem) == (phi, predicted, lesson, "")


@pytest.mark.parametrize(
    "text",
    [
        "", "no", "{", '{"completed": 1, "total": 2', '{"completed": 1}', answer(1, 0), answer("many", 2),
        answer(True, 2),
        '{"phi": NaN}', '{"phi": 1e999}', f'{{"phi": {"9" * 400}}}', "[1, 2]", '{"lesson": "only this one"}', None, 7,
        '{"a":' * 5000, "{" * 20000,
    ],
)  # fmt: skip
def test_unreadable_answers_give_phi_zero_and_no_lesson(text: Any) -> None:
    found = parse(text)
    assert (found.phi, found.predicted, found.lesson, found.problem) == (0.0, None, "", "parse")


@given(st.text() | st.recursive(st.none() | st.floats() | st.text(), lambda x: st.lists(x)).map(json.dumps))
def test_no_answer_raises_or_leaves_the_range(text: str) -> None:
    for framed in (
        text,
        f'{{"phi": {text}, "success": {text}, "lesson": {text}}}',
        f'{{"total": 1, "completed": {text}}}',
    ):
        assert 0 <= parse(framed).phi <= 1


def test_the_outcome_is_not_in_the_question(attempt: Attempt) -> None:
    won = attempt(0, True, 2, actions=["look", "open door"], last="VICTORY! You won.")
    lost = attempt(0, False, 0, actions=["look", "open door"], last="You failed.")
    won.turns[-1].rewards["env"] = lost.turns[-1].rewards["env"] = 0.123456
    assert messages_for(won) == messages_for(lost)
    text = messages_for(won)[0]["content"]
    for word in ("VICTORY", "0.123456", "env_done", "max_turns"):
        assert word not in text
    for word in ("open the door", "Action 2: open door", "Subtasks: key, door", "seen 1"):
        assert word in text


def test_long_episodes_are_cut_to_size(attempt: Attempt) -> None:
    long = attempt(0, actions=[f"act {i}" for i in range(100)], text="x" * 50_000)
    for turn in long.turns[1:]:
        turn.observation = "y" * 50_000
    text = transcript(long, 3000)
    assert len(text) < 24 * 300 + 3000
    assert "76 turns left out" in text
    shown = [i for i in range(100) if f"Action {i + 1}: act {i}" in text]
    assert shown == [*range(8), *range(84, 100)]


def test_answers_keep_the_order_of_episodes_and_few_are_open_at_once(
    attempts: Attempts, fake_generator: Callable[..., Any]
) -> None:
    group = attempts(*({"actions": [f"number {i}"]} for i in range(9)))
    slow = {f"number {i}": (9 - i) / 500 for i in range(9)}

    def which(text: str) -> str:
        return next(name for name in slow if name in text)

    model = fake_generator(lambda text, seed: answer(int(which(text)[-1]), 10), lambda text: slow[which(text)])
    part = Retro(reflection="judge", ask={"concurrency": 3}, pairwise=False, memory=False)
    assert reflect(part, [group], model) == [i / 10 for i in range(9)]
    assert 1 < model.most <= 3
    assert len(set(model.seeds)) == 9


def test_seeds_follow_task_and_attempt(attempts: Attempts, fake_generator: Callable[..., Any]) -> None:
    def seeds(order: tuple[int, ...], step: int) -> dict[str, int]:
        group = attempts(*({"actions": [f"number {i}"]} for i in range(3)))
        model = fake_generator(lambda text, seed: answer())
        part = Retro(reflection="policy", pairwise=False, memory=False)
        reflect(part, [Group(group.task, [group.episodes[i] for i in order])], model, step)
        return {
            q[q.index("number") : q.index("number") + 8]: s for q, s in zip(model.questions, model.seeds, strict=True)
        }

    assert seeds((0, 1, 2), 1) == seeds((2, 0, 1), 1)
    assert seeds((0, 1, 2), 1) != seeds((0, 1, 2), 2)


@pytest.mark.parametrize("failure", ["error", "refused", "deadline"])
def test_a_judge_that_fails_costs_one_reflection_not_the_run(
    attempts: Attempts, fake_generator: Callable[..., Any], failure: str
) -> None:
    def reply(text: str, seed: int) -> Any:
        if "bad" not in text:
            return answer(1, 4)
        return {"error": JudgeError("budget spent"), "refused": ConnectionError("down")}.get(failure, answer())

    model = fake_generator(reply, lambda text: 30.0 if failure == "deadline" and "bad" in text else 0.0)
    part = Retro(reflection="judge", ask={"deadline_s": 0.05}, memory=False, pairwise=False)
    group = attempts({"actions": ["good"]}, {"actions": ["bad", "x"], "reached": 1}, {"actions": ["good"]})
    assert reflect(part, [group], model) == [0.25, 0.5, 0.25]  # the failed one falls back on its milestones
    assert part.report()["service_failures"] == 1
    assert part.report()["parse_failures"] == 0


def test_nonsense_is_counted_and_a_real_success_is_phi_one(
    attempts: Attempts, fake_generator: Callable[..., Any]
) -> None:
    part = Retro(reflection="policy", pairwise=False)
    group = attempts({"reached": 1}, {"success": True, "reached": 2})
    assert reflect(part, [group], fake_generator(lambda text, seed: "I liked it.")) == [0.0, 1.0]
    assert part.report()["parse_failures"] == 2
    told = part.feedback([group], Services(), 3)
    assert (told["memory/added"], told["memory/rejected"]) == (0, 2)


def test_only_lessons_of_those_who_foresaw_the_outcome_are_kept(
    attempts: Attempts, fake_generator: Callable[..., Any]
) -> None:
    part = Retro(reflection="judge", pairwise=False)
    group = attempts({"actions": ["lost"]}, {"actions": ["won"], "success": True}, {"actions": ["hubris"]})
    model = fake_generator(
        lambda text, seed: answer(success="lost" not in text, lesson=next(
            f"lesson of {name}" for name in ("lost", "won", "hubris") if f": {name}" in text))
    )  # fmt: skip
    reflect(part, [group], model)
    part.feedback([group], Services(), 3)
    assert part.book is not None
    assert {(one.text, one.source, one.step) for one in part.book.memory()} == {
        ("lesson of lost", "judge", 3), ("lesson of won", "judge", 3)
    }  # fmt: skip


def test_the_latest_attempt_with_the_opposite_outcome_is_shown(
    attempts: Attempts, fake_generator: Callable[..., Any]
) -> None:
    part = Retro(reflection="judge")
    asked = fake_generator(lambda text, seed: answer())
    first = attempts({"actions": ["early loss"]})
    reflect(part, [first], asked, 1)
    assert "ended differently" not in asked.questions[0]
    part.feedback([first], Services(), 1)
    again = Retro(reflection="judge")
    again.load_state_dict(part.state_dict())
    second = attempts({"actions": ["first win"], "success": True}, {"actions": ["second win"], "success": True})
    reflect(again, [second], asked, 2)
    assert all("early loss" in text for text in asked.questions[1:])
    third = attempts({"actions": ["late loss"]}, {"actions": ["third win"], "success": True})
    again.feedback([second], Services(), 2)
    reflect(again, [third], asked, 3)
    lost, won = asked.questions[3:]
    assert "third win" in lost  # this group's own is later than the second win
    assert "second win" not in lost
    assert "late loss" in won
    assert "early loss" not in won
