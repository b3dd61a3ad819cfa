"""Plans: executable, winning, never longer than a blind search finds."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.environments.alfworld.engine import Game
from agentgym.environments.alfworld.generator import generate
from agentgym.environments.alfworld.planner import Planner
from agentgym.environments.alfworld.problem import Problem
from agentgym.environments.alfworld.world import World

_ACTS = ("go ", "open", "take", "move", "put ", "clea", "heat", "cool", "use ")


def shortest(game: Game, limit: int) -> int | None:
    """Length of a shortest solution by breadth-first search, or None beyond ``limit``."""
    start = game.snapshot()
    layer, seen = [start], {start[:7]}
    for depth in range(limit + 1):
        following = []
        for state in layer:
            game.restore(state)
            if game.won:
                game.restore(start)
                return depth
            for command in [c for c in game.admissible if c[:4].startswith(_ACTS) or c.startswith("go ")]:
                game.restore(state)
                game.step(command)
                after = game.snapshot()
                if after[:7] not in seen:
                    seen.add(after[:7])
                    following.append(after)
        layer = following
    game.restore(start)
    return None


def test_plans_win_and_say_when_there_is_nothing_to_do(problem: Problem) -> None:
    game = Game(World(problem))
    plan = Planner(game).plan()
    assert plan
    for command in plan:
        assert not game.won
        assert command in game.admissible
        game.step(command)
    assert game.won
    assert Planner(game).plan() == []


@pytest.mark.parametrize("wording", ["move", "put"])
def test_plans_are_optimal_from_wherever_one_is(problem: Problem, wording: str) -> None:
    game = Game(World(problem, wording))
    rng = random.Random(problem.goal.kind)
    for _ in range(4):
        plan = Planner(game).plan()
        assert plan is not None
        if len(plan) <= 4:
            assert len(plan) == shortest(game, 4)
        else:
            assert shortest(game, 3) is None
        for _ in range(5):
            game.step(rng.choice([c for c in game.admissible if c[:4].startswith(_ACTS)]))


def test_no_plan_where_the_world_has_none(small: Callable[[str], Problem]) -> None:
    problem = small("pick_heat_then_place_in_recep")
    places = tuple(p for p in problem.receptacles if p.type != "microwave")
    assert Planner(Game(World(replace(problem, receptacles=places)))).plan() is None
    game = Game(World(problem))
    for command in ("go to sidetable 1", "take plate 1 from sidetable 1"):
        game.step(command)
    assert Planner(game).plan() is not None
    stuck = frozenset(pair for pair in problem.can_contain if pair[1] != "plate")
    game = Game(World(replace(problem, can_contain=stuck)))
    for command in ("go to sidetable 1", "take plate 1 from sidetable 1"):
        game.step(command)
    assert Planner(game).plan() is None  # nothing takes the plate again, in the real game as well


@given(seed=st.integers(0, 10**6), choices=st.lists(st.integers(0, 10**6), max_size=40))
@settings(max_examples=60, deadline=None)
def test_plans_win_from_any_state(seed: int, choices: list[int]) -> None:
    game = Game(World(generate(seed, "small")))
    for choice in choices:
        game.step(game.admissible[choice % len(game.admissible)])
    plan = Planner(game).plan()
    if plan is None:  # only where the hand cannot be emptied
        held = game.world.item_types[game.holding]
        assert game.holding >= 0
        assert not any(held in accepted for accepted in game.world.accepts)
        return
    for command in plan:
        game.step(command)
        assert game.last is not None
    assert game.won
