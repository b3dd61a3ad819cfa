"""Against the official games: recordings of the real engine, all stored solutions, both experts.

Skipped without AGENTGYM_DATA. The recordings are of textworld 1.7.0 with alfworld 0.4.2.
"""

from __future__ import annotations

import json
import lzma
import statistics
from pathlib import Path

import pytest

from agentgym.environments.alfworld.data import DATA_SPLITS, data_problem, data_tasks
from agentgym.environments.alfworld.engine import Game
from agentgym.environments.alfworld.explorer import Explorer
from agentgym.environments.alfworld.planner import Planner
from agentgym.environments.alfworld.world import World

SIZES = {"train": 3553, "valid_seen": 140, "valid_unseen": 134, "valid_train": 200}


def test_golden_transcripts(official: Path) -> None:
    played = 0
    with lzma.open(official / "golden_transcripts.jsonl.xz", "rt", encoding="utf-8") as recordings:
        for line in recordings:
            recording = json.loads(line)
            split, _, name = recording["id"].partition("/")
            task = data_tasks(split, None).find(name)
            game = Game(World(data_problem(task, None)))
            for number, step in enumerate(recording["steps"]):
                text = game.reset() if step["a"] is None else game.step(step["a"])
                where = f"{name}, step {number}, {step['a']!r}"
                assert text == step["obs"], where
                assert list(game.admissible) == step["adm"], where
                assert game.won == step["won"], where
            played += 1
    assert played == 36


@pytest.mark.parametrize("split", DATA_SPLITS)
def test_stored_solutions_win_at_their_end_and_plans_are_no_longer(official: Path, split: str) -> None:
    tasks = data_tasks(split, None)
    assert len(tasks) == SIZES[split]
    for task in tasks:
        problem = data_problem(task, None)
        assert problem.goal.kind == task.kind
        game = Game(World(problem))
        plan = Planner(game).plan()
        assert plan is not None
        assert len(plan) <= len(problem.walkthrough), task.name
        for commands in (problem.walkthrough, plan):
            game.reset()
            for command in commands:
                assert not game.won, task.name
                game.step(command)
                assert game.last is not None, f"{task.name}: {command}"
            assert game.won, task.name


@pytest.mark.parametrize("split", ["valid_seen", "valid_unseen"])
def test_the_explorer_wins_within_the_limit(official: Path, split: str) -> None:
    lengths = []
    for task in data_tasks(split, None):
        game = Game(World(data_problem(task, None)))
        explorer = Explorer(game, task.seed)
        for number in range(50):
            game.step(explorer.advise() or "")
            assert game.last is not None, task.name
            explorer.observe(game.last)
            if game.won:
                lengths.append(number + 1)
                break
    assert len(lengths) > 0.95 * SIZES[split]
    assert statistics.mean(lengths) < 10
