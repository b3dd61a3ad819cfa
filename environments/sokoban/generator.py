"""Rooms by reverse play: carve a floor, place the targets, and start from a state that pulling can reach.

The floor comes from a random walk that stamps small shapes, as gym-sokoban's rooms do (Schrader 2018). The start is
drawn from all states from which the targets can be reached, so every room can be solved.
"""

from __future__ import annotations

import random
from typing import Final

from agentgym.environments.sokoban.room import MAX_STATES, PLAYER, SHIFT, solution_lengths, state_count, ways_of

#: what the walk stamps, as (row, column) offsets: bars, a corner, a square, a tee
_SHAPES: Final = (
    ((0, -1), (0, 0), (0, 1)),
    ((-1, 0), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, -1), (1, 0)),
    ((0, 0), (0, 1), (-1, 0), (1, 0)),
)
_TURN: Final = 0.35
_DIRECTIONS: Final = ((1, 0), (0, 1), (-1, 0), (0, -1))


def carve(rng: random.Random, size: int) -> list[int]:
    """The floor cells of a ``size`` x ``size`` room in order; the border is wall, the floor is connected."""
    row, column = rng.randint(1, size - 2), rng.randint(1, size - 2)
    direction = _DIRECTIONS[rng.randrange(4)]
    floor = set()
    for _ in range(int(3.4 * size)):
        if rng.random() < _TURN:
            direction = _DIRECTIONS[rng.randrange(4)]
        row = min(max(row + direction[0], 1), size - 2)
        column = min(max(column + direction[1], 1), size - 2)
        for dr, dc in _SHAPES[rng.randrange(len(_SHAPES))]:
            if 0 < row + dr < size - 1 and 0 < column + dc < size - 1:
                floor.add((row + dr) * size + column + dc)
    return sorted(floor)


def make_room(rng: random.Random, size: int, boxes: int, shortest: int, longest: int) -> list[str] | None:
    """The rows of one solvable room whose shortest solution takes ``shortest`` to ``longest`` moves, or None.

    At the start no box and no player stands on a target. The start is uniform over the states that qualify.
    """
    cells = carve(rng, size)
    if len(cells) < 2 * boxes + 1 or state_count(len(cells), boxes) > MAX_STATES:
        return None
    chosen = rng.sample(range(len(cells)), boxes)
    targets = sum(1 << cell for cell in chosen)
    ways = ways_of(cells, size, size)
    starts = [
        state
        for state, steps in solution_lengths(ways, targets).items()
        if shortest <= steps <= longest and not (state >> SHIFT | 1 << (state & PLAYER)) & targets
    ]
    if not starts:
        return None
    state = starts[rng.randrange(len(starts))]
    symbols = ["#"] * (size * size)
    for number, cell in enumerate(cells):
        symbols[cell] = "O" if targets >> number & 1 else "X" if state >> SHIFT >> number & 1 else "_"
    symbols[cells[state & PLAYER]] = "P"
    return ["".join(symbols[k : k + size]) for k in range(0, size * size, size)]
