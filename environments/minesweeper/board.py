"""One minefield: its numbers, what opening a cell uncovers, and the mines as RetroAgent's seeds place them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np

#: symbols of a closed cell, a blank one and a mine
CLOSED: Final = "?"
BLANK: Final = "."
MINE: Final = "*"


@lru_cache(maxsize=32)
def neighbours(size: int) -> tuple[tuple[int, ...], ...]:
    """The up to eight neighbours of every cell of a ``size`` x ``size`` board, cells numbered row by row."""
    span = range(-1, 2)
    return tuple(
        tuple(
            (r + dr) * size + c + dc
            for dr in span
            for dc in span
            if (dr or dc) and 0 <= r + dr < size and 0 <= c + dc < size
        )
        for r in range(size)
        for c in range(size)
    )


class Board:
    """``mines``: their cells. Sets of cells are bits of one integer.

    ``symbols``  what each cell shows once it is open
    ``uncovers`` what opening each safe cell uncovers: itself, or a whole blank region with its border of numbers
    ``regions``  every blank region with its border, and its first blank cell; ``lone``: safe cells beside no blank one
    """

    def __init__(self, size: int, mines: tuple[int, ...]) -> None:
        self.size, self.mines = size, mines
        self.near = neighbours(size)
        self.mined = sum(1 << cell for cell in mines)
        self.safe = (1 << size * size) - 1 & ~self.mined
        counts = [sum(self.mined >> other & 1 for other in around) for around in self.near]
        self.symbols = [MINE if self.mined >> k & 1 else str(n) if n else BLANK for k, n in enumerate(counts)]
        self.uncovers = [1 << cell for cell in range(size * size)]
        self.regions: list[tuple[int, int]] = []
        self.lone = self.safe
        for region in self._blank_regions():
            mask = 0
            for cell in region:
                mask |= 1 << cell
                for other in self.near[cell]:
                    mask |= 1 << other
            for cell in region:
                self.uncovers[cell] = mask
            self.regions.append((mask, min(region)))
            self.lone &= ~mask

    def _blank_regions(self) -> Iterator[list[int]]:
        todo = {cell for cell, symbol in enumerate(self.symbols) if symbol == BLANK}
        while todo:
            region = [todo.pop()]
            for cell in region:
                fresh = [other for other in self.near[cell] if other in todo]
                todo.difference_update(fresh)
                region += fresh
            yield region

    def clicks_left(self, opened: int) -> int:
        """How many cells a player who knows the mines still has to open: one a blank region, one a lone number."""
        return sum(1 for mask, _ in self.regions if mask & ~opened) + (self.lone & ~opened).bit_count()

    def best_click(self, opened: int) -> int:
        """The safe closed cell whose opening uncovers most; the first of several."""
        gains = [((mask & ~opened).bit_count(), -cell) for mask, cell in self.regions]
        most, cell = max(gains, default=(0, 0))
        if most:
            return -cell
        left = self.lone & ~opened
        return (left & -left).bit_length() - 1

    def text(self, opened: int) -> str:
        """The board as RetroAgent shows it."""
        shown = [symbol if opened >> k & 1 else CLOSED for k, symbol in enumerate(self.symbols)]
        size = self.size
        return "\n".join(f"Row {r + 1}: " + " ".join(shown[r * size : (r + 1) * size]) for r in range(size))


#: boards are shared by all episodes of a process
board_of = lru_cache(maxsize=256)(Board)


def place_mines(seed: int, size: int, mines: int, first: int) -> tuple[int, ...]:
    """The cells with the ``mines`` smallest numbers of NumPy's legacy stream of ``seed`` < 2^32, without ``first``.

    The same cells as RetroAgent's ``place_mines`` (from Li et al. 2024), whose stream is the global generator's.
    """
    drawn = np.random.RandomState(seed).rand(size * size)
    order = [int(cell) for cell in np.argsort(drawn, kind="stable")]
    chosen = order[:mines]
    if first in chosen:
        chosen = [cell for cell in order[: mines + 1] if cell != first]
    return tuple(sorted(chosen))
