"""Reading problems: facts, goals, numbering, and what is wrong with a text that is none."""

from __future__ import annotations

import pytest

from agentgym.environments.alfworld.problem import (
    Goal,
    Item,
    Problem,
    Receptacle,
    number_names,
    parse_goal,
    parse_problem,
)

TEXT = """
(define (problem plan_x) (:domain alfred)
(:objects agent1 - agent)
(:init
    (receptacleType Desk_bar_1 DeskType) (receptacleType Drawer_bar_1 DrawerType)
    (receptacleAtLocation Desk_bar_1 loc_bar_1)
    (receptacleAtLocation Drawer_bar_1 loc_bar_1) (openable Drawer_bar_1)
    (objectType Pen_bar_1 PenType) (objectType Pen_bar_2 PenType) (objectType Bowl_bar_1 BowlType)
    (pickupable Pen_bar_1) (pickupable Pen_bar_2) (isReceptacleObject Bowl_bar_1) (isCool Bowl_bar_1)
    (inReceptacle Pen_bar_1 Desk_bar_1) (inReceptacle Pen_bar_1 Desk_bar_1) (inReceptacle Pen_bar_1 Drawer_bar_1)
    (inReceptacleObject Pen_bar_2 Bowl_bar_1)
    (objectAtLocation Pen_bar_1 loc_bar_1)
    (atLocation agent1 loc_bar_9)
    (canContain DeskType PenType) (canContain DeskType PenType)
)
(:goal (and (exists (?r - receptacle) (exists (?o - object) (and
    (inReceptacle ?o ?r) (objectType ?o PenType) (receptacleType ?r DrawerType)))))))
"""


def test_parses_every_fact() -> None:
    problem = parse_problem(TEXT, "put a pen in drawer.", ["look"], "x")
    bowl, first, second = problem.items
    assert problem.receptacles == (
        Receptacle("desk_bar_1", "desk", "loc_bar_1"),
        Receptacle("drawer_bar_1", "drawer", "loc_bar_1", openable=True),
    )
    assert bowl == Item("bowl_bar_1", "bowl", frozenset(), states=frozenset({"cool"}), vessel=True)
    assert first.receptacles == ("desk_bar_1", "drawer_bar_1")
    assert first.locations == ("loc_bar_1",)
    assert second.inside == ("bowl_bar_1",)
    assert problem.start == "loc_bar_9"
    assert problem.can_contain == {("desk", "pen")}
    assert problem.goal == Goal("pick_and_place_simple", "pen", "drawer")
    assert problem.walkthrough == ("look",)


def test_numbers_run_backwards_and_basins_say_so() -> None:
    names = number_names(["desk_bar_2", "desk_bar_1", "sink_bar_1_bar_sinkbasin", "sink_bar_1"])
    assert names == {
        "desk_bar_1": "desk 2",
        "desk_bar_2": "desk 1",
        "sink_bar_1": "sink 1",
        "sink_bar_1_bar_sinkbasin": "sinkbasin 1",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(define)", "no such sections"),
        (TEXT.replace("(atLocation agent1 loc_bar_9)", ""), "atlocation"),
        (TEXT.replace("(receptacleAtLocation Desk_bar_1 loc_bar_1)", ""), "desk_bar_1"),
        (TEXT.replace("(inReceptacle ?o ?r) (objectType", "(isSliced ?o) (objectType"), "not one of the six"),
        (TEXT.replace("Desk_bar_1", "Desk"), "_bar_"),
    ],
)
def test_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_problem(text, "put a pen in drawer.", name="x")


def test_two_different_types_are_no_known_goal() -> None:
    goal = (
        "(:goal (exists (?a - object ?b - object ?r - receptacle) (and (objectType ?a PenType) (objectType ?b CDType)"
        " (not (= ?a ?b)) (inReceptacle ?a ?r) (inReceptacle ?b ?r) (receptacleType ?r BedType))))"
    )
    with pytest.raises(ValueError, match="not one of the six"):
        parse_goal(goal)


def test_refuses_facts_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="floating"):
        Item("mug_bar_1", "mug", frozenset({"floating"}))
    with pytest.raises(ValueError, match="pick_nothing"):
        Goal("pick_nothing", "mug", "desk")
    goal = Goal("pick_and_place_simple", "mug", "desk")
    with pytest.raises(ValueError, match="unknown receptacles"):
        Problem((), (Item("mug_bar_1", "mug", receptacles=("desk_bar_1",)),), "loc_bar_1", frozenset(), goal, "")
    with pytest.raises(ValueError, match="twice"):
        Problem((), (Item("mug_bar_1", "mug"), Item("mug_bar_1", "mug")), "loc_bar_1", frozenset(), goal, "")
