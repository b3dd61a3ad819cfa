"""Minesweeper against a plain version of the original's rules, brute-force chances, and the checks of all games."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import game_checks
import numpy as np
import pytest

import agentgym
from agentgym import Task
from agentgym.environments.minesweeper import Minesweeper
from agentgym.environments.minesweeper.board import Board, place_mines
from agentgym.environments.minesweeper.deduce import mine_chances
from agentgym.errors import ConfigError, DataError, EnvironmentFault, UnknownNameError
from agentgym.seeding import python_rng


class Plain:
    """The original's rules, straight and slow, on arrays: what is shown and what is paid."""

    def __init__(self, size: int, mines: list[int], first: int) -> None:
        self.mine = np.zeros(size * size, bool)
        self.mine[mines] = True
        self.mine = self.mine.reshape(size, size)
        padded = np.pad(self.mine.astype(int), 1)
        around = sum(np.roll(padded, (dr, dc), (0, 1)) for dr in (-1, 0, 1) for dc in (-1, 0, 1))[1:-1, 1:-1]
        self.true = np.where(self.mine, "*", np.where(around == 0, ".", around.astype(str)))
        self.shown = np.full((size, size), "?")
        self.open(*divmod(first, size))

    def open(self, r: int, c: int) -> None:
        if 0 <= r < len(self.shown) and 0 <= c < len(self.shown) and self.shown[r, c] == "?":
            self.shown[r, c] = self.true[r, c]
            if self.true[r, c] == ".":
                for dr, dc in itertools.product((-1, 0, 1), repeat=2):
                    self.open(r + dr, c + dc)

    def step(self, row: int, column: int) -> tuple[float, bool]:
        size, before = len(self.shown), self.shown.copy()
        if not (1 <= row <= size and 1 <= column <= size) or self.shown[row - 1, column - 1] != "?":
            return -1.0, False
        self.open(row - 1, column - 1)
        if self.mine[row - 1, column - 1]:
            return -0.1, True
        if (self.shown != "?")[~self.mine].all():
            return 10.0, True
        return (0.5 if (self.shown != before).sum() == 1 else 2.0), False


def test_boards_and_rewards_are_the_originals() -> None:
    env, paid = Minesweeper(outcome="rewards"), set()
    for task in env.tasks("train", n=60):
        data = task.data
        plain = Plain(data["size"], data["mines"], data["first"])
        text, rng = env.reset(task).text, python_rng("clicks", task.seed)
        for _ in range(30):
            rows = [" ".join(row) for row in plain.shown]
            assert text.splitlines() == [f"Row {k}: {row}" for k, row in enumerate(rows, 1)]
            row, column = rng.randint(0, 7), rng.randint(1, 6)
            if rng.random() < 0.6:
                row, column = eval_pair(env.expert())
            reward, done = plain.step(row, column)
            step = env.step(f"I open ({row},{column}), not (1, 1).")
            text = step.observation.state_key
            assert (step.reward, step.terminated, step.grounded) == (reward, done, reward != -1)
            assert step.success == (reward == 10)
            paid.add(reward)
            if done:
                break
    assert paid == {-1.0, -0.1, 0.5, 2.0, 10.0}


def eval_pair(name: str | None) -> tuple[int, int]:
    """``(3, 4)`` as numbers."""
    row, column = (name or "").strip("()").split(", ")
    return int(row), int(column)


def test_mines_are_where_the_originals_seeds_put_them() -> None:
    # The original takes the three smallest of these numbers, and the fourth in place of the first cell opened.
    for seed in (0, 7, 65_535, 2**32 - 1):
        np.random.seed(seed)  # noqa: NPY002
        drawn = np.random.rand(6, 6)  # noqa: NPY002
        order = np.argsort(drawn.ravel())
        far = next(cell for cell in range(36) if cell not in order[:4])
        assert place_mines(seed, 6, 3, far) == tuple(sorted(order[:3].tolist()))
        hit = int(order[1])
        assert place_mines(seed, 6, 3, hit) == tuple(sorted({*order[:4].tolist()} - {hit}))


def test_seeds_are_retroagents_ranges() -> None:
    env = Minesweeper()
    assert all(task.data["board_seed"] < 2**16 for task in env.tasks("train", n=50))
    for split in ("valid", "test"):
        assert all(2**16 <= task.data["board_seed"] < 2**32 for task in env.tasks(split, n=50))
    for task in env.tasks("test", n=50):
        placed = place_mines(task.data["board_seed"], 6, 3, task.data["first"])
        assert list(placed) == task.data["mines"]


def test_the_oracle_always_wins_in_time_and_idling_earns_nothing() -> None:
    env = Minesweeper()
    for task in env.tasks("test", n=80):
        env.reset(task)
        fewest = env._board.clicks_left(env._opened)
        steps = game_checks.play(env, task)
        assert steps[-1].success
        assert len(steps) == fewest
        assert steps[-1].score == 1
        assert steps[-1].milestones == env.milestone_names
        assert all(step.grounded for step in steps)
        idle = game_checks.play(env, task, lambda *_: "")
        assert len(idle) == 15
        assert {(step.score, step.reward, step.success) for step in idle} == {(0, -1, False)}


def brute_chances(board: Board, opened: int) -> dict[int, float]:
    """Chances by trying every placement of the mines."""
    cells = [cell for cell in range(board.size**2) if not opened >> cell & 1]
    hits, total = dict.fromkeys(cells, 0), 0
    for mines in itertools.combinations(cells, len(board.mines)):
        other = Board(board.size, mines)
        if all(other.symbols[k] == board.symbols[k] for k in range(board.size**2) if opened >> k & 1):
            total += 1
            for cell in mines:
                hits[cell] += 1
    return {cell: count / total for cell, count in hits.items()}


def test_chances_are_exact() -> None:
    compared = 0
    for task in Minesweeper().tasks("train", n=6, size=4, mines=3, max_clicks=10):
        env = Minesweeper(expert="deducer")
        env.reset(task)
        for _ in range(6):
            expected = brute_chances(env._board, env._opened)
            assert list(env.mine_chances().values()) == pytest.approx(list(expected.values()))
            compared += len(expected)
            if env.step(env.expert() or "").terminated:
                break
    assert compared > 30


def test_the_deducer_never_hits_a_mine_where_a_cell_is_certain() -> None:
    env, won = Minesweeper(expert="deducer"), 0
    for task in env.tasks("valid", n=60):
        env.reset(task)
        for _ in range(15):
            chance = min(env.mine_chances().values())
            step = env.step(env.expert() or "")
            assert step.success or not step.terminated or chance > 0
            if step.terminated:
                break
        won += step.success
    assert won >= 50


def test_chances_of_an_untouched_board_are_even() -> None:
    assert mine_chances({}, range(9), Board(3, (0,)).near, 2) == pytest.approx([2 / 9] * 9)


def test_the_first_cell_named_counts_and_refusals_say_why() -> None:
    env = Minesweeper()
    env.reset(Task("minesweeper", "a", data={"size": 3, "mines": [0, 8], "first": 1}))
    assert env.step("( 2 ,2 )").observation.text == "Row 1: ? 1 ?\nRow 2: ? 2 ?\nRow 3: ? ? ?"
    for action, reason in (("(1, 2)", "open already"), ("(0, 1)", "no cell (0, 1)"), ("2, 2", "Name a cell")):
        step = env.step(action)
        assert reason in step.observation.text
        assert (step.grounded, step.reward) == (False, -1)
    assert "(1, 2)" not in (step.observation.admissible or ())
    step = env.step("(3, 3)")
    assert step.observation.text == "Row 1: ? 1 ?\nRow 2: ? 2 ?\nRow 3: ? ? *"
    assert (step.terminated, step.success, step.reward, env.expert()) == (True, False, -0.1, None)
    with pytest.raises(EnvironmentFault, match="over"):
        env.step("(1, 1)")


def test_what_every_game_must_do() -> None:
    game_checks.check_splits("minesweeper", lambda task: [task.data["size"], task.data["mines"]])
    game_checks.check_other_process("minesweeper")
    tasks = Minesweeper().tasks("valid", n=8)
    for make in (Minesweeper, partial(Minesweeper, "deducer", "rewards")):
        game_checks.check_interleaved(make, tasks)
        game_checks.check_snapshots(make, tasks)
        game_checks.check_bad_snapshots(make(), tasks[0])
        hostile = (
            *game_checks.HOSTILE,
            "(99, 99)",
            "(1,)",
            "(" + "1" * 900 + ", 2)",
            "(1, 1)" + "x" * 1000,
            "( " * 400,
        )
        game_checks.check_hostile(make(), tasks[0], hostile)


@pytest.mark.parametrize(
    "change", [{"size": 2}, {"size": "6"}, {"mines": []}, {"mines": [36]}, {"mines": 3}, {"first": 5}, {"first": None}]
)
def test_broken_boards_are_named(change: dict[str, Any]) -> None:
    data = {"size": 6, "mines": [5, 12, 30], "first": 0, **change}
    with pytest.raises(DataError, match="minesweeper task 'bad'"):
        Minesweeper().reset(Task("minesweeper", "bad", data=data))
    with pytest.raises(DataError, match="wins at once"):
        Minesweeper().reset(Task("minesweeper", "bad", data={"size": 3, "mines": [0], "first": 8}))


def test_wrong_options_are_named() -> None:
    with pytest.raises(UnknownNameError, match="oracle"):
        agentgym.make("minesweeper", expert="orakel")
    for wrong in ({"size": 2}, {"mines": 36}, {"mines": 0}, {"max_clicks": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            Minesweeper().tasks("train", **wrong)
    with pytest.raises(ConfigError, match="no board of size 8"):
        Minesweeper().tasks("train", n=1, size=8, mines=30, max_clicks=1)


def test_a_board_seed_must_put_the_mines_where_they_are() -> None:
    env, task = Minesweeper(), Minesweeper().tasks("train", n=1)[0]
    env.reset(Task("minesweeper", "kept", data=task.data))
    env.reset(Task("minesweeper", "left out", data={k: v for k, v in task.data.items() if k != "board_seed"}))
    for seed in (task.data["board_seed"] + 1, -1, 2**32, "7", True, 1.5):
        with pytest.raises(DataError, match="task 'bad': board_seed must be the seed"):
            env.reset(Task("minesweeper", "bad", data={**task.data, "board_seed": seed}))


def test_every_refusal_comes_back_with_its_reason() -> None:
    env, other = Minesweeper(), Minesweeper()
    task = Task("minesweeper", "a", data={"size": 3, "mines": [0, 8], "first": 1})
    env.reset(task), other.reset(task)
    for action in ("(1, 2)", "(0, 1)", "no cell", "(2, 2)"):
        seen = env.step(action).observation
        assert other.restore(env.snapshot()) == seen
    opened = env.snapshot()[1]
    for state in ((task.id, opened, True, ""), (task.id, opened | 1, False, ""), (task.id, 0, False, "")):
        with pytest.raises(EnvironmentFault, match="expected a snapshot"):
            other.restore(state)
