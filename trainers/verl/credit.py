"""Credit for a step of verl: our pipeline on the step's episodes, laid out along verl's samples. No verl, no torch.

The pipeline, the projection to tokens, clipping and the shares of the loss are the local trainer's functions; this
module only says which sample of verl a number belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentgym.config.recipe import RLSection
from agentgym.credit import CreditPipeline
from agentgym.credit.pipeline import CreditResult
from agentgym.tokens import FloatArray
from agentgym.trainers.local.batch import TrainRow, minibatches, token_shares
from agentgym.trainers.local.collect import row_advantages
from agentgym.trainers.local.update import TRUNCATION, usable
from agentgym.trainers.verl import seam
from agentgym.types import Episode

Columns = dict[str, FloatArray]


@dataclass(slots=True)
class Assigned:
    """``columns``: per sample key, arrays along its response: ``advantages``, ``shares``, ``turns``, ``returns``,
    ``value_shares``. ``minibatches``: the keys of each update. ``result``: the pipeline's."""

    columns: dict[str, Columns]
    minibatches: list[list[str]]
    result: CreditResult
    metrics: dict[str, float] = field(default_factory=dict)


def assign(
    step: seam.Step, pipeline: CreditPipeline, rl: RLSection, seed: int, number: int, divisor: float,
    old: Mapping[str, Any] | None = None,
) -> Assigned:  # fmt: skip
    """Advantages and loss shares of every sample of training step ``number``.

    ``old``: per key the trainer's log-probabilities along the response, where ``rl.old_logprobs`` is ``trainer``; the
    sampler's then enter as a truncated importance weight, as in the local trainer.
    """
    result = pipeline.run(step.groups, step=number)
    columns: dict[str, Columns] = {}
    rows: dict[str, TrainRow] = {}
    worst = 0.0
    for key, (group, index, row) in step.places.items():
        episode = step.groups[group].episodes[index]
        columns[key] = _empty(episode, row)
        if row < 0 or episode.termination.is_failure:
            continue
        tokens = result.tokens[group][index] if result.tokens is not None else None
        arrays = row_advantages(episode, result.advantages[group][index], tokens, rl.advantage_clip)
        made = TrainRow(episode.rows[row], arrays[row], name=episode.where)
        if old is not None:
            worst = max(worst, _reweigh(made, old[key]))
        cut = seam.cut_of(made.row)
        columns[key] |= {"advantages": made.advantages[cut:], "turns": np.maximum(made.row.turns[cut:], 0)}
        if not (result.dead[group] and rl.drop_dead_groups):
            rows[key] = made
    if result.targets is not None:
        _targets(step, result, columns)
    out = Assigned(columns, _shares(rows, columns, rl, seed, number, divisor), result, dict(result.metrics))
    out.metrics["train/rows"] = float(sum(map(len, out.minibatches)))
    if old is not None:
        out.metrics["gap/logprob_max"] = worst
    return out


def _empty(episode: Episode, row: int) -> Columns:
    length = len(episode.rows[row]) - seam.cut_of(episode.rows[row]) if row >= 0 else 1
    names = ("advantages", "shares", "turns", "returns", "value_shares")
    return {name: np.zeros(length, np.float32) for name in names}


def _reweigh(row: TrainRow, old: Any) -> float:
    """Weigh a row's advantages by the truncated ratio of trainer to sampler; the largest gap between the two."""
    cut = seam.cut_of(row.row)
    gap = (np.asarray(old, np.float32) - row.row.logprobs[cut:]) * row.row.mask[cut:]
    advantages = row.advantages.copy()
    advantages[cut:] *= np.minimum(np.exp(gap), TRUNCATION)
    row.advantages = advantages.astype(np.float32)
    return float(np.abs(gap).max(initial=0.0))


def _shares(
    rows: Mapping[str, TrainRow], columns: dict[str, Columns], rl: RLSection, seed: int, number: int, divisor: float
) -> list[list[str]]:
    """Cut the rows with a gradient into minibatches as the local trainer does, and write each token's loss share."""
    order = sorted(rows, key=seam.parse_key)
    live = set(map(id, usable([rows[key] for key in order], rl)))
    keys = [key for key in order if id(rows[key]) in live]
    out = []
    for chosen in minibatches(len(keys), rl.minibatch, seed, "minibatches", number, 0):
        part = [keys[int(i)] for i in chosen]
        trained = [rows[key] for key in part]
        shares = token_shares(
            [row.trained for row in trained], [row.weight for row in trained], rl.aggregation, divisor
        )
        for key, row, share in zip(part, trained, shares, strict=True):
            mask = row.row.mask[seam.cut_of(row.row) :]
            columns[key]["shares"] = np.where(mask, np.float32(share), np.float32(0))
        out.append(part)
    return out


def _targets(step: seam.Step, result: CreditResult, columns: dict[str, Columns]) -> None:
    """The critic's targets along the samples; ``value_shares`` 1 where there is one."""
    assert result.targets is not None
    for key, (group, index, row) in step.places.items():
        episode = step.groups[group].episodes[index]
        if row < 0 or episode.termination.is_failure:
            continue
        whole = np.full(len(episode.rows[row]), np.nan, np.float32)
        for turn, values in zip(episode.turns, result.targets[group][index], strict=True):
            if turn.row == row and turn.end > turn.start:
                whole[turn.start : turn.end] = values
        found = whole[seam.cut_of(episode.rows[row]) :]
        known = np.isfinite(found)
        columns[key]["returns"] = np.where(known, found, 0).astype(np.float32)
        columns[key]["value_shares"] = known.astype(np.float32)


def value_shares(columns: Mapping[str, Columns], keys: Sequence[str]) -> None:
    """Make the ones of a minibatch's ``value_shares`` into shares of its mean squared error."""
    total = sum(float((columns[key]["value_shares"] > 0).sum()) for key in keys)
    for key in keys:
        found = columns[key]["value_shares"]
        columns[key]["value_shares"] = (found > 0).astype(np.float32) / np.float32(max(1.0, total))


def minibatch_size(parts: Sequence[Sequence[str]], processes: int) -> int:
    """Samples of each minibatch, fillers included: the most that one has, up to a multiple of ``processes``."""
    return -(-max(map(len, parts)) // processes) * processes


def deal(
    parts: Sequence[Sequence[str]], lengths: Mapping[str, int], processes: int, padding: Sequence[str]
) -> list[list[str]]:
    """Which samples each process takes, its share of every minibatch one after the other.

    All shares of all minibatches have as many samples, filled up from ``padding``; long ones are dealt out evenly.
    """
    size, spare = minibatch_size(parts, processes), iter(padding)
    out: list[list[str]] = [[] for _ in range(processes)]
    for part in parts:
        full = sorted(part, key=lambda key: (-lengths[key], key)) + [next(spare) for _ in range(size - len(part))]
        for process in range(processes):
            out[process] += full[process::processes]
    return out
