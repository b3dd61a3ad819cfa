"""Arithmetic that all estimators share: float64 NumPy over the episodes of one group."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agentgym.credit.protocols import Array, Values
from agentgym.errors import ConfigError
from agentgym.types import Group

Std = Literal["population", "sample", "none"]
Weighting = Literal["trajectory", "turn"]
EPSILON = 1e-6  # added to every standard deviation
CONSTANT = 1e-8  # a spread below this is none: float noise over EPSILON would be amplified a million-fold


def choice(owner: str, option: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise ConfigError unless ``value`` is allowed."""
    if value not in allowed:
        raise ConfigError(f"estimator {owner!r}: {option} must be one of {', '.join(allowed)}; got {value!r}")


def is_constant(x: Array) -> bool:
    """True for fewer than two values or a spread below 1e-8."""
    return len(x) < 2 or float(np.ptp(x)) < CONSTANT


def turn_counts(group: list[Array], weighting: Weighting) -> Array:
    """Statistical weight of each episode: 1, or its number of turns."""
    return np.array([1.0 if weighting == "trajectory" else len(turns) for turns in group], np.float64)


def z_score(x: Array, weights: Array, std: Std) -> Array:
    """``(x - mean) / (std + 1e-6)``; a group of one or a constant group gives exactly 0."""
    rows = float(weights.sum())
    if is_constant(x) or rows < 2:
        return np.zeros_like(x)
    centred: Array = x - np.average(x, weights=weights)
    if std == "none":
        return centred
    variance = float(np.average(centred**2, weights=weights))
    if std == "sample":
        variance *= rows / (rows - 1)
    scaled: Array = centred / (variance**0.5 + EPSILON)
    return scaled


def others_mean(x: Array, weights: Array) -> Array:
    """For each episode the weighted mean of all *other* episodes; its own value where the others weigh nothing."""
    rest = weights.sum() - weights
    sums = float((weights * x).sum()) - weights * x
    result: Array = np.where(rest > 0, sums / np.where(rest > 0, rest, 1.0), x)
    return result


def returns_to_go(rewards: Array, gamma: float) -> Array:
    """``G_t = r_t + gamma * G_{t+1}`` over turns."""
    result, after = rewards.tolist(), 0.0
    for t in range(len(result) - 1, -1, -1):
        after = result[t] = result[t] + gamma * after
    return np.array(result, np.float64)


def centre(credit: Array) -> Array:
    """``c_t - mean_t c``; exactly 0 where the turns do not differ."""
    return np.zeros_like(credit) if is_constant(credit) else credit - credit.mean()


def outcome_values(groups: list[Group]) -> Values:
    """Values of the plain outcome on the last turn, for estimators that are called without any."""
    total = [[np.zeros(len(episode.turns)) for episode in group] for group in groups]
    for group, rewards in zip(groups, total, strict=True):
        for episode, turns in zip(group, rewards, strict=True):
            turns[-1:] = episode.outcome
    dense = [[np.zeros_like(turns) for turns in rewards] for rewards in total]
    return Values(total, dense, [np.array([turns.sum() for turns in rewards]) for rewards in total])
