"""Quest: rules, optimal expert, determinism, splits, snapshots, hostile input, and the rollouts of the library."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any

import game_checks
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym
from agentgym.environments.quest import Quest
from agentgym.environments.quest.world import COLOURS, DIRECTIONS, ROOMS, Layout, World, draw_layout, make_world
from agentgym.errors import AgentGymError, ConfigError, DataError, EnvironmentFault, UnknownNameError
from agentgym.seeding import python_rng
from agentgym.types import Step, Task

ROOT = Path(__file__).parent.parent.parent
SIZES = [(2, 1), (4, 2), (6, 3), (12, 8)]
HOSTILE = [
    "",
    " ",
    "x" * 100_000,
    "\x00",
    "\x1b[2J",
    "go",
    "go  north",
    "GO NORTH",
    "take",
    "é" * 50,
    "\ud800",
    "go\nnorth",
]
#: two rooms beside each other; the key here, its chest and the altar there
BY_HAND = Layout(("attic", "hall"), ({"east": 1}, {"west": 0}), 0, ("red",), (0, 1, 1, 1))


def finish(env: Quest, limit: int = 500) -> list[Step]:
    """The expert's steps to the end."""
    steps: list[Step] = []
    while not (steps and steps[-1].terminated):
        steps.append(env.step(env.expert() or ""))
        assert len(steps) <= limit
    return steps


def mixed_tasks() -> list[Task]:
    """Games of three sizes."""
    sizes = ((1, 2), (2, 4), (3, 6))
    return [t for k, r in sizes for t in Quest().tasks("train", count=4, chests=k, rooms=r, seed=7)]


def played(task: Task, actions: int = 60) -> list[Any]:
    """A seeded play that mixes random possible, impossible and expert actions."""
    env, rng = Quest(), random.Random(task.seed)
    seen: list[Any] = [env.reset(task)]
    for _ in range(actions):
        action = rng.choice([*(seen[-1].admissible or ()), "go up", env.expert() or ""])
        step = env.step(action)
        seen += [(action, step.reward, step.grounded, step.milestones), step.observation]
        if step.terminated:
            break
    return seen


def distances(env: Quest) -> dict[Any, int]:
    """Shortest number of actions from every reachable state to success, by brute force over snapshots."""
    start = env.snapshot()
    before: dict[Any, set[Any]] = {start: set()}
    queue, won = deque([start]), set()
    while queue:
        state = queue.popleft()
        for action in env.restore(state).admissible or ():
            env.restore(state)
            step = env.step(action)
            new = env.snapshot()
            if new not in before:
                before[new] = set()
                if step.success:
                    won.add(new)
                else:
                    queue.append(new)
            before[new].add(state)
    far = dict.fromkeys(won, 0)
    line = deque(won)
    while line:
        state = line.popleft()
        for earlier in before[state] - far.keys():
            far[earlier] = far[state] + 1
            line.append(earlier)
    env.restore(start)
    assert far.keys() == before.keys()  # no dead ends
    return far


def test_a_game_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentgym.environments.quest.env.make_world", lambda *_: World(BY_HAND))
    env = Quest()
    first = env.reset(Task("quest", "by hand"))
    assert first.text == first.state_key == "attic : exits east ; see red key ; hold nothing"
    assert first.admissible == ("go east", "take red key")
    refused = env.step("open red chest")
    assert refused.observation.text == "you cannot do that ; attic : exits east ; see red key ; hold nothing"
    assert (refused.observation.state_key, refused.grounded, refused.reward) == (first.text, False, 0.0)
    plays = [
        ("take red key", "attic : exits east ; see nothing ; hold red key"),
        ("go east", "hall : exits west ; see red chest altar ; hold red key"),
        ("open red chest", "hall : exits west ; see gem altar ; hold nothing"),
        ("take gem", "hall : exits west ; see altar ; hold gem"),
        ("place gem", "hall : exits west ; see altar ; hold nothing"),
    ]
    for action, text in plays:
        assert env.expert() == action
        step = env.step(action)
        assert (step.observation.text, step.grounded) == (text, True)
        assert step.reward == float(step.terminated) == float(step.success) == float(action == "place gem")
    assert step.milestones == env.milestone_names == ("take red key", "open red chest", "take gem", "place gem")
    assert env.expert() is None
    assert step.observation.admissible == ()
    with pytest.raises(EnvironmentFault, match="reset first"):
        env.step("go west")


@pytest.mark.parametrize(("rooms", "chests"), SIZES)
def test_the_expert_is_rewarded_once_and_milestones_grow_one_by_one(rooms: int, chests: int) -> None:
    env = Quest(rooms=rooms, chests=chests)
    for task in env.tasks("valid", count=10):
        env.reset(task)
        steps = finish(env)
        assert [s.reward for s in steps] == [0.0] * (len(steps) - 1) + [1.0]
        assert all(s.grounded for s in steps)
        assert len(env.milestone_names) == 2 * chests + 2
        lengths = [len(s.milestones) for s in steps]
        assert all(0 <= b - a <= 1 for a, b in zip([0, *lengths], lengths, strict=False))
        assert all(s.milestones == env.milestone_names[: len(s.milestones)] for s in steps)
        assert lengths[-1] == len(env.milestone_names)


@pytest.mark.parametrize(("rooms", "chests"), SIZES[:3])
def test_the_expert_is_optimal_from_every_state(rooms: int, chests: int) -> None:
    env = Quest(rooms=rooms, chests=chests)
    for task in env.tasks("test", count=5):
        env.reset(task)
        far = distances(env)
        for state, steps in far.items():
            env.restore(state)
            if steps == 0:
                assert env.expert() is None
            else:
                env.step(env.expert() or "")
                assert far[env.snapshot()] == steps - 1


def test_possible_actions_are_exactly_the_admissible_ones() -> None:
    things = [f"{c} {what}" for c in COLOURS for what in ("key", "chest")] + ["gem", "altar"]
    every = [f"{verb} {thing}" for verb in ("take", "open", "place", "go") for thing in [*things, *DIRECTIONS]]
    env = Quest()
    env.reset(env.tasks("train", rooms=5, chests=2)[3])
    for state, steps in distances(env).items():
        if steps == 0:
            continue
        admissible = env.restore(state).admissible or ()
        executed = set()
        for action in every:
            env.restore(state)
            step = env.step(action)
            if step.grounded:
                executed.add(action)
                assert env.snapshot() != state
            else:
                assert env.snapshot() == (*state[:-1], True)
        assert executed == set(admissible)
        assert len(admissible) == len(executed)


@pytest.mark.parametrize("action", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_actions_are_refused_and_change_nothing(action: str) -> None:
    env = Quest()
    first = env.reset(env.tasks("train")[0])
    for _ in range(2):
        step = env.step(action)
        assert not step.grounded
        assert not step.terminated
        assert (step.observation.text, step.observation.state_key) == (f"you cannot do that ; {first.text}", first.text)
        assert (step.observation.admissible, step.reward, step.milestones) == (first.admissible, 0.0, ())
    assert finish(env)[-1].success


def test_the_same_in_every_process_and_however_interleaved() -> None:
    tasks = mixed_tasks()
    alone = [played(task) for task in tasks]
    assert [played(task) for task in reversed(tasks)] == alone[::-1]
    code = (
        "import sys; sys.path[:0] = ['tests/environments', 'tests']; import test_quest as q\n"
        "print(repr([q.played(t) for t in q.mixed_tasks()]))"
    )
    for hash_seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == repr(alone)


def test_two_instances_do_not_touch_each_other() -> None:
    tasks = Quest().tasks("train", count=2)
    one, two = Quest(), Quest()
    one.reset(tasks[0])
    reference = [s.observation.text for s in finish(one)]
    one.reset(tasks[0])
    two.reset(tasks[0])  # the same world, shared tables
    mixed = []
    for _ in range(len(reference)):
        mixed.append(one.step(one.expert() or "").observation.text)
        two.step("go north")
        two.step("go south")
    assert mixed == reference


def test_snapshots_come_back_exactly_also_in_another_instance() -> None:
    env, other = Quest(), Quest()
    task = env.tasks("valid")[3]
    seen = env.reset(task)
    other.reset(task)
    shown = {}
    for action in ("nonsense", env.expert() or "", "nonsense", "nonsense", env.expert() or ""):
        shown[env.snapshot()] = seen
        seen = env.step(action).observation
    ends = []
    for state, observation in shown.items():
        for player in (env, other):
            assert player.restore(pickle.loads(pickle.dumps(state))) == observation
            ends.append([(s.observation, s.milestones, s.reward) for s in finish(player)])
        assert ends[-1] == ends[-2]
    env.reset(env.tasks("valid")[4])
    with pytest.raises(AgentGymError, match="reset it to the"):
        env.restore(next(iter(shown)))


def test_splits_share_no_game_and_lists_are_stable() -> None:
    env = Quest()
    games: dict[str, set[Any]] = {}
    for split in env.spec.splits:
        tasks = env.tasks(split, count=150, rooms=2, chests=1)  # the smallest games: there are few of them
        worlds = [make_world(t.seed, 2, 1, split) for t in tasks]
        games[split] = {repr(w.layout) for w in worlds}
        assert {w.layout.split for w in worlds} == {split}
        assert len({t.seed for t in tasks}) == 150
    assert not games["train"] & games["valid"] | games["train"] & games["test"] | games["valid"] & games["test"]
    assert env.tasks("train", count=5).hash == env.tasks("train", count=9)[:5].hash
    assert env.tasks("train", count=5).hash != env.tasks("train", count=5, seed=1).hash
    assert len(env.tasks("valid")) == 64


def test_sizes_come_from_the_task_then_the_constructor() -> None:
    env = Quest(rooms=3, chests=1)
    env.reset(env.tasks("train", chests=4)[0])
    assert len(env.milestone_names) == 10
    env.reset(Task("quest", "no data", seed=1))
    assert len(env.milestone_names) == 4


@pytest.mark.parametrize(
    "options", [{"rooms": 1}, {"rooms": 13}, {"chests": 0}, {"chests": 9}, {"count": 0}, {"rooms": True}, {"seed": -1},
                {"seed": "a"}, {"rooms": 2.0}]
)  # fmt: skip
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"quest: {next(iter(options))} must be an integer"):
        Quest().tasks("train", **options)


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="'valid'"):
        Quest().tasks("vald")
    with pytest.raises(UnknownNameError, match="'chests'"):
        Quest().tasks("train", chest=2)
    with pytest.raises(UnknownNameError, match="'rooms'"):
        Quest().reset(Task("quest", "x", data={"room": 3}))
    with pytest.raises(EnvironmentFault, match="alfworld"):
        Quest().reset(Task("alfworld", "x"))
    with pytest.raises(EnvironmentFault, match="reset"):
        Quest().step("go north")


@given(st.integers(0, 2**60), st.integers(2, len(ROOMS)), st.integers(1, len(COLOURS)))
def test_rooms_form_a_tree_on_a_grid(seed: int, rooms: int, chests: int) -> None:
    layout = draw_layout(python_rng(seed), rooms, chests)
    assert sum(map(len, layout.exits)) == 2 * (rooms - 1)
    place, queue = {0: (0, 0)}, [0]
    for room in queue:
        for name, other in layout.exits[room].items():
            there = (place[room][0] + DIRECTIONS[name][0], place[room][1] + DIRECTIONS[name][1])
            if other not in place:
                place[other] = there
                queue.append(other)
            assert place[other] == there  # the way back leads back
    assert len(place) == len(set(place.values())) == rooms
    assert len(set(layout.rooms)) == rooms
    assert len(set(layout.colours)) == chests
    assert layout.spots[1:-2:2] == layout.spots[2:-1:2]  # what was in a chest lies where it stood


def test_the_vocabulary_is_small() -> None:
    words: set[str] = set()
    env = Quest(rooms=6, chests=3)
    for task in env.tasks("train", count=60):
        observation = env.reset(task)
        for step in finish(env):
            words.update(" ".join([observation.text, *(observation.admissible or ())]).split())
            observation = step.observation
    assert words == {
        *ROOMS,
        *COLOURS,
        *DIRECTIONS,
        *[":", ";", "exits", "see", "hold", "nothing", "key", "chest", "gem", "altar", "go", "take", "open", "place"],
    }


def test_the_library_plays_it() -> None:
    tasks = agentgym.make("quest").tasks("valid", count=8)
    expert = agentgym.rollout("quest", agentgym.load_policy("expert"), tasks=tasks, n=1, seed=0)
    assert [e.success for g in expert for e in g] == [True] * 8
    noop = agentgym.rollout("quest", agentgym.load_policy("noop"), tasks=tasks, n=1, seed=0)
    assert [(e.success, e.outcome, len(e.turns)) for g in noop for e in g] == [(False, 0.0, 36)] * 8
    assert not any(turn.grounded for g in noop for e in g for turn in e.turns)


def test_snapshots_of_refusals_come_back_and_what_is_none_is_named() -> None:
    env = Quest()
    tasks = env.tasks("valid", count=4)
    game_checks.check_snapshots(Quest, tasks)
    for task in tasks:
        game_checks.check_bad_snapshots(env, task)
    env.close()
    with pytest.raises(EnvironmentFault, match="reset it to the"):
        env.restore((tasks[0].id, 0, 0, False))
    with pytest.raises(EnvironmentFault, match="expected a snapshot"):
        Quest().restore(None)


@pytest.mark.parametrize("data", ["x", "", 5, 0, [], ["rooms"]])
def test_task_data_that_is_no_mapping_is_named(data: Any) -> None:
    with pytest.raises(DataError, match=r"quest task 'bad'.*expected a mapping"):
        Quest().reset(Task("quest", "bad", data=data))


def test_fields_and_splits_of_any_type_are_named() -> None:
    with pytest.raises(UnknownNameError, match="field of the data of quest task 'bad' '3'"):
        Quest().reset(Task("quest", "bad", data={3: 1}))
    for split in (["test"], {}, None):
        with pytest.raises(UnknownNameError, match="split of environment 'quest'"):
            Quest().tasks(split)  # type: ignore[arg-type]
    for split in (["test"], "tests", 5, None):
        with pytest.raises(UnknownNameError, match="split of environment 'quest'"):
            Quest().reset(Task("quest", "bad", data={"split": split}))
