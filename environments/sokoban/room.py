"""One Sokoban room: its cells, its moves, and how far every solvable state is from being solved.

A state is one integer: the boxes' cells as bits, shifted left by ``SHIFT``, plus the player's cell. Cells are numbered
over the floor only. All states that can be solved are found by playing backwards (pulling) from the solved ones, so
"dead" and "the best move" are look-ups, exact and not cut at any depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import comb
from typing import Final

SHIFT: Final = 7
PLAYER: Final = (1 << SHIFT) - 1
#: most states (boxes and player anywhere) of a room; a table of so many takes about a second
MAX_STATES: Final = 200_000
#: up, down, left, right
STEPS: Final = ((-1, 0), (1, 0), (0, -1), (0, 1))


class RoomError(ValueError):
    """A drawing is no room; the text says why."""


class Room:
    """Parsed from rows of ``# _ O X √ P S`` (wall, floor, target, box, box on target, player, player on target).

    ``start``     the state drawn
    ``targets``   the target cells as bits
    ``ways[c]``   for each direction (neighbour, cell behind it) of cell ``c``; -1: wall or outside
    ``steps``     fewest moves to solve each solvable state; a state that is missing is dead
    """

    def __init__(self, rows: Sequence[str]) -> None:
        width = len(rows[0]) if rows else 0
        drawn = "".join(rows)
        if not width or any(len(row) != width for row in rows) or set(drawn) - set("#_OX√PS"):
            raise RoomError("rows must be equally long and hold only # _ O X √ P S")
        self.width, self.cells = width, [k for k, symbol in enumerate(drawn) if symbol != "#"]
        index = {cell: number for number, cell in enumerate(self.cells)}
        boxes = sum(1 << index[k] for k in self.cells if drawn[k] in "X√")
        self.targets = sum(1 << index[k] for k in self.cells if drawn[k] in "O√S")
        self.boxes = boxes.bit_count()
        players = [index[k] for k in self.cells if drawn[k] in "PS"]
        if len(players) != 1 or not boxes or self.boxes != self.targets.bit_count():
            raise RoomError("a room has one player and as many boxes as targets, at least one")
        if boxes == self.targets:
            raise RoomError("it is solved already")
        if len(self.cells) > PLAYER or state_count(len(self.cells), self.boxes) > MAX_STATES:
            raise RoomError(f"it has too many states (at most {MAX_STATES} are allowed)")
        self.start = boxes << SHIFT | players[0]
        self.blank = ["#" if symbol == "#" else "O" if symbol in "O√S" else "_" for symbol in drawn]
        self.ways = ways_of(self.cells, width, len(rows))
        self.steps = solution_lengths(self.ways, self.targets)
        if self.start not in self.steps:
            raise RoomError("it cannot be solved")

    def move(self, state: int, direction: int) -> int:
        """The state after a move; the same state where a wall or a stuck box is in the way."""
        boxes, player = state >> SHIFT, state & PLAYER
        ahead, behind = self.ways[player][direction]
        if ahead < 0:
            return state
        if boxes >> ahead & 1:
            if behind < 0 or boxes >> behind & 1:
                return state
            boxes ^= 1 << ahead | 1 << behind
        return boxes << SHIFT | ahead

    def holds(self, state: int) -> bool:
        """Whether ``state`` is one of this room: all its boxes on the floor, the player beside them."""
        boxes, player = state >> SHIFT, state & PLAYER
        inside = state >= 0 and player < len(self.cells) and boxes < 1 << len(self.cells)
        return inside and boxes.bit_count() == self.boxes and not boxes >> player & 1

    def draw(self, state: int) -> list[str]:
        """The symbols of a state, row by row in one list."""
        symbols, boxes, player = self.blank.copy(), state >> SHIFT, self.cells[state & PLAYER]
        while boxes:
            bit = boxes & -boxes
            boxes ^= bit
            cell = self.cells[bit.bit_length() - 1]
            symbols[cell] = "√" if symbols[cell] == "O" else "X"
        symbols[player] = "S" if symbols[player] == "O" else "P"
        return symbols

    def on_target(self, state: int) -> int:
        """How many boxes stand on targets."""
        return (state >> SHIFT & self.targets).bit_count()

    def best(self, state: int) -> int | None:
        """The direction of a shortest solution; None where the state is solved or dead."""
        left = self.steps.get(state, 0)
        if left == 0:
            return None
        return next(d for d in range(4) if self.steps.get(self.move(state, d), left) == left - 1)


def state_count(cells: int, boxes: int) -> int:
    """How many states a room of so many cells has."""
    return comb(cells, boxes) * (cells - boxes)


def ways_of(cells: list[int], width: int, height: int) -> list[list[tuple[int, int]]]:
    """For each floor cell and direction: the neighbour and the cell behind it, -1 for walls and outside."""
    index = {cell: number for number, cell in enumerate(cells)}

    def at(row: int, column: int) -> int:
        inside = 0 <= row < height and 0 <= column < width
        return index.get(row * width + column, -1) if inside else -1

    places = [divmod(cell, width) for cell in cells]
    return [[(at(r + dr, c + dc), at(r + 2 * dr, c + 2 * dc)) for dr, dc in STEPS] for r, c in places]


def solution_lengths(ways: list[list[tuple[int, int]]], targets: int) -> dict[int, int]:
    """Fewest moves from every solvable state to a solved one: breadth first backwards from the solved ones."""
    # To undo a move into cell p from cell `back`, the player steps back, with or without the box that is in front.
    undo = [[(w[d][0], w[d ^ 1][0]) for d in range(4) if w[d][0] >= 0] for w in ways]
    frontier = [targets << SHIFT | p for p in range(len(ways)) if not targets >> p & 1]
    steps = dict.fromkeys(frontier, 0)
    length = 0
    while frontier:
        length += 1
        reached: list[int] = []
        for state in frontier:
            boxes, player = state >> SHIFT, state & PLAYER
            for back, front in undo[player]:
                if boxes >> back & 1:
                    continue
                before = state - player + back
                if before not in steps:
                    steps[before] = length
                    reached.append(before)
                if front >= 0 and boxes >> front & 1:
                    before = (boxes ^ (1 << front | 1 << player)) << SHIFT | back
                    if before not in steps:
                        steps[before] = length
                        reached.append(before)
        frontier = reached
    return steps


#: rooms are shared by all episodes of a process
room_of = lru_cache(maxsize=64)(Room)
