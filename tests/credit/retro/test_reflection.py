"""Reflections by rules: phi from milestones, predictions that may be wrong, lessons from the group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentgym.credit.retro.reflection import Reflection, by_rules
from agentgym.types import Episode, Group

Attempt = Callable[..., Episode]
Attempts = Callable[..., Group]


def test_phi_is_the_share_of_milestones_and_one_on_success(attempts: Attempts) -> None:
    found = by_rules(
        attempts(
            {"reached": 0}, {"reached": 1}, {"reached": 2}, {"reached": 2, "success": True},
            {"reached": 1, "success": True}, {"milestones": ()}, {"milestones": (), "success": True}, {"actions": ()},
        )
    )  # fmt: skip
    assert [one.phi for one in found] == [0, 0.5, 1, 1, 1, 0, 1, 0]
    assert [one.predicted for one in found] == [False, False, True, True, False, False, True, False]
    assert {one.source for one in found} == {"rules"}


def test_a_success_teaches_what_worked_without_refused_or_idle_actions(attempt: Attempt) -> None:
    good = attempt(0, True, 2, actions=["look", "eat door", "take key", "go", "go", "open door"], refused=["eat door"])
    good.turns[0].next_observation = good.turns[0].observation  # looking changed nothing
    (found,) = by_rules(Group(good.task, [good]))
    assert found.lesson == "This worked: take key; go (x2); open door."


def test_a_long_success_teaches_the_actions_of_its_milestones(attempt: Attempt) -> None:
    steps = [f"step {i}" for i in range(20)]
    (found,) = by_rules(Group(attempt(0).task, [attempt(0, True, 2, actions=steps)]))
    assert found.lesson == "This worked: step 18; step 19."
    (found,) = by_rules(Group(attempt(0).task, [attempt(0, True, 0, actions=steps, milestones=())]))
    assert found.lesson == (
        "This worked: step 0; step 1; step 2; step 3; step 4; step 5; ...; "
        "step 14; step 15; step 16; step 17; step 18; step 19."
    )


def test_a_failure_learns_the_shortest_way_to_its_next_milestone_from_the_group(attempts: Attempts) -> None:
    group = attempts(
        {"reached": 1, "actions": ["take key", "wander"]},
        {"reached": 2, "actions": ["look", "search", "take key", "go east", "open door"]},
        {"reached": 2, "actions": ["take key", "open door"]},
    )
    assert group.episodes[0].turns[0].milestones == ()  # the key came with the last turn
    assert by_rules(group)[0].lesson == "To reach door: open door."


def test_a_failure_warns_of_refused_and_of_futile_repetition(attempts: Attempts) -> None:
    group = attempts(
        {"actions": ["fly", "fly", "sing", "look"], "refused": ["fly", "sing"], "milestones": ()},
        {"actions": ["push", "push", "push"], "milestones": ()},
        {"actions": ["a", "b"], "milestones": ()},
        {"actions": ["a", "b"], "reached": 1},
    )
    for turn in group.episodes[1].turns:
        turn.state_key = "the same place"
    assert [one.lesson for one in by_rules(group)] == [
        "Refused here, do not repeat: fly (2 times).",
        "Repeating push (3 times in the same place) led nowhere.",
        "",
        "Reached key; door was still missing.",
    ]


@pytest.mark.parametrize(
    ("predicted", "success", "text", "kept"),
    [
        (True, True, "open it", True), (False, False, "open it", True), (True, False, "open it", False),
        (False, True, "open it", False), (None, False, "open it", False), (None, True, "open it", False),
        (True, True, "12345", False), (True, True, "123456", True), (True, True, "", False),
    ],
)  # fmt: skip
def test_only_foreseen_outcomes_and_lessons_beyond_five_characters_are_kept(
    attempt: Callable[..., Any], predicted: bool | None, success: bool, text: str, kept: bool
) -> None:
    assert Reflection(0.0, predicted, text).fits(attempt(0, success), text) == kept
