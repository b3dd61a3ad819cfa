"""KeyDoor: rules, the exact model against the environment and against hand-made values, splits, hostile input."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import game_checks
import numpy as np
import pytest

import agentgym
from agentgym.environments.keydoor import KeyDoor, TabularModel
from agentgym.environments.keydoor.world import DISTRACTORS, Corridor
from agentgym.errors import AgentGymError, ConfigError, DataError, EnvironmentFault, UnknownNameError
from agentgym.rollouts import Limits
from agentgym.seeding import numpy_rng
from agentgym.types import Step, Task

ROOT = Path(__file__).parent.parent.parent
SMALLEST = {"length": 2, "doors": 1, "distractors": 1}
SIZES = [(2, 1, 0), (6, 2, 2), (10, 4, 8)]


def finish(env: KeyDoor) -> list[Step]:
    steps: list[Step] = []
    while not (steps and steps[-1].terminated):
        steps.append(env.step(env.expert() or ""))
        assert len(steps) < 500
    return steps


def chain() -> TabularModel:
    """The smallest corridor: take key, open door, right; the only other possible action has no effect."""
    env = KeyDoor(**SMALLEST)
    env.reset(env.tasks("train")[0])
    return env.model()


def test_the_smallest_corridor_by_hand() -> None:
    env = KeyDoor(**SMALLEST)
    first = env.reset(env.tasks("train")[0])
    assert first.text == first.state_key == "cell 1 of 2 ; see key ; ahead closed door ; hold nothing ; opened 0"
    assert first.admissible is not None
    assert first.admissible[0] == "take key"
    assert set(first.admissible[1:]) < set(DISTRACTORS)
    refused = env.step("right")
    assert refused.observation.text == f"nothing happens ; {first.text}"
    assert (refused.observation.state_key, refused.grounded) == (first.text, False)
    texts = []
    for action in ("take key", "open door", "right"):
        assert env.expert() == action
        step = env.step(action)
        texts.append(step.observation.text)
        assert step.reward == float(step.terminated) == float(step.success) == float(action == "right")
    assert texts == [
        "cell 1 of 2 ; see nothing ; ahead closed door ; hold key ; opened 0",
        "cell 1 of 2 ; see nothing ; ahead open door ; hold nothing ; opened 1",
        "cell 2 of 2 ; see nothing ; ahead nothing ; hold nothing ; opened 1",
    ]
    assert step.milestones == env.milestone_names == ("take key 1", "open door 1", "reach the end")
    assert env.expert() is None
    with pytest.raises(EnvironmentFault, match="reset first"):
        env.step("left")


def test_rules_of_a_longer_corridor() -> None:
    corridor = Corridor(5, doors=(2, 4), keys=(1, 2), start=0, distractors=("sing",))
    assert corridor.after(0, 0, "left") is None  # the wall
    assert corridor.after(0, 0, "take key") is None  # lies in the next cell
    assert corridor.after(1, 0, "take key") == (1, 1)
    assert corridor.after(1, 0, "open door") is None  # no key in hand
    assert corridor.after(0, 1, "open door") is None  # no door here
    assert corridor.after(1, 1, "right") is None  # closed
    assert corridor.after(1, 1, "open door") == (1, 2)
    assert corridor.after(1, 2, "right") == (2, 2)
    assert corridor.after(2, 2, "left") == (1, 2)  # open doors let pass both ways
    assert corridor.after(1, 2, "sing") == (1, 2)
    assert corridor.after(1, 2, "dance") is None  # not an action of this corridor
    assert corridor.text(1, 2) == "cell 2 of 5 ; see nothing ; ahead open door ; hold nothing ; opened 1"


@pytest.mark.parametrize(("length", "doors", "distractors"), SIZES)
def test_the_model_is_the_environment(length: int, doors: int, distractors: int) -> None:
    env = KeyDoor(length, doors, distractors)
    for task in env.tasks("train", count=5):
        env.reset(task)
        model = env.model()
        assert env.states() == model.states
        assert len(set(model.states)) == len(model.states) <= length * (2 * doors + 1)
        assert len(model.actions) == 4 + distractors
        for state, key in enumerate(model.states):
            seen = env.restore((task.id, state, False))
            assert seen.text == key
            assert model.index(key) == state
            assert list(seen.admissible or ()) == [
                a for a, p in zip(model.actions, model.possible[state], strict=True) if p
            ]
            for number, action in enumerate(model.actions):
                env.restore((task.id, state, False))
                if model.terminal[state]:
                    continue
                step = env.step(action)
                assert step.observation.state_key == model.states[model.next_state[state, number]]
                assert step.reward == model.reward[state, number]
                assert step.grounded == model.possible[state, number]
                assert step.terminated == model.terminal[model.next_state[state, number]]


@pytest.mark.parametrize(("length", "doors", "distractors"), SIZES)
def test_the_expert_is_optimal_and_rewarded_once(length: int, doors: int, distractors: int) -> None:
    env = KeyDoor(length, doors, distractors)
    for task in env.tasks("test", count=10):
        env.reset(task)
        model = env.model()
        # shortest distance by value iteration, which knows nothing of the search in the environment
        far = np.where(model.terminal, 0.0, np.inf)
        for _ in model.states:
            far = np.minimum(far, np.where(model.terminal, 0.0, 1 + far[model.next_state].min(1)))
        steps = finish(env)
        assert len(steps) == far[model.start]
        assert [s.reward for s in steps] == [0.0] * (len(steps) - 1) + [1.0]
        reached = [s.milestones for s in steps]
        assert reached[-1] == env.milestone_names
        assert len(env.milestone_names) == 2 * doors + 1
        assert all(a == b[: len(a)] and len(b) - len(a) <= 1 for a, b in pairwise(reached))


def test_values_of_a_chain_have_a_closed_form() -> None:
    """Uniform over two possible actions (forward, distractor): V = g^3 with g = gamma p / (1 - gamma (1 - p))."""
    model = chain()
    uniform = model.uniform()
    # at the door with it open: right or the distractor (left is the wall), so all three states halve alike
    assert [int(row.sum()) for row in model.possible[~model.terminal]] == [2, 2, 2]
    gamma, p = 0.9, 0.5
    hop = gamma * p / (1 - gamma * (1 - p))
    value, action_value = model.values(uniform, gamma)
    assert value[model.start] == pytest.approx(hop**3 / gamma, rel=1e-12)
    take = model.actions.index("take key")
    assert action_value[model.start, take] == pytest.approx(hop**2, rel=1e-12)
    assert value[model.terminal].tolist() == [0.0]
    assert model.values(uniform)[0][~model.terminal].tolist() == pytest.approx([1.0] * 3)  # no discount, no limit
    # under a limit of 5 turns: three successes within five fair coin tosses
    assert model.finite_values(uniform, 5)[0][0, model.start] == pytest.approx(16 / 32)
    assert model.finite_values(uniform, 2)[0][0, model.start] == 0.0


def test_values_satisfy_bellman_and_agree_with_a_long_limit() -> None:
    env = KeyDoor()
    for index, task in enumerate(env.tasks("train", count=5)):
        env.reset(task)
        model = env.model()
        policy = numpy_rng("test", index).dirichlet(np.ones(len(model.actions)), len(model.states))
        value, action_value = model.values(policy, 0.97)
        assert value == pytest.approx((policy * action_value).sum(1) * ~model.terminal, abs=1e-12)
        later = np.einsum("sat,t->sa", model.transitions(), value)
        assert action_value == pytest.approx((model.reward + 0.97 * later) * ~model.terminal[:, None], abs=1e-12)
        assert model.finite_values(policy, 2000, 0.97)[0][0] == pytest.approx(value, abs=1e-9)


def test_values_agree_with_rollouts_of_the_library() -> None:
    env = KeyDoor()
    tasks = env.tasks("train", count=3, length=3, doors=1)
    groups = agentgym.rollout(
        "keydoor", agentgym.load_policy("random"), tasks=tasks, n=200, seed=1, limits=Limits(max_turns=12)
    )
    for group in groups:
        env.reset(group.task)
        model = env.model()
        expected = model.finite_values(model.uniform(), 12)[0][0, model.start]
        mean = float(np.mean([e.success for e in group]))
        assert 0.05 < expected < 0.95
        assert abs(mean - expected) < 4 * np.sqrt(expected * (1 - expected) / 200)


def test_loops_without_an_end_are_worth_nothing_and_bad_policies_are_refused() -> None:
    model = chain()
    idle = np.zeros(model.next_state.shape)
    idle[:, -1] = 1.0
    assert not model.values(idle)[0].any()
    with pytest.raises(AgentGymError, match="sum to 1"):
        model.values(idle * 0.5)
    with pytest.raises(AgentGymError, match=r"\[S, A\]"):
        model.values(idle[:1])
    with pytest.raises(AgentGymError, match="gamma"):
        model.values(idle, 1.5)
    with pytest.raises(AgentGymError, match="turns"):
        model.finite_values(idle, 0)
    with pytest.raises(UnknownNameError):
        model.index("cell 9")


def test_snapshots_come_back_exactly() -> None:
    env, other = KeyDoor(), KeyDoor()
    task = env.tasks("valid")[0]
    seen = env.reset(task)
    other.reset(task)
    for action in ("fly", env.expert() or "", "", env.expert() or ""):
        state = pickle.loads(pickle.dumps(env.snapshot()))
        assert env.restore(state) == other.restore(state) == seen
        assert finish(env) == finish(other)
        env.restore(state)
        seen = env.step(action).observation
    env.reset(env.tasks("valid")[1])
    with pytest.raises(AgentGymError, match="reset it to the"):
        env.restore(state)


@pytest.mark.parametrize("action", ["", "x" * 100_000, "\x00\x1b", "RIGHT", " right", "\ud800"], ids=range(6))
def test_hostile_actions_are_refused_and_change_nothing(action: str) -> None:
    env = KeyDoor()
    first = env.reset(env.tasks("train")[0])
    step = env.step(action)
    assert (step.observation.state_key, step.grounded, step.reward, step.terminated) == (first.text, False, 0.0, False)
    assert step.observation.admissible == first.admissible


def test_the_same_in_every_process_and_splits_share_no_seed() -> None:
    env = KeyDoor()
    seeds = {split: {t.seed for t in env.tasks(split, count=200)} for split in env.spec.splits}
    assert [len(s) for s in seeds.values()] == [200, 200, 200]
    assert not seeds["train"] & seeds["valid"] | seeds["train"] & seeds["test"] | seeds["valid"] & seeds["test"]
    for number, found in enumerate(seeds.values()):  # by construction, so for all other counts and seeds too
        assert {s % 3 for s in found} == {number}
    code = (
        "from agentgym.environments.keydoor import KeyDoor\nenv = KeyDoor()\nout = []\n"
        "for t in env.tasks('valid', count=5, seed=3):\n"
        "    env.reset(t)\n    out.append((t.id, env.states(), env.model().next_state.tolist()))\nprint(repr(out))"
    )
    outputs = set()
    for hash_seed in ("1", "2"):
        variables = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
        outputs.add(done.stdout.strip())
    here: list[Any] = []
    for task in env.tasks("valid", count=5, seed=3):
        env.reset(task)
        here.append((task.id, env.states(), env.model().next_state.tolist()))
    assert outputs == {repr(here)}


def test_wrong_options_are_refused() -> None:
    with pytest.raises(ConfigError, match="room for 5 doors, got 6"):
        KeyDoor(length=6, doors=6)
    with pytest.raises(ConfigError, match="distractors must be an integer from 0 to 8"):
        KeyDoor(distractors=9)
    with pytest.raises(ConfigError, match="seed"):
        KeyDoor().tasks("train", seed=-1)
    with pytest.raises(UnknownNameError, match="'doors'"):
        KeyDoor().tasks("train", door=1)
    with pytest.raises(UnknownNameError, match="'test'"):
        KeyDoor().tasks("tests")
    with pytest.raises(UnknownNameError, match="'length'"):
        KeyDoor().reset(Task("keydoor", "x", data={"lengths": 3}))
    with pytest.raises(EnvironmentFault, match="quest"):
        KeyDoor().reset(Task("quest", "x"))
    with pytest.raises(EnvironmentFault, match="reset"):
        KeyDoor().model()


def test_doing_nothing_never_succeeds() -> None:
    tasks = KeyDoor().tasks("valid", count=5)
    groups = agentgym.rollout("keydoor", agentgym.load_policy("noop"), tasks=tasks, n=1, seed=0)
    assert not any(e.success or e.outcome for g in groups for e in g)


def test_snapshots_of_refusals_come_back_and_what_is_none_is_named() -> None:
    env = KeyDoor()
    tasks = env.tasks("valid", count=4)
    game_checks.check_snapshots(KeyDoor, tasks)
    for task in tasks:
        game_checks.check_bad_snapshots(env, task)
    env.close()
    with pytest.raises(EnvironmentFault, match="reset it to the"):
        env.restore((tasks[0].id, 0, False))
    with pytest.raises(EnvironmentFault, match="expected a snapshot"):
        KeyDoor().restore(None)


@pytest.mark.parametrize("data", ["x", "", 5, 0, [], ["rooms"]])
def test_task_data_that_is_no_mapping_is_named(data: Any) -> None:
    with pytest.raises(DataError, match=r"keydoor task 'bad'.*expected a mapping"):
        KeyDoor().reset(Task("keydoor", "bad", data=data))


def test_fields_and_splits_of_any_type_are_named() -> None:
    with pytest.raises(UnknownNameError, match="field of the data of keydoor task 'bad' '3'"):
        KeyDoor().reset(Task("keydoor", "bad", data={3: 1}))
    for split in (["test"], {}, None):
        with pytest.raises(UnknownNameError, match="split of environment 'keydoor'"):
            KeyDoor().tasks(split)  # type: ignore[arg-type]
