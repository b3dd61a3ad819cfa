"""ALFWorld behind the contract: rewards, ends, options, snapshots, experts."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import agentgym
from agentgym.environments.alfworld import ALFWorld
from agentgym.environments.alfworld.env import EXPERTS
from agentgym.environments.alfworld.problem import KINDS
from agentgym.errors import AgentGymError, EnvironmentFault, UnknownNameError
from agentgym.types import Task, TaskSet


@pytest.fixture(scope="module")
def tasks() -> TaskSet:
    """Generated games; there without any data."""
    return ALFWorld().tasks("generated", n=12, preset="small")


def test_is_registered_and_describes_itself() -> None:
    env = agentgym.make("alfworld", expert="explorer")
    assert isinstance(env, ALFWorld)
    assert env.spec.max_turns == 50
    assert env.spec.kinds == KINDS
    assert env.spec.snapshots
    assert env.spec.thread_safe
    assert {"train", "valid_seen", "valid_unseen", "generated"} < set(env.spec.splits)


@pytest.mark.parametrize("expert", EXPERTS)
def test_the_expert_wins_every_task_and_only_the_end_is_rewarded(tasks: TaskSet, expert: str) -> None:
    env = ALFWorld(expert=expert)
    for task in tasks:
        observation = env.reset(task)
        assert observation.text.startswith("-= Welcome to TextWorld, ALFRED! =-")
        assert env.milestone_names
        for _ in range(50):
            command = env.expert()
            assert command in (observation.admissible or ())
            step = env.step(command or "")
            observation = step.observation
            assert step.grounded
            assert step.reward == float(step.terminated) == float(step.success)
            if step.terminated:
                break
        assert step.success
        assert step.milestones == env.milestone_names
        assert env.expert() is None


def test_bad_actions_are_not_grounded_and_change_nothing(tasks: TaskSet) -> None:
    env = ALFWorld()
    commands = env.reset(tasks[0]).admissible
    for action in ("", "fly to moon", "x" * 2**20, "\x00"):
        step = env.step(action)
        assert (step.observation.text, step.grounded, step.reward) == ("Nothing happens.", False, 0.0)
        assert step.observation.admissible == commands
        assert not step.terminated


@pytest.mark.parametrize("expert", EXPERTS)
def test_snapshots_branch_exactly(tasks: TaskSet, expert: str) -> None:
    env, other = ALFWorld(expert=expert), ALFWorld(expert=expert)
    env.reset(tasks[1])
    for _ in range(3):
        step = env.step(env.expert() or "")
    state = pickle.loads(pickle.dumps(env.snapshot()))

    def follow(player: ALFWorld) -> list[Any]:
        rows: list[Any] = []
        for _ in range(50):
            command = player.expert()
            rows.append((command, player.step(command or "")))
            if rows[-1][1].terminated:
                break
        return rows

    first = follow(env)
    assert env.restore(state) == step.observation
    assert follow(env) == first
    other.reset(tasks[1])
    other.restore(state)
    assert follow(other) == first
    other.reset(tasks[2])
    with pytest.raises(AgentGymError, match="snapshot is of game"):
        other.restore(state)


def test_experts_do_not_share_snapshots(tasks: TaskSet) -> None:
    env, other = ALFWorld(expert="explorer"), ALFWorld()
    env.reset(tasks[0])
    other.reset(tasks[0])
    with pytest.raises(AgentGymError, match="same options"):
        other.restore(env.snapshot())


def test_reset_forgets_everything(tasks: TaskSet) -> None:
    env = ALFWorld(expert="explorer")
    first = env.reset(tasks[0])
    while not env.step(env.expert() or "").terminated:
        pass
    with pytest.raises(EnvironmentFault, match="is over; reset first"):
        env.step("look")
    assert env.reset(tasks[0]) == first
    assert env.step("look").milestones == ()


def test_wrong_options_name_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="'planner'"):
        ALFWorld(expert="planer")
    with pytest.raises(UnknownNameError, match="'move'"):
        ALFWorld(wording="mov")


def test_misuse_is_refused(tasks: TaskSet) -> None:
    env = ALFWorld()
    for call in (lambda: env.step("look"), env.expert, env.snapshot):
        with pytest.raises(EnvironmentFault, match="must come first"):
            call()
    with pytest.raises(EnvironmentFault, match="'webshop'"):
        env.reset(Task("webshop", "x"))
    env.reset(tasks[0])
    env.close()
    with pytest.raises(EnvironmentFault, match="must come first"):
        env.step("look")


def test_one_process_shares_the_worlds_of_a_group(tasks: TaskSet) -> None:
    first, second = ALFWorld(), ALFWorld()
    first.reset(tasks[3])
    second.reset(tasks[3])
    assert first._game is not None
    assert second._game is not None
    assert first._game.world is second._game.world
    first.step((first.reset(tasks[3]).admissible or ())[0])
    assert first._game is not second._game
