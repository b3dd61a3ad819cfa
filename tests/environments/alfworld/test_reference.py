"""The real engine behind the same contract. Runs where textworld is installed, or with AGENTGYM_REFERENCE_PYTHON set.

``make test-alfworld`` installs it, and sets AGENTGYM_REQUIRE_ENGINES, under which nothing is skipped for its absence.
``AGENTGYM_REFERENCE_PYTHON`` names the Python of another environment that has alfworld and textworld;
``benchmarks/alfworld_parity.py`` is the longer comparison (20 games of 200 steps).
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

import pytest

from agentgym.environments.alfworld.engine import Game
from agentgym.environments.alfworld.env import ALFWorld
from agentgym.environments.alfworld.generated import generated_problem, generated_tasks
from agentgym.environments.alfworld.planner import Planner
from agentgym.environments.alfworld.reference import ALFWorldReference
from agentgym.environments.alfworld.replay import first_difference, replay, sample_actions, transcript
from agentgym.environments.alfworld.world import World
from agentgym.errors import EnvironmentFault, MissingDependency
from agentgym.seeding import python_rng
from agentgym.types import Task

HERE = importlib.util.find_spec("textworld") is not None and importlib.util.find_spec("alfworld") is not None
REQUIRED = bool(os.environ.get("AGENTGYM_REQUIRE_ENGINES"))
PYTHON = os.environ.get("AGENTGYM_REFERENCE_PYTHON") or (sys.executable if HERE or REQUIRED else "")
needs_engine = pytest.mark.skipif(
    not PYTHON, reason="textworld and alfworld are not installed here and AGENTGYM_REFERENCE_PYTHON is not set"
)


def a_game(task: Task) -> Game:
    return Game(World(generated_problem(task)))


@needs_engine
def test_both_engines_show_the_same_for_random_commands() -> None:
    tasks = [
        t for preset, n in (("tiny", 3), ("small", 2)) for t in generated_tasks("generated_test", n, preset=preset)
    ]
    games = [a_game(task) for task in tasks]
    jobs = [(t, sample_actions(g, python_rng("test parity", t.id), 60)) for t, g in zip(tasks, games, strict=True)]
    for game, (task, actions), result in zip(games, jobs, replay(jobs, PYTHON), strict=True):
        assert not first_difference(transcript(game, actions), result["rows"]), task.name


@needs_engine
def test_both_engines_are_won_by_the_plan_of_every_kind() -> None:
    tasks = {t.kind: t for t in generated_tasks("generated_test", 60, preset="tiny")}
    assert len(tasks) == 6
    plans = [Planner(a_game(task)).plan() or [] for task in tasks.values()]
    results = replay(list(zip(tasks.values(), plans, strict=True)), PYTHON)
    for plan, result in zip(plans, results, strict=True):
        assert [row["won"] for row in result["rows"]] == [False] * len(plan) + [True]


@pytest.mark.skipif(HERE, reason="textworld is installed here")
def test_without_the_engine_the_error_says_what_to_install() -> None:
    env = ALFWorldReference()
    with pytest.raises(MissingDependency, match=r"pip install 'agentgym-turns\[alfworld\]'"):
        env.reset(generated_tasks("generated", 1, preset="tiny")[0])
    env.close()


def test_it_plays_the_native_environments_tasks() -> None:
    options = {"n": 2, "preset": "tiny"}
    assert ALFWorldReference().tasks("generated", **options).hash == ALFWorld().tasks("generated", **options).hash
    assert {task.env for task in ALFWorldReference().tasks("generated", **options)} == {"alfworld-reference"}
    assert ALFWorldReference.spec.splits == ALFWorld.spec.splits


def test_the_library_is_told_to_use_worker_processes() -> None:
    assert not ALFWorldReference.spec.thread_safe
    assert not ALFWorldReference.spec.cheap


def test_a_python_without_the_engine_is_reported_with_its_log() -> None:
    task = generated_tasks("generated", 1, preset="tiny")[0]
    with pytest.raises(EnvironmentFault, match="could not replay"):
        replay([(task, ["look"])], "/no/such/python")


@pytest.mark.parametrize("key", ["obs", "adm", "won"])
def test_a_difference_is_named(key: str) -> None:
    task = generated_tasks("generated", 1, preset="tiny")[0]
    ours = transcript(a_game(task), ["look", "inventory"])
    theirs = [dict(row) for row in ours]
    assert not first_difference(ours, theirs)
    theirs[2][key] = {"obs": "other", "adm": ["look"], "won": True}[key]
    assert first_difference(ours, theirs).startswith("step 2 ('inventory'): " + {"adm": "admissible"}.get(key, key))
