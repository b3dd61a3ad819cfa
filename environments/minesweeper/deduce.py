"""How probable a mine is in each closed cell, exactly, from what the board shows.

The closed cells beside numbers are assigned by backtracking; the other closed cells share the mines that are left, so
that each assignment of the border counts as often as the rest can be filled (a binomial coefficient).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from typing import Final

#: assignments of the border that are counted before we settle for what has been counted
_LIMIT: Final = 200_000


def mine_chances(
    shown: Mapping[int, int], closed: Sequence[int], near: Sequence[Sequence[int]], mines: int
) -> list[float]:
    """The probability of a mine in each cell of ``closed``, all consistent boards being equally likely.

    ``shown``: the number of every open cell; ``near``: the neighbours of every cell; ``mines``: how many there are.
    """
    hidden = set(closed)
    rules = [(n, [cell for cell in near[k] if cell in hidden]) for k, n in shown.items()]
    rules = [(n, cells) for n, cells in rules if cells]
    border = list(dict.fromkeys(cell for _, cells in rules for cell in cells))
    counter = _Counter(border, rules, mines, len(closed) - len(border))
    counter.assign(0, 0)
    total = counter.total or 1
    rest = counter.rest / total
    weights = dict(zip(border, counter.weights, strict=True))
    return [weights[cell] / total if cell in weights else rest for cell in closed]


class _Counter:
    """``total``: consistent boards; ``weights``: of them, with a mine in each border cell; ``rest``: mean elsewhere."""

    def __init__(self, border: list[int], rules: list[tuple[int, list[int]]], mines: int, free: int) -> None:
        index = {cell: number for number, cell in enumerate(border)}
        self.count, self.mines, self.free = len(border), mines, free
        self.need = [n for n, _ in rules]
        self.left = [len(cells) for _, cells in rules]
        self.rules_of: list[list[int]] = [[] for _ in border]
        for number, (_, cells) in enumerate(rules):
            for cell in cells:
                self.rules_of[index[cell]].append(number)
        self.chosen: list[int] = []
        self.total, self.rest, self.seen = 0, 0.0, 0
        self.weights = [0] * len(border)

    def assign(self, position: int, used: int) -> None:
        """Try both values of the border cell at ``position`` and of all after it."""
        if used > self.mines or self.seen >= _LIMIT:
            return
        if position == self.count:
            self._record(used)
            return
        rules = self.rules_of[position]
        for value in (0, 1):
            for rule in rules:
                self.need[rule] -= value
                self.left[rule] -= 1
            if all(0 <= self.need[rule] <= self.left[rule] for rule in rules):
                if value:
                    self.chosen.append(position)
                self.assign(position + 1, used + value)
                if value:
                    self.chosen.pop()
            for rule in rules:
                self.need[rule] += value
                self.left[rule] += 1

    def _record(self, used: int) -> None:
        ways = comb(self.free, self.mines - used)
        if not ways:
            return
        self.seen += 1
        self.total += ways
        self.rest += ways * (self.mines - used) / self.free if self.free else 0.0
        for position in self.chosen:
            self.weights[position] += ways
