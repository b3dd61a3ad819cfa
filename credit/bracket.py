"""A seeded single-elimination tournament and the rewards of its ranks (ArenaRL, arXiv 2601.06487)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import numpy as np

from agentgym.credit.protocols import Array

#: scores of players i and j in one match, each in [0, 1]
Match = Callable[[int, int], Awaitable[tuple[float, float]]]


def rank_rewards(ranks: Array) -> Array:
    """``r_i = 1 - rank_i / (N - 1)`` for ranks 0 (best) to N - 1; a group of one gives 0."""
    rewards: Array = 1.0 - ranks / (len(ranks) - 1) if len(ranks) > 1 else np.zeros(len(ranks))
    return rewards


def average_ranks(last_round: Array) -> Array:
    """Ranks from the round in which each player lost (the winner: one more than anybody); players who lost in the same
    round share their average rank."""
    x = np.asarray(last_round)
    above = (x[None, :] > x[:, None]).sum(1)
    equal = (x[None, :] == x[:, None]).sum(1)
    ranks: Array = above + (equal - 1) / 2.0
    return ranks


@dataclass(slots=True)
class _Table:
    """Accumulated scores of all matches so far; ``decided``: did any of them tell two players apart?"""

    players: int
    decided: bool = False
    sums: Array = field(init=False)
    counts: Array = field(init=False)

    def __post_init__(self) -> None:
        self.sums, self.counts = np.zeros(self.players), np.zeros(self.players)

    def add(self, i: int, j: int, scores: tuple[float, float]) -> None:
        """The result of a match."""
        self.decided |= scores[0] != scores[1]
        for player, score in zip((i, j), scores, strict=True):
            self.sums[player] += score
            self.counts[player] += 1

    def average(self, player: int) -> float:
        return float(self.sums[player] / max(self.counts[player], 1))


async def tournament(players: int, match: Match, anchor: int = 0) -> Array:
    """Ranks 0 (best) to N - 1, float64, after 2(N - 1) matches: N - 1 against the ``anchor`` seed the players by score
    (the anchor by its average), then single elimination pairs the best seed with the worst, the second with the last
    but one, and so on; where the field is no power of two the best seeds pass the first round.

    A drawn match goes to the higher accumulated average score, then to the better seed; where *every* match is drawn,
    which is what a judge that is down comes to, nobody is ranked: all share the middle rank. The matches of a round run
    at once. Nothing is random: the same match results give the same ranks.
    """
    if players < 2:
        return np.zeros(players)
    table = _Table(players)
    others = [i for i in range(players) if i != anchor]
    for i, scores in zip(others, await asyncio.gather(*(match(i, anchor) for i in others)), strict=True):
        table.add(i, anchor, scores)
    seeds = sorted(range(players), key=lambda i: (-table.average(i), i))
    field_ = list(seeds)
    lost = np.zeros(players)
    round_ = 0
    while len(field_) > 1:
        round_ += 1
        full = 1 << (len(field_) - 1).bit_length()
        free, playing = field_[: full - len(field_)], field_[full - len(field_) :]
        pairs = list(zip(playing[: len(playing) // 2], reversed(playing[len(playing) // 2 :]), strict=True))
        results = await asyncio.gather(*(match(i, j) for i, j in pairs))
        for (i, j), scores in zip(pairs, results, strict=True):
            table.add(i, j, scores)
        winners = []
        for (i, j), (a, b) in zip(pairs, results, strict=True):
            ahead = a > b or (a == b and table.average(i) >= table.average(j))  # i is the better seed
            winners.append(i if ahead else j)
            lost[j if ahead else i] = round_
        field_ = sorted([*free, *winners], key=seeds.index)
    lost[field_[0]] = round_ + 1
    return average_ranks(lost) if table.decided else np.full(players, (players - 1) / 2)
