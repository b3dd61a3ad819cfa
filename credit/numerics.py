"""Arithmetic that all estimators share: float64 NumPy over flat arrays, in segments given by labels or lengths.

``label`` is an integer >= 0 for each value; values with equal labels form one group. Without labels all values do.
Every function is linear in the number of values (but for one sort of the episodes by length).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from agentgym.credit.protocols import Array, Values
from agentgym.errors import ConfigError
from agentgym.types import Group

Std = Literal["population", "sample", "none"]
Norm = Literal["mean", "mean_std"]
Weighting = Literal["trajectory", "turn"]
Label = npt.NDArray[np.int64]
EPSILON = 1e-6  # added to every standard deviation
CONSTANT = 1e-8  # a spread below this is none: float noise over EPSILON would be amplified a million-fold
ROUNDING = 1e-12  # and so is one below this share of the largest value: what rounding leaves of large rewards


def choice(owner: str, option: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise ConfigError unless ``value`` is allowed."""
    if value not in allowed:
        raise ConfigError(f"estimator {owner!r}: {option} must be one of {', '.join(allowed)}; got {value!r}")


def fraction(owner: str, **options: float) -> None:
    """Raise ConfigError unless every option is in [0, 1]."""
    for option, value in options.items():
        if not 0 <= value <= 1:
            raise ConfigError(f"estimator {owner!r}: {option} must be in [0, 1], got {value}")


def varies(x: Array, label: Label | None = None, member: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.bool_]:
    """Per label: do its members (default: all values) number two or more and differ by more than float noise?"""
    count = 1 if label is None else int(label.max(initial=-1)) + 1
    if member is not None:
        x, label = x[member], None if label is None else label[member]
    low, high = _highest(-x, label, count), _highest(x, label, count)
    several = (len(x) if label is None else np.bincount(label, minlength=count)) > np.ones(count)
    low, high = np.where(several, -low, 0.0), np.where(several, high, 0.0)
    enough = np.maximum(CONSTANT, ROUNDING * np.maximum(np.abs(low), np.abs(high)))
    result: npt.NDArray[np.bool_] = high - low >= enough
    return result


def _highest(x: Array, label: Label | None, count: int) -> Array:
    out = np.full(count, -np.inf)
    if label is None:
        out[0] = x.max(initial=-np.inf)
    else:
        np.maximum.at(out, label, x)
    return out


def is_constant(x: Array) -> bool:
    """True for fewer than two values or a spread that is float noise (below 1e-8, or 1e-12 of the largest value)."""
    return not varies(x).any()


def turn_counts(group: list[Array], weighting: Weighting) -> Array:
    """Statistical weight of each episode: 1, or its number of turns."""
    return np.array([1.0 if weighting == "trajectory" else len(turns) for turns in group], np.float64)


def mean(x: Array, weights: Array, label: Label | None = None) -> Array:
    """Per label, the weighted mean; 0 where nothing weighs anything."""
    if label is None:
        return np.array([np.dot(weights, x) / (weights.sum() or 1.0)])
    total, rows = np.bincount(label, weights * x), np.bincount(label, weights)
    result: Array = total / np.where(rows > 0, rows, 1.0)
    return result


def z_score(x: Array, weights: Array, std: Std, label: Label | None = None, *, centred: bool = True) -> Array:
    """``(x - mean) / (std + 1e-6)`` within each label; exactly 0 for a label that is constant or has one member.

    Members are the values of positive weight; others are scored by the members' statistics. ``centred=False``
    divides only.
    """
    each = slice(None) if label is None else label  # from one number per label to one per value
    alive = varies(x, label, None if weights.all() else weights > 0)[each]
    offset = np.where(alive, x - mean(x, weights, label)[each], 0.0)
    result: Array = offset if centred else np.where(alive, x, 0.0)
    if std == "none" or not alive.any():
        return result
    # squares are taken in units of the largest offset, so that extreme rewards do not overflow
    unit = _highest(np.abs(offset), label, 1 if label is None else int(label.max()) + 1)
    unit = np.where(unit > 0, unit, 1.0)
    variance = mean((offset / unit[each]) ** 2, weights, label)
    if std == "sample":
        rows = weights.sum() if label is None else np.bincount(label, weights)
        variance *= rows / np.where(rows > 1, rows - 1, 1.0)
    result = result / (unit * np.sqrt(variance) + EPSILON)[each]
    return result


def others_mean(x: Array, weights: Array, label: Label | None = None) -> Array:
    """For each episode the weighted mean of all *other* episodes; its own value where the others weigh nothing."""
    label = np.zeros(len(x), np.int64) if label is None else label
    rest = np.bincount(label, weights)[label] - weights
    sums = np.bincount(label, weights * x)[label] - weights * x
    result: Array = np.where(rest > 0, sums / np.where(rest > 0, rest, 1.0), x)
    return result


def returns_to_go(rewards: Array, gamma: float, lengths: Label | None = None) -> Array:
    """``G_t = r_t + gamma * G_{t+1}`` within each of the episodes whose ``lengths`` are given (default: one).

    Walks all episodes back from their ends at once: as many steps as the longest episode has turns, and work linear
    in the number of turns.
    """
    out = rewards.astype(np.float64)
    lengths = np.array([len(out)], np.int64) if lengths is None else lengths
    order = np.argsort(-lengths, kind="stable")
    at = np.cumsum(lengths)[order] - 1
    longer = np.searchsorted(-lengths[order], -np.arange(1, lengths.max(initial=0)), side="left").tolist()
    for alive in longer:  # longer[k - 1]: how many episodes have more than k turns
        at = at[:alive] - 1
        out[at] += gamma * out[at + 1]
    return out


def centre(credit: Array, label: Label | None = None) -> Array:
    """``c_t - mean_t c`` within each label; exactly 0 where the turns do not differ."""
    return z_score(credit, np.ones(len(credit)), "none", label)


def outcome_values(groups: list[Group]) -> Values:
    """Values of the plain outcome on the last turn, for estimators that are called without any."""
    total = [[np.zeros(len(episode.turns)) for episode in group] for group in groups]
    for group, rewards in zip(groups, total, strict=True):
        for episode, turns in zip(group, rewards, strict=True):
            turns[-1:] = episode.outcome
    dense = [[np.zeros_like(turns) for turns in rewards] for rewards in total]
    return Values(total, dense, [np.array([turns.sum() for turns in rewards]) for rewards in total])
