"""Bandits: what the arms pay, balance, splits, and the checks of all games."""

from __future__ import annotations

import statistics
from collections import Counter
from functools import partial
from typing import Any

import game_checks
import pytest

import agentgym
from agentgym import Task
from agentgym.environments.bandit import ROLES, Bandit
from agentgym.errors import DataError, EnvironmentFault, UnknownNameError


def test_roles_are_ragens_and_in_one_split_only() -> None:
    assert [len(ROLES["train"]), len(ROLES["test"])] == [12, 8]
    names = [name for pairs in ROLES.values() for pair in pairs for name in pair]
    assert len(names) == len(set(names)) == 40
    assert ROLES["train"][0] == ("Teacher", "Trader")


@pytest.mark.parametrize("split", ["train", "test"])
def test_every_pair_in_both_orders_equally_often_and_prefixes_agree(split: str) -> None:
    combinations = 2 * len(ROLES[split])
    env = Bandit()
    tasks = env.tasks(split, n=5 * combinations)
    assert set(Counter(tuple(task.data["arms"]) for task in tasks).values()) == {5}
    assert [task.id for task in env.tasks(split, n=7)] == [task.id for task in tasks[:7]]
    assert {task.id for task in tasks}.isdisjoint(task.id for task in env.tasks(split, n=50, seed=1))
    roles = {role for pair in ROLES[split] for role in pair}
    assert all(set(task.data["arms"]) <= roles for task in tasks)


def test_the_arms_pay_as_in_ragen() -> None:
    env = Bandit(outcome="rewards")
    paid: dict[bool, list[float]] = {True: [], False: []}
    for task in env.tasks("train", n=2000):
        env.reset(task)
        daring = env.expert()
        for arm in task.data["arms"]:
            env.reset(task)
            step = env.step(arm)
            assert step.terminated
            assert step.score is None
            assert step.success == (arm == daring)
            paid[arm == daring].append(step.reward)
    assert set(paid[False]) == {0.1}
    assert set(paid[True]) == {0.0, 1.0}
    assert statistics.mean(paid[True]) == pytest.approx(0.25, abs=0.04)


def test_the_expert_scores_one_the_idle_zero() -> None:
    env = Bandit()
    for task in env.tasks("test", n=32):
        (step,) = game_checks.play(env, task)
        assert (step.success, step.score, step.grounded, step.terminated) == (True, 1.0, True, True)
        assert step.observation.text == f"{env._high}: {step.reward} points"
        with pytest.raises(EnvironmentFault, match="over"):
            env.step("x")
        (idle,) = game_checks.play(env, task, lambda *_: "")
        assert (idle.success, idle.score, idle.grounded, idle.reward) == (False, 0.0, False, 0.0)


def test_names_are_read_without_regard_to_case_and_only_those_of_the_pair() -> None:
    env = Bandit()
    task = Task("bandit", "one", data={"arms": ["Pilot", "Postman"]})
    assert env.reset(task).admissible == ["Pilot", "Postman"]
    assert not env.step("Teacher").grounded
    assert not env.step("Pilot or Postman").grounded
    assert env.step(" pilot\n").success


def test_what_every_game_must_do() -> None:
    game_checks.check_refusals(Bandit())
    game_checks.check_other_process("bandit", split="test")
    tasks = Bandit().tasks("test", n=8)
    for make in (Bandit, partial(Bandit, "rewards")):
        game_checks.check_interleaved(make, tasks)
        game_checks.check_snapshots(make, tasks)
        game_checks.check_bad_snapshots(make(), tasks[0])
        game_checks.check_hostile(make(), tasks[0])


@pytest.mark.parametrize("arms", [["Teacher"], ["Teacher", "Pilot"], ["Teacher", "Teacher"], "Teacher", [1, 2]])
def test_broken_tasks_are_named(arms: Any) -> None:
    with pytest.raises(DataError, match="bandit task 'bad'"):
        Bandit().reset(Task("bandit", "bad", data={"arms": arms}))


def test_unknown_outcomes_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="rewards"):
        agentgym.make("bandit", outcome="points")


def test_three_names_are_no_pair() -> None:
    with pytest.raises(DataError, match="arms must be the two names of a pair"):
        Bandit().reset(Task("bandit", "bad", data={"arms": ["Teacher", "Trader", "Teacher"]}))
