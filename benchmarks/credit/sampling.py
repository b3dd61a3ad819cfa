"""Batches of episodes of fixed policies, with the true advantage and the policy-gradient bookkeeping of every turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from exact import Floats, Table, Worth, progress, solve

from agentgym import Episode, Group, Termination, Turn
from agentgym.seeding import derive_seed, numpy_rng

Index = npt.NDArray[np.int64]
Batches = list[list[Group]]


@dataclass(frozen=True)
class Gradient:
    """Where each turn lies in the parameters of all tasks' policies: ``cell`` = row of its (task, state), ``action``.

    ``policy`` [rows, A]; ``true`` [rows * A] is the exact gradient of the mean over tasks of V_0(start).
    """

    policy: Floats
    cell: Index
    action: Index
    true: Floats

    def estimates(self, advantages: Floats, batch: Index, episodes: int) -> Floats:
        """[batches, rows * A] ``1/N sum_episodes sum_t A_t grad log pi(a_t|s_t)``, N episodes in a batch."""
        batches, (rows, actions) = int(batch.max()) + 1, self.policy.shape
        row = batch * rows + self.cell
        chosen = np.bincount(row * actions + self.action, advantages, batches * rows * actions)
        expected = np.bincount(row, advantages, batches * rows)[:, None] * np.tile(self.policy, (batches, 1))
        return np.asarray((chosen.reshape(batches, -1) - expected.reshape(batches, -1)) / episodes)


@dataclass
class Case:
    """What methods are measured on. All flat arrays run over the turns of all batches in order.

    ``batches``  lists of groups; ``fitting``: episodes of the same policies for what must be fitted beforehand
    ``truth``    the true advantage; ``batch``, ``block``: which batch, and which unit of resampling, a turn is in
    ``gradient`` None where it is not known exactly; ``facts``: what to print and record about the case
    """

    name: str
    batches: Batches
    fitting: list[Group]
    truth: Floats
    batch: Index
    block: Index
    gradient: Gradient | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def episodes(self) -> int:
        """Episodes in one batch."""
        return sum(len(group) for group in self.batches[0])

    def clear(self) -> None:
        """Forget what pipelines wrote, so that the next one finds bare episodes."""
        for batch in (*self.batches, self.fitting):
            for group in batch:
                for episode in group:
                    episode.info.clear()
                    for turn in episode.turns:
                        turn.rewards, turn.info = {}, {}


@dataclass(frozen=True)
class Paths:
    """Sampled episodes of one task: ``states`` [n, T + 1], ``actions`` [n, T], ``lengths`` [n]."""

    states: Index
    actions: Index
    lengths: Index


def play(table: Table, policy: Floats, turns: int, count: int, rng: np.random.Generator) -> Paths:
    """``count`` episodes at once."""
    choose, land = policy.cumsum(1), table.move.cumsum(2)
    states, actions = np.zeros((count, turns + 1), np.int64), np.zeros((count, turns), np.int64)
    lengths = np.full(count, turns)
    states[:, 0] = table.start
    for t in range(turns):
        here = states[:, t]
        actions[:, t] = _draw(choose[here], rng)
        after = _draw(land[here, actions[:, t]], rng)
        states[:, t + 1] = np.where(table.terminal[here], here, after)
        lengths = np.where(table.terminal[states[:, t + 1]], np.minimum(lengths, t + 1), lengths)
    return Paths(states, actions, lengths)


def _draw(cumulative: Floats, rng: np.random.Generator) -> Index:
    u = rng.random(len(cumulative))[:, None] * cumulative[:, -1:]
    return np.asarray((cumulative <= u).sum(1), np.int64)


def episode(table: Table, paths: Paths, i: int, index: int, seed: int) -> Episode:
    """Episode ``i`` of the paths as the rollout engine would record it, as text only."""
    length = int(paths.lengths[i])
    states, actions = paths.states[i].tolist(), paths.actions[i].tolist()
    seen, reached = table.texts[states[0]], np.zeros(len(table.milestones), np.bool_)
    turns = []
    for t in range(length):
        s, a, after = states[t], actions[t], states[t + 1]
        grounded = bool(table.possible[s, a])
        reached = reached | table.reached[after]
        text = table.texts[after] if grounded else table.notes[a] + table.texts[after]
        names = tuple(name for name, yes in zip(table.milestones, reached, strict=True) if yes)
        turns.append(
            Turn(
                t, seen, table.actions[a], table.actions[a], text, table.texts[s], grounded=grounded,
                terminated=bool(table.terminal[after]), milestones=names,
            )
        )  # fmt: skip
        seen = text
    won, over = bool(table.goal[states[length]]), bool(table.terminal[states[length]])
    ended = Termination.ENV_DONE if over else Termination.MAX_TURNS
    return Episode(table.task, index, seed, turns, ended, float(won), won, table.milestones)


def group(table: Table, paths: Paths, rows: Sequence[int], seed: int) -> Group:
    """The episodes ``rows`` of the paths as one group; every episode has a seed of its own."""
    seeds = [derive_seed("credit bench episode", table.task.id, seed, i) for i in rows]
    return Group(table.task, [episode(table, paths, i, k, seeds[k]) for k, i in enumerate(rows)])


@dataclass(frozen=True)
class Flat:
    """Per turn of all batches in order: its batch, the number of its task, turn, state and action."""

    batch: Index
    task: Index
    turn: Index
    state: Index
    action: Index

    @classmethod
    def of(cls, paths: Sequence[Paths], batches: int, size: int) -> Flat:
        """Batches of ``size`` episodes of each task, tasks in order within a batch."""
        order = [(b, k, i) for b in range(batches) for k in range(len(paths)) for i in range(size * b, size * (b + 1))]
        lengths = np.array([paths[k].lengths[i] for _, k, i in order])
        return cls(
            np.repeat([b for b, _, _ in order], lengths),
            np.repeat([k for _, k, _ in order], lengths),
            np.concatenate([np.arange(length) for length in lengths]),
            np.concatenate([paths[k].states[i, : paths[k].lengths[i]] for _, k, i in order]),
            np.concatenate([paths[k].actions[i, : paths[k].lengths[i]] for _, k, i in order]),
        )


def make_case(
    name: str, tables: list[Table], policies: list[Floats], turns: int, *, episodes: int, size: int, fit: int, seed: int
) -> Case:
    """Batches of one group of ``size`` episodes for each table, about ``episodes`` in all, and ``fit`` for fitting."""
    batches, spare = (max(2, round(n / (size * len(tables)))) for n in (episodes, fit))  # one batch has no variance
    worths = [solve(t, p, turns) for t, p in zip(tables, policies, strict=True)]
    rng = numpy_rng("credit bench", name, seed)
    paths = [play(t, p, turns, size * (batches + spare), rng) for t, p in zip(tables, policies, strict=True)]
    groups = [
        [group(t, p, range(size * b, size * (b + 1)), seed) for t, p in zip(tables, paths, strict=True)]
        for b in range(batches + spare)
    ]
    flat = Flat.of(paths, batches, size)
    truth = np.zeros(len(flat.batch))
    for k, worth in enumerate(worths):
        mine = flat.task == k
        truth[mine] = worth.advantage[flat.turn[mine], flat.state[mine], flat.action[mine]]
    facts = {
        "tasks": len(tables), "max_turns": turns, "batches": batches, "episodes": batches * size * len(tables),
        "fitting_episodes": spare * size * len(tables), "group_size": size,
        "success": float(np.mean([w.value[0, t.start] for t, w in zip(tables, worths, strict=True)])),
        "turns": len(truth) / (batches * size * len(tables)), "truth": "exact",
    }  # fmt: skip
    gradient = _gradient(tables, policies, worths, flat)
    cosine = _progress_cosine(tables, policies, turns, gradient.true)
    facts |= {} if cosine is None else {"progress_gradient_cosine": cosine}
    fitting = [one for some in groups[batches:] for one in some]
    return Case(name, groups[:batches], fitting, truth, flat.batch, flat.batch, gradient, facts)


def _gradient(tables: list[Table], policies: list[Floats], worths: list[Worth], flat: Flat) -> Gradient:
    offset = np.cumsum([0, *(len(t.texts) for t in tables)])
    width = max(len(t.actions) for t in tables)
    policy = np.concatenate([_wide(p, width) for p in policies])
    true = np.concatenate([_wide(w.gradient, width).ravel() for w in worths]) / len(tables)
    return Gradient(policy, offset[flat.task] + flat.state, flat.action, true)


def _progress_cosine(tables: list[Table], policies: list[Floats], turns: int, true: Floats) -> float | None:
    """Cosine between the exact gradients of success and of the mean share of milestones at the end: what is lost by
    climbing progress in place of success, whatever the method."""
    shares = [progress(table) for table in tables]
    width = max(len(t.actions) for t in tables)
    parts = [
        _wide(solve(t, p, turns, share).gradient, width).ravel()
        for t, p, share in zip(tables, policies, shares, strict=True)
        if share is not None
    ]
    if len(parts) < len(tables):
        return None
    other = np.concatenate(parts)
    return float(other @ true / (np.linalg.norm(other) * np.linalg.norm(true)))


def _wide(x: Floats, width: int) -> Floats:
    return np.pad(x, ((0, 0), (0, width - x.shape[1])))
