"""Milestones: named by the task, in order, never lost, all reached by winning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.environments.alfworld import ALFWorld
from agentgym.environments.alfworld.engine import Game
from agentgym.environments.alfworld.planner import Planner
from agentgym.environments.alfworld.problem import Problem
from agentgym.environments.alfworld.progress import Progress
from agentgym.environments.alfworld.world import World

ORDERS = {
    "pick_and_place_simple": ["found", "taken", "placed"],
    "look_at_obj_in_light": ["found", "taken", "lamp_on", "lit"],
    "pick_clean_then_place_in_recep": ["found", "taken", "cleaned", "placed"],
    "pick_heat_then_place_in_recep": ["found", "taken", "heated", "placed"],
    "pick_cool_then_place_in_recep": ["found", "taken", "cooled", "placed"],
    "pick_two_obj_and_place": ["found_1", "taken_1", "placed_1", "found_2", "taken_2", "placed_2"],
}


def test_a_solution_reaches_them_one_by_one(problem: Problem) -> None:
    game = Game(World(problem))
    progress = Progress(game)
    assert list(progress.names) == ORDERS[problem.goal.kind]
    assert progress.reached == ()
    counts = []
    for command in Planner(game).plan() or ():
        game.step(command)
        progress.update()
        counts.append(len(progress.reached))
        assert (progress.reached == progress.names) == game.won
    assert counts == sorted(counts)
    assert set(range(1, len(progress.names) - 1)) <= {0, *counts} | {1}  # at most the lamp comes on with the goal


def test_an_object_that_is_there_already_is_no_milestone(small: Callable[[str], Problem]) -> None:
    problem = small("pick_two_obj_and_place")
    items = [
        replace(item, receptacles=("diningtable_bar_a",)) if item.id == "mug_bar_a" else item for item in problem.items
    ]
    game = Game(World(replace(problem, items=tuple(items))))
    progress = Progress(game)
    assert progress.names == ("found_2", "taken_2", "placed_2")
    game.step("go to diningtable 1")
    game.step("take mug 2 from diningtable 1")
    progress.update()
    assert progress.reached == ()  # taking the wrong one is no progress


def test_a_cool_object_counts_when_it_is_taken(small: Callable[[str], Problem]) -> None:
    problem = small("pick_cool_then_place_in_recep")
    game = Game(World(replace(problem, goal=replace(problem.goal, item="apple"))))
    progress = Progress(game)
    for command in ("go to fridge 1", "open fridge 1"):
        game.step(command)
        progress.update()
    assert progress.reached == ("found",)
    game.step("take apple 1 from fridge 1")
    progress.update()
    assert progress.reached == ("found", "taken", "cooled")


@given(seed=st.integers(0, 10**6), choices=st.lists(st.integers(0, 10**6), max_size=60))
@settings(max_examples=60, deadline=None)
def test_monotone_under_any_play(seed: int, choices: list[int]) -> None:
    env = ALFWorld()
    task = env.tasks("generated", n=1, seed=seed, preset="tiny")[0]
    commands = env.reset(task).admissible or ()
    before: tuple[str, ...] = ()
    for choice in choices:
        step = env.step(commands[choice % len(commands)])
        assert set(before) <= set(step.milestones) <= set(env.milestone_names)
        assert list(step.milestones) == [name for name in env.milestone_names if name in step.milestones]
        assert (step.milestones == env.milestone_names) == step.success
        before = step.milestones
        commands = step.observation.admissible or ()
        if step.terminated:
            break
