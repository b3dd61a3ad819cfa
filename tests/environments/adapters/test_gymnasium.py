"""Gymnasium's environments in text: step for step what Gymnasium plays; ours behind its interface."""

from __future__ import annotations

import random

import numpy as np
import pytest

import agentgym
from agentgym.check import Settings, check_here
from agentgym.errors import AgentGymError, ConfigError, DataError, UnknownNameError
from agentgym.seeding import python_rng

gymnasium = pytest.importorskip("gymnasium")
CLIFF = ("up", "right", "down", "left")


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_same_episode(seed: int) -> None:
    env = agentgym.make("gymnasium:CliffWalking-v1")
    raw = gymnasium.make("CliffWalking-v1", render_mode="ansi")
    task = env.tasks("train", n=1, first=seed)[0]
    env.reset(task)
    raw.reset(seed=seed)
    rng, shown = python_rng("cliff", seed), []
    for _ in range(60):
        number = rng.randrange(4)
        step = env.step(CLIFF[number])
        _, reward, terminated, _, _ = raw.step(number)
        assert (step.reward, step.terminated, step.success) == (reward, terminated, terminated)
        assert step.observation.text == raw.render()
        shown.append(step.observation.text)
        if terminated:
            break
    assert len(set(shown)) > 3


def test_slips_follow_the_seed_and_colours_become_words() -> None:
    env = agentgym.make("gymnasium", id="FrozenLake-v1")
    assert env.spec.max_turns == 100
    assert env.spec.action_help == "Actions: left, down, right, up."
    first = env.reset(env.tasks("train")[0])
    assert "[S]" in first.text
    assert "\x1b" not in first.text
    assert list(first.admissible or ()) == ["left", "down", "right", "up"]


def test_actions_that_are_masked_are_not_listed() -> None:
    env = agentgym.make("gymnasium:Taxi-v4")
    seen = env.reset(env.tasks("train")[0])
    raw = gymnasium.make("Taxi-v4")
    _, info = raw.reset(seed=0)
    assert len(list(seen.admissible or ())) == int(np.sum(info["action_mask"]))


def test_the_cliff_is_reached_by_the_known_way() -> None:
    env = agentgym.make("gymnasium:CliffWalking-v1")
    env.reset(env.tasks("valid")[0])
    steps = [env.step(action) for action in ["up", *["right"] * 11, "down"]]
    assert steps[-1].success
    assert sum(step.reward for step in steps) == -13


@pytest.mark.parametrize("id", ["CliffWalking-v1", "FrozenLake-v1", "Taxi-v4", "Blackjack-v1", "CartPole-v1"])
def test_the_checker_finds_nothing(id: str) -> None:
    report = check_here(f"gymnasium:{id}", Settings(tasks=2, turns=12, seconds=4.0))
    assert [(f.code, f.seen) for f in report.findings if f.level != "note"] == []


def test_other_action_spaces() -> None:
    class Boxes(gymnasium.Env):
        observation_space = gymnasium.spaces.Discrete(3)
        action_space = gymnasium.spaces.MultiDiscrete([2, 3])

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            return 1, float(action.sum()), False, bool(action.sum() == 3), {}

    gymnasium.register("agentgym-test/Boxes-v0", entry_point=lambda **_: Boxes())
    try:
        env = agentgym.make("gymnasium:agentgym-test/Boxes-v0")
        first = env.reset(env.tasks()[0])
        assert list(first.admissible or ()) == ["0 0", "0 1", "0 2", "1 0", "1 1", "1 2"]
        assert env.step("1 1").reward == 2.0
        last = env.step("1 2")
        assert (last.terminated, last.success, last.info) == (True, False, {"truncated": True})
        named = agentgym.make("gymnasium", id="agentgym-test/Boxes-v0", actions=list("abcdef"), success=3)
        named.reset(named.tasks()[0])
        assert named.step("F").reward == 3.0
    finally:
        del gymnasium.registry["agentgym-test/Boxes-v0"]


def test_what_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"Did you mean 'CliffWalking-v1'"):
        agentgym.make("gymnasium:CliffWalk-v1")
    with pytest.raises(ConfigError, match="which are not discrete"):
        agentgym.make("gymnasium:Pendulum-v1")
    with pytest.raises(ConfigError, match="gymnasium:ID"):
        agentgym.make("gymnasium")
    with pytest.raises(ConfigError, match="takes no other"):
        agentgym.make("gymnasium:Taxi-v4", id="CliffWalking-v1")
    with pytest.raises(ConfigError, match="needs 4 different action names"):
        agentgym.make("gymnasium", id="CliffWalking-v1", actions=["a", "b"])
    with pytest.raises(UnknownNameError, match="success rule"):
        agentgym.make("gymnasium", id="CliffWalking-v1", success="win")
    taxi, cliff = agentgym.make("gymnasium", id="Taxi-v4"), agentgym.make("gymnasium", id="CliffWalking-v1")
    with pytest.raises(DataError, match="it is of id 'Taxi-v4'"):
        cliff.reset(taxi.tasks()[0])


def test_rollouts_use_the_instances_own_spec() -> None:
    env = agentgym.make("gymnasium", id="FrozenLake-v1")
    tasks = env.tasks("test", n=3)
    before = random.getstate()
    groups = agentgym.rollout(
        "gymnasium", agentgym.load_policy("random"), tasks=tasks, n=2, seed=0, env_options={"id": "FrozenLake-v1"}
    )
    assert random.getstate() == before
    episodes = [episode for group in groups for episode in group]
    assert all(not episode.error for episode in episodes)
    assert {episode.termination.value for episode in episodes} <= {"env_done", "max_turns"}
    assert max(len(episode.turns) for episode in episodes) > 3


@pytest.mark.parametrize("name", ["quest", "keydoor", "frozenlake"])
def test_ours_pass_gymnasiums_own_checker(name: str) -> None:
    from gymnasium.utils.env_checker import check_env

    from agentgym.gymnasium import make

    env = make(
        name,
        render_mode="ansi",
        task_options={} if name == "quest" else {"count": 20} if name == "keydoor" else {"n": 20},
    )
    check_env(env, skip_render_check=True)


def test_ours_behind_gymnasiums_interface() -> None:
    from agentgym.gymnasium import make

    env = make("keydoor", split="valid", max_turns=4)
    text, info = env.reset(seed=3)
    assert env.reset(seed=3) == (text, info)
    assert env.reset(options={"task": 2})[1]["task"] == env.tasks[2].id
    assert env.reset(options={"task": env.tasks[5].name})[1]["task"] == env.tasks[5].id
    ends = [env.step("no such action")[2:4] for _ in range(4)]
    assert ends == [(False, False)] * 3 + [(False, True)]
    assert env.step("no such action")[4]["grounded"] is False
    with pytest.raises(AgentGymError, match="must come first"):
        make("keydoor").step("x")
