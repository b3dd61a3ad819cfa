"""Sokoban against recorded episodes of gym-sokoban, an independent solver, and the checks of all games."""

from __future__ import annotations

import json
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any

import game_checks
import pytest

import agentgym
from agentgym import Task
from agentgym.environments.sokoban import ACTIONS, Sokoban
from agentgym.environments.sokoban.generator import carve, make_room
from agentgym.environments.sokoban.room import Room, RoomError
from agentgym.errors import ConfigError, DataError, EnvironmentFault, UnknownNameError
from agentgym.seeding import python_rng

#: episodes of gym-sokoban 0.0.6's SokobanEnv.step: start, actions, and the state and reward after each
GOLDEN = [json.loads(line) for line in (Path(__file__).parent / "sokoban_golden.jsonl").read_text("utf-8").splitlines()]
FIXED = str.maketrans("XP√S", "__OO")


def walk(rows: list[str], row: int, column: int, boxes: frozenset[Any]) -> list[tuple[int, int, frozenset[Any]]]:
    """Independent of the code under test: what the four moves lead to."""
    out = []
    for dr, dc in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        r, c, now = row + dr, column + dc, boxes
        if (r, c) in now and rows[r + dr][c + dc] != "#" and (r + dr, c + dc) not in now:
            now = now - {(r, c)} | {(r + dr, c + dc)}
        out.append((r, c, now) if rows[r][c] != "#" and (r, c) not in now else (row, column, boxes))
    return out


def shortest(rows: list[str]) -> int | None:
    """Fewest moves to solve a room, breadth first forwards; None if there is no way."""
    places = [(r, c, symbol) for r, row in enumerate(rows) for c, symbol in enumerate(row)]
    targets = {(r, c) for r, c, symbol in places if symbol in "O√S"}
    boxes = frozenset((r, c) for r, c, symbol in places if symbol in "X√")
    row, column = next((r, c) for r, c, symbol in places if symbol in "PS")
    seen, queue = {(row, column, boxes)}, deque([(row, column, boxes, 0)])
    while queue:
        row, column, boxes, depth = queue.popleft()
        if boxes == targets:
            return depth
        for state in walk(rows, row, column, boxes):
            if state not in seen:
                seen.add(state)
                queue.append((*state, depth + 1))
    return None


def test_moves_and_rewards_are_gym_sokobans() -> None:
    assert len(GOLDEN) == 20
    for number, golden in enumerate(GOLDEN):
        env = Sokoban()
        env.reset(Task("sokoban", f"golden {number}", data={"rows": golden["rows"]}))
        for action, state, reward in zip(golden["actions"], golden["states"], golden["rewards"], strict=True):
            step = env.step(ACTIONS["UDLR".index(action)])
            assert step.observation.text.replace(" ", "").replace("\n", "") == state
            assert step.reward == pytest.approx(reward)
        assert (step.terminated, step.success) == (golden["done"], golden["done"])
    assert sum(golden["done"] for golden in GOLDEN) >= 10


@pytest.mark.parametrize(
    ("size", "boxes", "low", "high"), [(6, 1, 2, 10), (6, 2, 5, 30), (7, 3, 1, 60), (8, 2, 10, 40)]
)
def test_rooms_are_solvable_with_the_solution_length_asked_for(size: int, boxes: int, low: int, high: int) -> None:
    options = {"size": size, "boxes": boxes, "min_steps": low, "max_steps": high}
    for task in Sokoban().tasks("train", n=25, **options):
        rows = task.data["rows"]
        length = shortest(rows)
        assert length is not None
        assert low <= length <= high
        room = "".join(rows)
        assert (room.count("X"), room.count("O"), room.count("P"), len(rows), len(rows[0])) == (
            boxes,
            boxes,
            1,
            size,
            size,
        )
        border = [rows[0], rows[-1], *(row[0] + row[-1] for row in rows)]
        assert set("".join(border)) == {"#"}


def test_the_table_of_solution_lengths_is_exact_in_every_state() -> None:
    rng = python_rng("rooms")
    checked = dead = 0
    for boxes in (1, 1, 1, 2, 2, 2):
        rows = next(filter(None, (make_room(rng, 6, boxes, 3, 30) for _ in range(500))))
        room = Room(rows)
        seen, queue = {room.start}, [room.start]
        while queue:
            state = queue.pop()
            drawn = room.draw(state)
            lines = ["".join(drawn[k : k + 6]) for k in range(0, 36, 6)]
            assert room.steps.get(state) == shortest(lines)
            checked += 1
            dead += state not in room.steps
            for direction in range(4):
                after = room.move(state, direction)
                if after not in seen and room.on_target(state) < boxes:
                    seen.add(after)
                    queue.append(after)
    assert checked > 100
    assert dead > 10


@pytest.mark.parametrize("variant", ["ragen", "retroagent"])
def test_the_expert_solves_in_the_fewest_moves_and_doing_nothing_earns_nothing(variant: str) -> None:
    env = Sokoban(variant)
    for task in env.tasks("test", n=40):
        steps = game_checks.play(env, task)
        assert steps[-1].success
        assert steps[-1].score == 1
        assert len(steps) == shortest(task.data["rows"]) <= (10 if variant == "ragen" else 30)
        boxes = len(env.milestone_names)
        assert steps[-1].milestones == env.milestone_names == tuple(f"{k} on target" for k in range(1, boxes + 1))
        assert all(step.grounded for step in steps)
        onto = sum(len(b.milestones) > len(a.milestones) for a, b in zip([None, *steps], steps, strict=False) if a)
        assert onto <= boxes
        idle = game_checks.play(env, task, lambda *_: "")
        assert len(idle) == 30
        assert {step.score for step in idle} == {0}
        assert sum(step.reward for step in idle) == pytest.approx(0 if variant == "ragen" else -3)


def test_symbols_and_prices() -> None:
    rows = ["######", "#O_X_#", "#__P_#", "######"]
    env = Sokoban(outcome="rewards")
    observation = env.reset(Task("sokoban", "a", data={"rows": rows}))
    assert observation.text == " #  #  #  #  #  # \n #  O  _  X  _  # \n #  _  _  P  _  # \n #  #  #  #  #  # "
    assert observation.admissible == ["Up", "Down", "Left", "Right"]
    step = env.step("Up")
    assert (step.grounded, step.reward, step.observation.state_key) == (False, -0.1, observation.state_key)
    steps = [env.step(action) for action in ("right", "UP", "Left", " Left ")]
    assert [step.grounded for step in steps] == [True] * 4
    assert [step.reward for step in steps] == pytest.approx([-0.1, -0.1, -0.1, 10.9])
    assert steps[-1].observation.text.splitlines()[1] == " #  √  P  _  _  # "
    assert (steps[-1].success, steps[-1].milestones, steps[-1].score) == (True, ("1 on target",), None)
    with pytest.raises(EnvironmentFault, match="over"):
        env.step("Up")


def test_retroagents_rows_are_numbered_and_a_dead_state_ends_the_game() -> None:
    task = Task("sokoban", "b", data={"rows": ["#####", "#_O_#", "#_X_#", "#_P_#", "#___#", "#####"]})
    env, endless = Sokoban("retroagent"), Sokoban("ragen")
    assert env.reset(task).text.splitlines()[1:3] == ["1: # _ O _ #", "2: # _ X _ #"]
    endless.reset(task)
    steps = [(env.step(action), endless.step(action)) for action in ("Right", "Up", "Left")]
    assert [step.terminated for step, _ in steps] == [False, False, True]
    step, other = steps[-1]
    assert step.observation.text.splitlines()[2] == "2: # X P _ #"
    assert (step.success, step.score, step.reward, env.expert()) == (False, 0, pytest.approx(-0.1), None)
    assert not other.terminated
    assert endless.steps_left() is None
    assert endless.expert() is None


def test_a_box_that_leaves_its_target_costs_one_and_milestones_stay() -> None:
    rows = ["#######", "#_____#", "#P___X#", "#__O__#", "#__X_O#", "#_____#", "#######"]
    env = Sokoban()
    env.reset(Task("sokoban", "c", data={"rows": rows}))
    steps = [env.step(action) for action in ("Down", "Down", "Down", "Right", "Right", "Up", "Up")]
    assert [step.reward for step in steps[-2:]] == pytest.approx([0.9, -1.1])
    assert [step.milestones for step in steps[-3:]] == [(), ("1 on target",), ("1 on target",)]


def test_several_actions_a_turn() -> None:
    env = Sokoban(actions_per_turn=2)
    task = Task("sokoban", "d", data={"rows": ["######", "#PX_O#", "######"]})
    env.reset(task)
    assert not env.step("Right || Right || Right").grounded
    step = env.step("Right || Right")
    assert (step.success, step.reward) == (True, pytest.approx(-0.1 + 10.9))


def test_what_every_game_must_do() -> None:
    def content(task: Task) -> list[str]:
        return [row.translate(FIXED) for row in task.data["rows"]]

    game_checks.check_splits("sokoban", content)
    game_checks.check_other_process("sokoban", boxes=2, max_steps=30)
    for variant in ("ragen", "retroagent"):
        make = partial(Sokoban, variant)
        tasks = make().tasks("valid", n=8)
        game_checks.check_interleaved(make, tasks)
        game_checks.check_snapshots(make, tasks)
        game_checks.check_bad_snapshots(make(), tasks[0])
        for limit in (1, 2):
            game_checks.check_hostile(make(actions_per_turn=limit), tasks[0])


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (["####", "#PX#", "####"], "as many boxes as targets"),
        (["#####", "#_XO#", "#####"], "one player"),
        (["#####", "#P√_#", "#####"], "solved already"),
        (["#####", "#XPO#", "#####"], "cannot be solved"),
        (["#####", "#PXO", "#####"], "equally long"),
        (["#####", "#P?O#", "#####"], "equally long"),
        ([], "equally long"),
        ("#PXO#", "list of lines"),
        (["P" + "_" * 150 + "XO"], "too many states"),
    ],
)
def test_broken_rooms_are_named(rows: Any, problem: str) -> None:
    with pytest.raises(DataError, match=f"sokoban task 'bad': .*{problem}"):
        Sokoban().reset(Task("sokoban", "bad", data={"rows": rows}))


def test_wrong_options_are_named() -> None:
    with pytest.raises(UnknownNameError, match="retroagent"):
        agentgym.make("sokoban", variant="retro-agent")
    with pytest.raises(UnknownNameError, match="rewards"):
        agentgym.make("sokoban", outcome="reward")
    for wrong in ({"size": 3}, {"boxes": 0}, {"min_steps": 5, "max_steps": 4}):
        with pytest.raises(ConfigError, match=next(reversed(wrong))):
            Sokoban().tasks("train", **wrong)
    with pytest.raises(ConfigError, match="no room of size 4 with 4 boxes"):
        Sokoban().tasks("train", n=1, size=4, boxes=4)


def test_floors_are_connected() -> None:
    for seed in range(30):
        cells = set(carve(python_rng("carve", seed), 7))
        seen, queue = set(), [min(cells)]
        while queue:
            cell = queue.pop()
            if cell in cells and cell not in seen:
                seen.add(cell)
                queue += [cell - 1, cell + 1, cell - 7, cell + 7]
        assert seen == cells


def test_large_rooms_are_refused_before_they_cost_much() -> None:
    open_room = ["#" * 12, *["#" + "_" * 10 + "#"] * 9, "#PXXXXOOOO_#", "#" * 12]
    with pytest.raises(RoomError, match="too many states"):
        Room(open_room)


def test_snapshots_of_impossible_states_are_refused() -> None:
    env = Sokoban()
    task = Task("sokoban", "d", data={"rows": ["######", "#PX_O#", "######"]})
    env.reset(task)
    _, start, _, _, _ = env.snapshot()
    two_boxes, on_box, outside = start | 1 << 9, 1 << 8 | 1, 1 << 13 | 0
    for state in (two_boxes, on_box, outside, 1 << 8 | 100):
        with pytest.raises(EnvironmentFault, match="expected a snapshot"):
            env.restore((task.id, state, 0, False, False))
    with pytest.raises(EnvironmentFault, match="expected a snapshot"):
        env.restore((task.id, start, 0, True, False))  # neither solved nor dead, so not over
    solved = 1 << 10 | 2
    with pytest.raises(EnvironmentFault, match="expected a snapshot"):
        env.restore((task.id, solved, 1, False, False))
    assert "√" in env.restore((task.id, solved, 1, True, False)).text


@pytest.mark.parametrize("variant", [["ragen"], {}, None, 3])
def test_variants_of_any_type_are_named(variant: Any) -> None:
    with pytest.raises(UnknownNameError, match="variant of environment 'sokoban'"):
        Sokoban(variant)
