"""Minesweeper: open every cell without a mine. RetroAgent's rules: 6x6, 3 mines, 15 turns, one cell open at the start.

The game is that of Li et al. 2024 (arXiv:2311.07387) as RetroAgent changed it: opening only, cells are named
``(row, column)`` from 1, and the rewards are +10 for the win, +2 for a cascade, +0.5 for a single cell, -0.1 for a
mine, which ends the game, and -1 for what opens nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, ClassVar, Final

from agentgym.environment import Environment, EnvironmentSpec
from agentgym.environments import _games
from agentgym.environments.minesweeper.board import Board, board_of, place_mines
from agentgym.environments.minesweeper.deduce import mine_chances
from agentgym.errors import ConfigError, unknown
from agentgym.seeding import python_rng
from agentgym.types import Observation, Step, Task, TaskSet

#: ``oracle`` knows the mines; ``deducer`` knows what is shown and takes the safest cell
EXPERTS: Final = ("oracle", "deducer")
_OPTIONS: Final = ("n", "seed", "size", "mines", "max_clicks")
_CELL: Final = re.compile(r"\( {0,9}(\d{1,4}) {0,9}, {0,9}(\d{1,4}) {0,9}\)")
_ATTEMPTS: Final = 500
_SNAPSHOT: Final = "opened, over, note"
_HELP: Final = (
    "Minesweeper. Rows and columns count from 1. ?: closed, .: open without mines around it, 1-8: open with so many "
    "mines around it, *: a mine. Action: (row, column) opens a closed cell. Open all cells without mines to win; "
    "opening a mine loses."
)


class Minesweeper(Environment):
    """Minesweeper. Opening the last safe cell ends the game with success, a mine ends it without.

    ``expert``   ``oracle`` (knows the mines, wins always) or ``deducer`` (exact chances from what is shown)
    ``outcome``  ``success``: the episode's score is 1 if won, else 0; ``rewards``: the sum of the rewards
    """

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="minesweeper",
        max_turns=15,
        snapshots=True,
        splits=tuple(_games.SPLITS),
        action_help=_HELP,
        description="Minesweeper by RetroAgent's rules",
    )
    milestone_names = ("half open", "three quarters open", "all open")

    def __init__(self, expert: str = "oracle", outcome: str = "success") -> None:
        if expert not in EXPERTS:
            raise unknown("expert of environment 'minesweeper'", str(expert), EXPERTS)
        self._expert = expert
        self._scored = _games.is_success("minesweeper", outcome)
        self._task: Task | None = None

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        """``n`` (100) different boards, drawn by ``seed`` (0).

        ``size`` (6) cells a side, 3 to 16; ``mines`` (3); ``max_clicks`` (15): most cells that a player who knows the
        mines has to open. Training boards come from RetroAgent's training seeds (below 2^16), the others from above.
        """
        _games.check_options("minesweeper", options, _OPTIONS)
        size = _games.whole("minesweeper", "size", options.get("size", 6), 3, 16)
        mines = _games.whole("minesweeper", "mines", options.get("mines", 3), 1, size * size - 2)
        clicks = _games.whole("minesweeper", "max_clicks", options.get("max_clicks", 15), 1)

        def draw(seed: int) -> _games.Game:
            rng = python_rng("minesweeper board", seed)
            for _ in range(_ATTEMPTS):
                first = rng.randrange(size * size)
                board_seed = rng.randrange(2**16) if split == "train" else rng.randrange(2**16, 2**32)
                placed = place_mines(board_seed, size, mines, first)
                board = Board(size, placed)
                opened = board.uncovers[first]
                if opened != board.safe and board.clicks_left(opened) <= clicks:
                    data = {"size": size, "mines": list(placed), "first": first, "board_seed": board_seed}
                    return _games.Game([size, list(placed)], data, f"{size}x{size}-{mines}")
            raise ConfigError(
                f"environment 'minesweeper': no board of size {size} with {mines} mines and at most {clicks} clicks in "
                f"{_ATTEMPTS} tries; take fewer mines or a larger max_clicks"
            )

        return _games.draw_tasks("minesweeper", split, options.get("n", 100), options.get("seed", 0), draw)

    def reset(self, task: Task) -> Observation:
        """Start ``task``; its first cell is open."""
        self._board, self._opened = _start(task)
        self._task, self._over = task, False
        self._closed = (self._board.safe & ~self._opened).bit_count()  # milestones count what was closed at the start
        return self._observe()

    def _observe(self, note: str = "") -> Observation:
        self._note = note
        size, text = self._board.size, self._board.text(self._opened)
        closed = [name for cell, name in enumerate(_names(size)) if not self._opened >> cell & 1]
        return Observation(note + text, closed, text)

    def step(self, action: str) -> Step:
        """Open the cell that ``action`` names first. What opens nothing costs 1 and changes nothing."""
        if self._task is None or self._over:
            raise _games.not_running("minesweeper", self._task)
        board = self._board
        cell, note = self._cell(action)
        if cell < 0:
            return self._step(note, -1.0, False)
        if board.mined >> cell & 1:
            self._opened |= 1 << cell
            self._over = True
            return self._step("", -0.1, True)
        fresh = board.uncovers[cell] & ~self._opened
        self._opened |= fresh
        self._over = self._opened == board.safe
        return self._step("", 10.0 if self._over else 0.5 if fresh.bit_count() == 1 else 2.0, True)

    def _cell(self, action: str) -> tuple[int, str]:
        """The closed cell that an action names, or -1 and why it opens nothing."""
        found = _CELL.search(action) if len(action) <= 1000 else None
        if found is None:
            return -1, "Not an action. Name a cell: (row, column).\n"
        row, column, size = int(found[1]), int(found[2]), self._board.size
        if not (1 <= row <= size and 1 <= column <= size):
            return -1, f"There is no cell ({row}, {column}).\n"
        cell = (row - 1) * size + column - 1
        if self._opened >> cell & 1:
            return -1, f"Cell ({row}, {column}) is open already.\n"
        return cell, ""

    def _step(self, note: str, reward: float, grounded: bool) -> Step:
        won = self._over and self._opened == self._board.safe
        left = (self._board.safe & ~self._opened).bit_count() / self._closed
        reached = self.milestone_names[: (left <= 0.5) + (left <= 0.25) + (left == 0)]
        score = float(won) if self._scored else None
        return Step(self._observe(note), reward, self._over, won, grounded, reached, score)

    def expert(self) -> str | None:
        """The next cell of the chosen expert; None where the game is over."""
        if self._task is None:
            raise _games.not_running("minesweeper", None)
        if self._over:
            return None
        if self._expert == "oracle":
            return _names(self._board.size)[self._board.best_click(self._opened)]
        chances = self.mine_chances()
        return min(chances, key=lambda name: chances[name])

    def mine_chances(self) -> dict[str, float]:
        """The probability of a mine in every closed cell, from what is shown."""
        if self._task is None:
            raise _games.not_running("minesweeper", None)
        board = self._board
        cells = range(board.size**2)
        closed = [cell for cell in cells if not self._opened >> cell & 1]
        shown = {k: int(s) if s.isdigit() else 0 for k, s in enumerate(board.symbols) if self._opened >> k & 1}
        names = _names(board.size)
        chances = mine_chances(shown, closed, board.near, len(board.mines))
        return {names[cell]: chance for cell, chance in zip(closed, chances, strict=True)}

    def snapshot(self) -> Any:
        """The present state; valid in any instance that has been reset to the same task."""
        if self._task is None:
            raise _games.not_running("minesweeper", None)
        return (self._task.id, self._opened, self._over, self._note)

    def restore(self, state: Any) -> Observation:
        """Go back to a snapshot of this task. Raises EnvironmentFault for anything else, and changes nothing then."""
        opened, over, note = _games.snapshot_fields("minesweeper", state, self._task, _SNAPSHOT)
        board = self._board
        fine = _games.in_range(opened, 1, board.safe | board.mined) and isinstance(note, str)
        if not fine or over is not (bool(opened & board.mined) or opened == board.safe):
            raise _games.bad_snapshot("minesweeper", state, _SNAPSHOT)
        self._opened, self._over = opened, over
        return self._observe(note)


_placed: Final = lru_cache(maxsize=4096)(place_mines)
_NAMES: dict[int, tuple[str, ...]] = {}


def _names(size: int) -> tuple[str, ...]:
    if size not in _NAMES:
        _NAMES[size] = tuple(f"({k // size + 1}, {k % size + 1})" for k in range(size * size))
    return _NAMES[size]


def _start(task: Task) -> tuple[Board, int]:
    """The board of a task, and its cells that are open at the start."""
    data = _games.task_data("minesweeper", task)
    size, mines, first = data.get("size"), data.get("mines"), data.get("first")
    if not isinstance(size, int) or not 3 <= size <= 16:
        raise _games.damaged(task, f"size must be an integer from 3 to 16, got {size!r:.80}")
    cells = range(size * size)
    if not isinstance(mines, list | tuple) or not mines or any(type(m) is not int or m not in cells for m in mines):
        raise _games.damaged(task, f"mines must be a list of cells from 0 to {size * size - 1}, got {mines!r:.80}")
    if type(first) is not int or first not in cells or first in mines:
        raise _games.damaged(
            task, f"first must be a cell from 0 to {size * size - 1} without a mine, got {first!r:.80}"
        )
    seed, placed = data.get("board_seed"), tuple(sorted(set(mines)))
    if seed is not None and not (
        _games.in_range(seed, 0, 2**32 - 1) and _placed(seed, size, len(placed), first) == placed
    ):
        raise _games.damaged(
            task, f"board_seed must be the seed that puts the mines where they are, or be left out, got {seed!r:.80}"
        )
    board = board_of(size, placed)
    if board.uncovers[first] == board.safe:
        raise _games.damaged(task, "opening its first cell wins at once")
    return board, board.uncovers[first]
