"""Advantage estimators written a second time, with loops over plain lists, from credit-methods.md alone.

Slow on purpose and independent of ``agentgym.credit``: only types are imported. A batch is a list of groups, a group
a list of :class:`Played`.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

import numpy as np

from agentgym.tokens import TokenRow
from agentgym.types import Episode, Group, Task, Termination, Turn


@dataclass
class Played:
    """One episode: per turn a dense reward, an anchor, the critic's values before each of its sampled tokens."""

    dense: list[float]
    outcome: float = 0.0
    anchors: list[str] = field(default_factory=list)
    critic: list[list[float]] = field(default_factory=list)
    begin: list[float] = field(default_factory=list)  # the critic at turn beginnings
    text_only: bool = False
    truncated: bool = False

    @property
    def turns(self) -> int:
        return len(self.dense)

    @property
    def total(self) -> list[float]:
        return [c + (self.outcome if t == self.turns - 1 else 0.0) for t, c in enumerate(self.dense)]

    @property
    def tokens(self) -> list[int]:
        return [0 if self.text_only else len(v) for v in self.critic]


Batch = list[list[Played]]


def build(batch: Batch, gap: int = 2) -> list[Group]:
    """Groups of the types; ``gap`` observation tokens before each turn."""
    groups = []
    for g, played in enumerate(batch):
        task = Task("fake", f"t{g}")
        groups.append(Group(task, [_episode(task, i, one, gap) for i, one in enumerate(played)]))
    return groups


def _episode(task: Task, index: int, one: Played, gap: int) -> Episode:
    turns, owner = [], []
    for t, count in enumerate(one.tokens):
        owner += [-1] * gap
        start = len(owner)
        owner += [t] * count
        row = 0 if count else -1
        turns.append(
            Turn(t, f"seen {one.anchors[t]}", "r", "a", state_key=one.anchors[t], row=row, start=start, end=len(owner))
        )
    ids = np.array(owner, np.int32)
    rows = [] if one.text_only else [TokenRow(ids * 0, ids >= 0, np.zeros(len(ids), np.float32), ids)]
    if one.text_only:
        for turn in turns:
            turn.row, turn.start, turn.end = -1, 0, 0
    ended = Termination.RESPONSE_TRUNCATED if one.truncated else Termination.AGENT_STOP
    return Episode(task, index, index, turns, ended, one.outcome, rows=rows)


def z(xs: list[float], std: str = "population", weights: list[float] | None = None) -> list[float]:
    """Section 0.3; ``weights`` > 0."""
    w = weights or [1.0] * len(xs)
    if len(xs) < 2 or max(xs) - min(xs) < 1e-8:
        return [0.0] * len(xs)
    mean = sum(a * x for a, x in zip(w, xs, strict=True)) / sum(w)
    if std == "none":
        return [x - mean for x in xs]
    rows = sum(w) - (1 if std == "sample" else 0)
    dev = (sum(a * (x - mean) ** 2 for a, x in zip(w, xs, strict=True)) / rows) ** 0.5
    return [(x - mean) / (dev + 1e-6) for x in xs]


def to_go(rewards: list[float], gamma: float) -> list[float]:
    return [sum(gamma ** (k - t) * rewards[k] for k in range(t, len(rewards))) for t in range(len(rewards))]


def grpo(batch: Batch, std: str = "population", by_turn: bool = False) -> list[list[list[float]]]:
    out = []
    for group in batch:
        counted = [one for one in group if one.turns or not by_turn]
        scores = z([sum(one.total) for one in counted], std, [one.turns if by_turn else 1 for one in counted])
        of = {id(one): score for one, score in zip(counted, scores, strict=True)}
        out.append([[of[id(one)]] * one.turns if one.turns else [] for one in group])
    return out


def _loo(values: list[float], i: int, weights: list[float]) -> float:
    rest = [(w, v) for j, (w, v) in enumerate(zip(weights, values, strict=True)) if j != i and w]
    return sum(w * v for w, v in rest) / sum(w for w, _ in rest) if rest else values[i]


def rloo(batch: Batch, pooled: bool = False, by_turn: bool = False, a: float = 1.0) -> list[list[list[float]]]:
    out = []
    for group in batch:
        # the recorded outcome of an episode without turns lies on no turn: 0
        returns = [sum(one.total) if pooled else (one.outcome if one.turns else 0.0) for one in group]
        weights = [float(one.turns) if by_turn else 1.0 for one in group]
        dead = len(group) < 2 or max(returns) - min(returns) < 1e-8
        row = []
        for i, one in enumerate(group):
            seq = 0.0 if dead else returns[i] - _loo(returns, i, weights)
            mean = sum(one.dense) / one.turns if one.turns else 0.0
            row.append([seq + (0.0 if pooled else a * (c - mean)) for c in one.dense])
        out.append(row)
    return out


def discounted(batch: Batch, gamma: float, baseline: str) -> list[list[list[float]]]:
    out = []
    for group in batch:
        returns = [to_go(one.total, gamma) for one in group]
        means = [sum(g) / len(g) if g else 0.0 for g in returns]
        constant = max(means) - min(means) < 1e-8 and not any(any(one.dense) for one in group)
        if baseline != "none" and (len(group) < 2 or constant):
            out.append([[0.0] * one.turns for one in group])
            continue
        base = {
            "none": [0.0] * len(group),
            "mean": [sum(means) / len(group)] * len(group),
            "leave_one_out": [_loo(means, i, [1.0] * len(group)) for i in range(len(group))],
        }[baseline]
        out.append([[x - b for x in g] for g, b in zip(returns, base, strict=True)])
    return out


def reinforce_pp(batch: Batch, gamma: float, baseline: str, weights: str) -> list[list[list[float]]]:
    returns = discounted(batch, gamma, "mean" if baseline == "group" else "none")
    members, w = [], []
    for group, rows in zip(batch, returns, strict=True):
        if baseline == "group" and not any(any(row) for row in rows):
            continue  # a dead group takes no part
        for one, row in zip(group, rows, strict=True):
            for t, x in enumerate(row):
                each = {"turn": 1.0, "trajectory": 1.0 / one.turns, "token": 1 if one.text_only else one.tokens[t]}
                members.append(x)
                w.append(each[weights])
    kept = [(a, x) for a, x in zip(w, members, strict=True) if a > 0]
    if len(kept) < 2 or max(x for _, x in kept) - min(x for _, x in kept) < 1e-8:
        return [[[0.0] * len(row) for row in rows] for rows in returns]
    mean = sum(a * x for a, x in kept) / sum(a for a, _ in kept)
    dev = (sum(a * (x - mean) ** 2 for a, x in kept) / sum(a for a, _ in kept)) ** 0.5
    out = []
    for rows in returns:
        dead = baseline == "group" and not any(any(row) for row in rows)
        out.append([[0.0 if dead else (x - mean) / (dev + 1e-6) for x in row] for row in rows])
    return out


def _same(a: str, b: str, similarity: float | None) -> bool:
    return a == b if similarity is None else difflib.SequenceMatcher(None, a, b, False).ratio() >= similarity


def _states(group: list[Played], similarity: float | None) -> dict[str, str]:
    """Anchor -> the first text of its cluster; empty anchors are left out."""
    first: list[str] = []
    found = {}
    for text in sorted({a for one in group for a in one.anchors if a.strip()}):
        match = next((other for other in first if _same(other, text, similarity)), None)
        if match is None:
            first.append(text)
        found[text] = match or text
    return found


def gigpo(
    batch: Batch,
    gamma: float = 0.95,
    omega: float = 1.0,
    step_std: str = "none",
    episode_std: str = "none",
    first_visit: bool = False,
    similarity: float | None = None,
) -> list[list[list[float]]]:
    out = []
    for group, base in zip(batch, grpo(batch, episode_std), strict=True):
        if len(group) < 2:
            out.append([[0.0] * one.turns for one in group])
            continue
        state = _states(group, similarity)
        members: dict[str, list[tuple[int, int]]] = {}
        for i, one in enumerate(group):
            for t, anchor in enumerate(one.anchors):
                if anchor in state:
                    place = members.setdefault(state[anchor], [])
                    if not (first_visit and any(j == i for j, _ in place)):
                        place.append((i, t))
        step = [[0.0] * one.turns for one in group]
        for places in members.values():
            scores = z([to_go(group[i].total, gamma)[t] for i, t in places], step_std)
            for (i, t), score in zip(places, scores, strict=True):
                step[i][t] = score
        out.append([[e + omega * s for e, s in zip(a, b, strict=True)] for a, b in zip(base, step, strict=True)])
    return out


def hgpo(
    batch: Batch, gamma: float = 0.95, history: int = 2, a: float = 1.0, std: str = "none", base_group: bool = False
) -> list[list[list[float]]]:
    out = []
    for group, base in zip(batch, grpo(batch, std), strict=True):
        total = [[0.0] * one.turns for one in group]
        weight = [[0.0] * one.turns for one in group]
        for k in range(1, history + 2):
            members: dict[tuple[str, ...], list[tuple[int, int]]] = {}
            for i, one in enumerate(group):
                for t in range(one.turns):
                    seen = one.anchors[max(0, t - k + 1) : t + 1]
                    key = ("<begin>", *seen) if len(seen) < k else tuple(seen)
                    if all(text.strip() for text in seen):
                        members.setdefault(key, []).append((i, t))
            for places in members.values():
                if len(places) < 2:
                    continue
                scores = z([to_go(group[i].total, gamma)[t] for i, t in places], std)
                for (i, t), score in zip(places, scores, strict=True):
                    total[i][t] += k**a * score
                    weight[i][t] += k**a
        row = []
        for i, one in enumerate(group):
            mine = [total[i][t] / weight[i][t] if weight[i][t] else 0.0 for t in range(one.turns)]
            mine = [x + (base[i][t] if base_group else 0.0) for t, x in enumerate(mine)]
            row.append(mine if len(group) > 1 else [0.0] * one.turns)
        out.append(row)
    return out


def igpo(batch: Batch, joint: bool, gamma: float = 1.0, ig_weight: float = 1.0) -> list[list[list[float]]]:
    out = []
    for group in batch:
        gains = [c for one in group for c in one.dense[:-1]]
        finals = [one.outcome if one.turns else 0.0 for one in group]
        if joint:
            alive = any(
                len(xs) > 1 and max(xs) - min(xs) >= 1e-8 for xs in (gains, finals)
            )  # section 0.3, of each pool
            both = z(gains + finals) if alive else [0.0] * len(gains + finals)
            gains, finals = both[: len(gains)], both[len(gains) :]
        else:
            gains, finals = z(gains), z(finals)
        row, at = [], 0
        for one, final in zip(group, finals, strict=True):
            mine = gains[at : at + max(one.turns - 1, 0)]
            at += len(mine)
            rewards = [ig_weight * x for x in mine] + ([final] if one.turns else [])
            row.append(to_go(rewards, gamma) if len(group) > 1 else [0.0] * one.turns)
        out.append(row)
    return out


def turn_gae(r: list[float], v: list[float], gamma: float, lam: float, after: float) -> list[float]:
    """Section 0.4, as written there."""
    adv, a, following = [0.0] * len(r), 0.0, after
    for t in range(len(r) - 1, -1, -1):
        delta = r[t] + gamma * following - v[t]
        a = delta + gamma * lam * a
        adv[t], following = a, v[t]
    return adv


def masked_gae(r: list[float], v: list[float], mask: list[int], gamma: float, lam: float, after: float) -> list[float]:
    """verl's form: over all tokens, observations carried through unchanged."""
    adv, last, following = [0.0] * len(r), 0.0, after
    for k in range(len(r) - 1, -1, -1):
        delta = r[k] + gamma * following - v[k]
        now = delta + gamma * lam * last
        following = v[k] if mask[k] else following
        last = now if mask[k] else last
        adv[k] = last if mask[k] else 0.0
    return adv


def moved_rewards(one: Played, steps: list[int]) -> list[float]:
    out = [0.0] * one.turns
    for t, reward in enumerate(one.total):
        before, after = [s for s in steps if s <= t], [s for s in steps if s > t]
        target = before[-1] if before else (after[0] if after else t)
        out[target] += reward
    return out


def gae(
    one: Played, level: str, turn: tuple[float, float], token: tuple[float, float], bootstrap: bool
) -> list[list[float]]:
    """Per turn the advantages of its tokens; at level ``turn`` one number for each step, none for other turns."""
    steps = [t for t in range(one.turns) if one.tokens[t] or (one.text_only and level == "turn")]
    rewards = moved_rewards(one, steps)
    out: list[list[float]] = [[] for _ in range(one.turns)]
    if not steps:
        return out
    begin = one.begin if level == "turn" else [v[0] if v else 0.0 for v in one.critic]
    after = begin[steps[-1]] if bootstrap and one.truncated else 0.0
    if level == "turn":
        adv = turn_gae([rewards[t] for t in steps], [begin[t] for t in steps], *turn, after)
        for t, a in zip(steps, adv, strict=True):
            out[t] = [a]
    elif level == "token":
        r, v, mask, owner = [], [], [], []
        for t in range(one.turns):
            r += [99.0 * 0] * 3  # an observation of three tokens, with values that must not matter
            v += [7.0, -7.0, 3.0]
            mask += [0] * 3
            owner += [-1] * 3
            r += [0.0] * (one.tokens[t] - 1) + ([rewards[t]] if one.tokens[t] else [])
            v += one.critic[t]
            mask += [1] * one.tokens[t]
            owner += [t] * one.tokens[t]
        for a, t in zip(masked_gae(r, v, mask, *token, after), owner, strict=True):
            if t >= 0:
                out[t].append(a)
    else:
        high = turn_gae([rewards[t] for t in steps], [one.critic[t][-1] for t in steps], *turn, after)
        for t, a in zip(steps, high, strict=True):
            v, mine = one.critic[t], [a]
            for k in range(len(v) - 2, -1, -1):
                mine.insert(0, token[0] * v[k + 1] - v[k] + token[0] * token[1] * mine[0])
            out[t] = mine
    return out
