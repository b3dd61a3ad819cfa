"""FrozenLake against Gymnasium's own environment, its exact model, and the checks of all games."""

from __future__ import annotations

import importlib
from typing import Any

import game_checks
import numpy as np
import pytest

import agentgym
from agentgym import Task
from agentgym.environments.frozenlake import ACTIONS, FrozenLake
from agentgym.environments.frozenlake.lake import random_map
from agentgym.errors import ConfigError, DataError, EnvironmentFault, MissingDependency
from agentgym.seeding import python_rng

lake = pytest.importorskip("gymnasium.envs.toy_text.frozen_lake", reason="needs the extra 'games'")


@pytest.mark.parametrize(("slippery", "rate"), [(True, 0.8), (True, 1 / 3), (False, 0.8)])
def test_episodes_are_gymnasiums_state_by_state(slippery: bool, rate: float) -> None:
    env, lengths = FrozenLake(), 0
    for task in env.tasks("train", n=30, size=8, slippery=slippery, success_rate=rate):
        raw = lake.FrozenLakeEnv(desc=task.data["desc"], is_slippery=slippery, success_rate=rate)
        state, _ = raw.reset(seed=task.seed)
        env.reset(task)
        assert env.state == state
        rng = python_rng("walk", task.seed)
        for _ in range(100):
            action = rng.randrange(4)
            step = env.step(ACTIONS[action])
            state, reward, done, _, _ = raw.step(action)
            lengths += 1
            assert (env.state, step.reward, step.terminated) == (int(state), float(reward), bool(done))
            assert step.success == (raw.desc.flat[state] == b"G")
            if done:
                break
    assert lengths > 300


def test_the_model_is_gymnasiums_table() -> None:
    env = FrozenLake()
    for task in env.tasks("test", n=5):
        raw = lake.FrozenLakeEnv(desc=task.data["desc"], success_rate=0.8)
        env.reset(task)
        assert env.model() == raw.P
        assert len(set(env.state_keys())) == 16


def test_maps_are_solvable_and_gymnasiums_own() -> None:
    for size in (3, 4, 9):
        for task in FrozenLake().tasks("train", n=3, size=size, p=0.7):
            assert lake.is_valid([list(row) for row in task.data["desc"]], size)
            assert task.data["desc"] == lake.generate_random_map(size=size, p=0.7, seed=task.seed)


@pytest.mark.parametrize("slippery", [True, False])
def test_values_satisfy_bellmans_optimality_equation(slippery: bool) -> None:
    env = FrozenLake()
    for task in env.tasks("train", n=5, slippery=slippery):
        env.reset(task)
        raw = lake.FrozenLakeEnv(desc=task.data["desc"], is_slippery=slippery, success_rate=0.8)
        v, q = env.solve(0.9)
        best = q.argmax(axis=1)
        onward, reward = np.zeros((16, 16)), np.zeros(16)
        for s in range(16):
            for a in range(4):
                total = sum(p * (r + (0.0 if done else 0.9 * v[t])) for p, t, r, done in raw.P[s][a])
                assert total == pytest.approx(q[s, a], abs=1e-10)
            for p, t, r, done in raw.P[s][best[s]]:
                reward[s] += p * r
                onward[s, t] += 0.0 if done else 0.9 * p
        np.testing.assert_allclose(np.linalg.solve(np.eye(16) - onward, reward), v, atol=1e-10)
        np.testing.assert_allclose(q.max(axis=1), v, atol=1e-10)


def test_symbols_are_ragens() -> None:
    env = FrozenLake()
    data = {"desc": ["SFH", "FFF", "HFG"], "slippery": False}
    observation = env.reset(Task("frozenlake", "three", seed=1, data=data))
    assert observation.text == "P_O\n___\nO_G"
    assert observation.admissible == ["Left", "Down", "Right", "Up"]
    assert env.step("Right").observation.text == "_PO\n___\nO_G"
    step = env.step("right ")
    assert (step.observation.text, step.reward, step.terminated, step.success) == ("__X\n___\nO_G", 0.0, True, False)
    env.reset(Task("frozenlake", "three", seed=1, data=data))
    steps = [env.step(action) for action in ("Down", "RIGHT", "Down", "Right")]
    assert steps[-1].observation.text == "__O\n___\nO_√"
    assert [step.milestones for step in steps] == [(), ("halfway",), ("halfway",), ("halfway", "goal")]
    assert [step.reward for step in steps] == [0, 0, 0, 1]
    with pytest.raises(EnvironmentFault, match="over"):
        env.step("Left")


def test_the_expert_takes_a_shortest_way_on_firm_ice_and_doing_nothing_earns_nothing() -> None:
    env = FrozenLake()
    for task in env.tasks("test", n=60, slippery=False, p=0.75):
        steps = game_checks.play(env, task)
        assert steps[-1].success
        assert sum(step.reward for step in steps) == 1
        assert steps[-1].milestones == env.milestone_names
        assert all(step.grounded for step in steps)
        idle = game_checks.play(env, task, lambda *_: "")
        assert len(idle) == 10
        assert not any(step.reward or step.grounded or step.terminated for step in idle)
        assert env.state == 0


def test_the_expert_wins_as_often_as_the_model_says() -> None:
    env, task = FrozenLake(), FrozenLake().tasks("train", n=1, p=0.6)[0]
    env.reset(task)
    best = env.solve(0.9)[1].round(9).argmax(axis=1)
    onward, reward = np.zeros((16, 16)), np.zeros(16)
    for s in range(16):
        for p, t, r, done in lake.FrozenLakeEnv(desc=task.data["desc"], success_rate=0.8).P[s][best[s]]:
            reward[s] += p * r
            onward[s, t] += 0.0 if done else p
    chance = np.linalg.solve(np.eye(16) - onward, reward)[0]
    won = 0
    for seed in range(400):
        steps = game_checks.play(env, Task("frozenlake", "again", seed=seed, data=task.data), turns=500)
        won += steps[-1].success
    assert 0.1 < chance < 0.9
    assert abs(won / 400 - chance) < 4 * (chance * (1 - chance) / 400) ** 0.5


def test_several_actions_a_turn_as_in_ragen() -> None:
    two, one = FrozenLake(actions_per_turn=2), FrozenLake()
    task = Task("frozenlake", "firm", seed=1, data={"desc": ["SFF", "FFF", "HFG"], "slippery": False})
    two.reset(task), one.reset(task)
    step = two.step("Right || down")
    assert (two.state, step.grounded) == (4, True)
    for refused in ("Right || Right || Right", "Right || Jump", "||", "Right ||"):
        step = two.step(refused)
        assert (two.state, step.grounded) == (4, False)
    assert not one.step("Right || Down").grounded
    assert two.step("Down||Right").success
    two.reset(task)
    two.step("Down")
    assert two.step("Down || Right").terminated, "a hole ends the turn; what follows is not played"
    with pytest.raises(ConfigError, match="actions_per_turn"):
        agentgym.make("frozenlake", actions_per_turn=0)


def test_what_every_game_must_do() -> None:
    game_checks.check_splits("frozenlake", lambda task: task.data["desc"], size=6)
    game_checks.check_other_process("frozenlake", size=6)
    tasks = FrozenLake().tasks("valid", n=8, size=5, p=0.8)
    game_checks.check_interleaved(FrozenLake, tasks)
    game_checks.check_snapshots(FrozenLake, tasks)
    game_checks.check_bad_snapshots(FrozenLake(), tasks[0])
    for limit in (1, 2):
        game_checks.check_hostile(FrozenLake(actions_per_turn=limit), tasks[0])


def test_a_snapshot_far_ahead_can_be_restored() -> None:
    env, other = FrozenLake(), FrozenLake()
    task = Task("frozenlake", "open", seed=5, data={"desc": ["SFFFF", "FFFFF", "FFFFF", "FFFFF", "FFFFG"]})
    env.reset(task), other.reset(task)
    for number in range(150):
        env.step(("Left", "Up")[number % 2])
    other.restore(env.snapshot())
    for _ in range(20):
        assert game_checks.plain(env.step("Left")) == game_checks.plain(other.step("Left"))


@pytest.mark.parametrize(
    "desc", [["SF", "FFG"], ["SS", "FG"], ["SH", "HG"], ["SF", "FF"], ["SX", "FG"], [], "SFFG", [1, 2]]
)
def test_broken_maps_are_named(desc: Any) -> None:
    with pytest.raises(DataError, match="frozenlake task 'bad'"):
        FrozenLake().reset(Task("frozenlake", "bad", data={"desc": desc}))


def test_maps_may_repeat_where_the_draw_of_gymnasium_is_wanted() -> None:
    env = FrozenLake()
    tasks = env.tasks("train", n=400, distinct=False)
    maps = {tuple(task.data["desc"]) for task in tasks}
    assert len(maps) < 300
    assert len({task.id for task in tasks}) == len({task.name for task in tasks}) == 400
    assert maps.isdisjoint(tuple(task.data["desc"]) for task in env.tasks("test", n=100, distinct=False))


def test_too_few_different_maps_is_an_error() -> None:
    with pytest.raises(ConfigError, match="different games"):
        FrozenLake().tasks("test", n=50, size=2)
    with pytest.raises(ConfigError, match="slippery"):
        FrozenLake().tasks("test", slippery=1)
    with pytest.raises(ConfigError, match="success_rate"):
        FrozenLake().tasks("test", success_rate=1.5)


def test_without_gymnasium_the_install_line_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingDependency, match=r"gymnasium is not installed.*pip install 'agentgym-turns\[games\]'"):
        FrozenLake()


def test_a_gymnasium_without_success_rates_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake.FrozenLakeEnv, "__init__", lambda self, desc=None, is_slippery=True: None)
    with pytest.raises(MissingDependency, match=r"1\.2\.1 or later"):
        FrozenLake()


def test_a_discount_that_never_converges_is_refused() -> None:
    env = FrozenLake()
    env.reset(env.tasks("train", n=1)[0])
    with pytest.raises(ConfigError, match="gamma"):
        env.solve(1.0)


@pytest.mark.parametrize(("p", "size"), [(0, 4), (0.0, 2), (1e-12, 4), (0.3, 32)])
def test_too_little_ice_ends_with_an_error_that_names_it(p: float, size: int) -> None:
    with pytest.raises(ConfigError, match=f"no map with a way .* p={float(p)} and size={size}"):
        FrozenLake().tasks("train", n=1, p=p, size=size, distinct=False)


@pytest.mark.parametrize("wrong", [True, -0.1, 1.1, float("nan"), "0.9", None])
def test_what_is_no_share_of_ice_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="p must be a number from 0 to 1"):
        FrozenLake().tasks("train", n=1, p=wrong)


def test_maps_are_gymnasiums_for_every_share_of_ice() -> None:
    for seed in range(150):
        size, p = 2 + seed % 7, (0.5, 0.6, 0.9, 1.0)[seed % 4]
        assert random_map(size, p, seed) == lake.generate_random_map(size=size, p=p, seed=seed)


def test_a_discount_of_another_type_is_refused() -> None:
    env = FrozenLake()
    env.reset(env.tasks("train", n=1)[0])
    for gamma in (1.0, -0.1, "0.9", None, float("nan")):
        with pytest.raises(ConfigError, match="gamma"):
            env.solve(gamma)  # type: ignore[arg-type]
