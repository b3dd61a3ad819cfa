"""The explorer: knows only what was shown, wins, copes with interference, repeats itself exactly."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.environments.alfworld.engine import Game
from agentgym.environments.alfworld.explorer import Explorer
from agentgym.environments.alfworld.generator import generate
from agentgym.environments.alfworld.problem import Problem
from agentgym.environments.alfworld.world import World


def play(game: Game, seed: int = 0, noise: float = 0.0, limit: int = 50) -> list[str]:
    """An episode with the explorer; returns the commands given."""
    rng = random.Random(seed)
    game.reset()
    explorer = Explorer(game, seed)
    commands = []
    while not game.won and len(commands) < limit:
        command = explorer.advise()
        if command is None:
            break
        assert command in game.admissible
        if rng.random() < noise:
            command = rng.choice(game.admissible)
        commands.append(command)
        game.step(command)
        if game.last is not None:
            explorer.observe(game.last)
    return commands


def test_wins_the_small_household(problem: Problem) -> None:
    game = Game(World(problem))
    assert len(play(game)) <= 25
    assert game.won
    assert Explorer(game, 0).advise() is None


def test_names_no_object_before_the_text_has() -> None:
    for seed in range(40):
        world = World(generate(seed, "full"))
        game = Game(world)
        shown = game.reset()
        explorer = Explorer(game, 0)
        for _ in range(60):
            command = explorer.advise()
            if command is None:
                break
            for name in re.findall(r"(?:take|move|use|clean|heat|cool) (\w+ \d+)", command):
                assert re.search(rf"\b{name}\b", shown), f"{command} before {name} was seen"
            shown += game.step(command)
            assert game.last is not None
            explorer.observe(game.last)


def test_opens_what_is_closed_and_never_looks_twice_without_reason() -> None:
    for seed in range(30):
        game = Game(World(generate(seed, "full")))
        commands = play(game, seed)
        assert game.won
        looks = [c for c in commands if c.startswith(("open", "examine"))]
        assert len(looks) == len(set(looks))


def test_the_same_seed_does_the_same() -> None:
    game = Game(World(generate(3, "full")))
    assert play(game, 7, 0.3) == play(game, 7, 0.3)


@pytest.mark.parametrize(("preset", "least"), [("small", 195), ("full", 190)])
def test_wins_in_spite_of_noise(preset: str, least: int) -> None:
    wins = 0
    for seed in range(200):
        game = Game(World(generate(seed, preset)))
        play(game, seed, noise=0.2, limit=60)
        wins += game.won
    assert wins >= least


@given(seed=st.integers(0, 10**6), choices=st.lists(st.integers(0, 10**6), max_size=30))
@settings(max_examples=50, deadline=None)
def test_advice_is_admissible_after_anything_and_memory_restores(seed: int, choices: list[int]) -> None:
    game = Game(World(generate(seed, "small")))
    explorer = Explorer(game, seed)
    for choice in choices:
        game.step(game.admissible[choice % len(game.admissible)])
        assert game.last is not None
        explorer.observe(game.last)
    facts, memory = game.snapshot(), explorer.snapshot()
    runs = []
    for _ in range(2):
        game.restore(facts)
        explorer.restore(memory)
        run = []
        for _ in range(40):
            command = explorer.advise()
            if command is None:
                break
            run.append((command, game.step(command)))
            assert game.last is not None
            explorer.observe(game.last)
        runs.append(run)
    assert runs[0] == runs[1]
