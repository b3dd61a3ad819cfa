"""Statistics of evaluations: intervals clustered by task, pass@k, pass^k, paired comparison. NumPy; SciPy on first use.

Attempts at one task are not independent, so the task is the unit: every standard error is clustered by task id.
Edge cases: no sample gives NaN everywhere; one task says nothing about other tasks, so its standard error is NaN.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

NAN = math.nan
CONFIDENCE = 0.95
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its interval. ``n`` values in ``clusters`` tasks; ``method`` names the interval."""

    value: float
    low: float
    high: float
    se: float
    n: int
    clusters: int
    method: str

    def to_dict(self) -> dict[str, Any]:
        """JSON-compatible; NaN becomes None."""
        numbers = {name: getattr(self, name) for name in ("value", "low", "high", "se")}
        return {
            **{name: None if math.isnan(x) else x for name, x in numbers.items()},
            "n": self.n,
            "clusters": self.clusters,
            "method": self.method,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """``difference`` = mean(b) - mean(a) over ``n`` tasks, its interval, and a two-sided p-value."""

    difference: float
    low: float
    high: float
    p_value: float
    n: int
    method: str

    def to_dict(self) -> dict[str, Any]:
        """JSON-compatible; NaN becomes None."""
        numbers = {name: getattr(self, name) for name in ("difference", "low", "high", "p_value")}
        found: dict[str, Any] = {name: None if math.isnan(x) else x for name, x in numbers.items()}
        return {**found, "n": self.n, "method": self.method}


def normal_quantile(confidence: float = CONFIDENCE) -> float:
    """Two-sided quantile of the standard normal: 1.96 for 95 %."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}")
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def t_quantile(df: int, confidence: float = CONFIDENCE) -> float:
    """Two-sided quantile of Student's t."""
    return float(_scipy().t.ppf(0.5 + confidence / 2, df))


def wilson(p: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's score interval for a share ``p`` of ``n`` trials (Wilson 1927); n may be an effective size."""
    if not n > 0:
        return NAN, NAN
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low = 0.0 if p == 0 else max(0.0, centre - half)
    return low, 1.0 if p == 1 else min(1.0, centre + half)


def clustered_se(values: Sequence[float] | _Floats, clusters: Sequence[Hashable]) -> float:
    """Standard error of the mean, clustered: ``sqrt(G/(G-1) * sum_g (sum_{i in g} (x_i - mean))^2) / n``.

    Liang and Zeger (1986) with the small-sample factor G/(G-1). With one value per cluster it is the usual
    ``s / sqrt(n)``. NaN for fewer than two clusters.
    """
    x = np.asarray(values, np.float64)
    _, index = _clusters(clusters, len(x))
    count = int(index.max()) + 1 if len(index) else 0
    if count < 2:
        return NAN
    sums = np.bincount(index, weights=x - x.mean())
    return math.sqrt(count / (count - 1) * float((sums**2).sum())) / len(x)


def success_interval(
    values: Sequence[bool] | Sequence[float], tasks: Sequence[Hashable], confidence: float = CONFIDENCE
) -> Estimate:
    """Success rate over all attempts, with an interval inside [0, 1].

    One attempt per task: Wilson's score interval; ``se`` is ``sqrt(p(1-p)/n)``.
    Several: ``se`` is :func:`clustered_se`; Wilson's interval at the effective size ``n / deff`` with Student's t of
    G - 1 degrees of freedom (Korn and Graubard 1998), where ``deff = se^2 / (p(1-p)/(n-1))``, at least 1 and at most
    ``sum_g n_g^2 / n``, its value when attempts at a task always agree (with equal n_g that makes n/deff the number of
    tasks). At p = 0 or 1 nothing is known about the agreement, so that largest deff is taken.
    One task with several attempts: [0, 1], since nothing is known about other tasks.
    """
    x = np.asarray(values, np.float64)
    if np.any((x != 0) & (x != 1)):
        raise ValueError("success_interval takes 0/1 values; use mean_interval for scores")
    count, index = _clusters(tasks, len(x))
    n = len(x)
    if n == 0:
        return Estimate(NAN, NAN, NAN, NAN, 0, 0, "none")
    p = float(x.mean())
    if count == n:
        low, high = wilson(p, n, normal_quantile(confidence))
        return Estimate(p, low, high, math.sqrt(p * (1 - p) / n), n, n, "wilson")
    if count == 1:
        return Estimate(p, 0.0, 1.0, NAN, n, 1, "one task")
    se = clustered_se(x, tasks)
    largest = float((np.bincount(index) ** 2).sum()) / n
    design = largest if p in (0.0, 1.0) else min(max(se**2 * (n - 1) / (p * (1 - p)), 1.0), largest)
    low, high = wilson(p, n / design, t_quantile(count - 1, confidence))
    return Estimate(p, low, high, se, n, count, "clustered wilson")


def mean_interval(
    values: Sequence[float] | _Floats, tasks: Sequence[Hashable], confidence: float = CONFIDENCE
) -> Estimate:
    """Mean over all attempts with :func:`clustered_se` and Student's t of G - 1 degrees of freedom.

    One task: standard error and interval are NaN. Equal values everywhere: the interval is the point.
    """
    x = np.asarray(values, np.float64)
    count, _ = _clusters(tasks, len(x))
    if len(x) == 0:
        return Estimate(NAN, NAN, NAN, NAN, 0, 0, "none")
    mean, se = float(x.mean()), clustered_se(x, tasks)
    half = t_quantile(count - 1, confidence) * se if count > 1 else NAN
    return Estimate(mean, mean - half, mean + half, se, len(x), count, "clustered t" if count > 1 else "one task")


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased chance that at least one of k attempts succeeds, from c successes in n attempts (Chen et al. 2021).

    ``1 - C(n-c, k) / C(n, k)``; needs ``n >= k``.
    """
    _check_counts(n, c, k)
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def pass_power_k(n: int, c: int, k: int) -> float:
    """Unbiased chance that all of k attempts succeed, pass^k (Yao et al. 2024): ``C(c, k) / C(n, k)``."""
    _check_counts(n, c, k)
    return math.comb(c, k) / math.comb(n, k)


def panel_pass(
    counts: Sequence[tuple[int, int]], k: int, *, power: bool = False, confidence: float = CONFIDENCE
) -> Estimate:
    """pass@k (or pass^k with ``power``) averaged over tasks, from ``(attempts, successes)`` of each task.

    The interval is Student's t over the tasks' values, cut to [0, 1].
    """
    single = pass_power_k if power else pass_at_k
    found = mean_interval([single(n, c, k) for n, c in counts], range(len(counts)), confidence)
    low, high = max(0.0, found.low), min(1.0, found.high)
    if math.isnan(found.low):
        low = high = NAN
    return Estimate(found.value, low, high, found.se, found.n, found.clusters, found.method)


def compare(
    a: Mapping[str, Sequence[float]], b: Mapping[str, Sequence[float]], confidence: float = CONFIDENCE
) -> Comparison:
    """Paired comparison of two results on the same panel: task id -> values of the attempts. Positive: b is better.

    0/1 values, one attempt per task on both sides: exact McNemar test on the discordant tasks, and the interval of
    Agresti and Min (2005): half a task added to each discordant cell. Otherwise: t test and t interval on the tasks'
    mean differences; where these are all equal the interval is the point, and p is 1 for no difference, else
    ``2^(1-n)`` (exact sign-flip test). One task: interval NaN, p 1. Different panels: ValueError.
    """
    if set(a) != set(b):
        only = sorted(set(a) ^ set(b))
        raise ValueError(f"not the same panel: {len(only)} tasks are in one result only, such as {only[0]!r}")
    empty = [task for task in a if not len(a[task]) or not len(b[task])]
    if empty:
        raise ValueError(f"task {empty[0]!r} has no attempt")
    if not a:
        return Comparison(NAN, NAN, NAN, NAN, 0, "none")
    pairs = [(np.asarray(a[task], np.float64), np.asarray(b[task], np.float64)) for task in a]
    if all(len(x) == len(y) == 1 and x[0] in (0, 1) and y[0] in (0, 1) for x, y in pairs):
        return _mcnemar(sum(y[0] > x[0] for x, y in pairs), sum(y[0] < x[0] for x, y in pairs), len(pairs), confidence)
    return _paired_t(np.array([y.mean() - x.mean() for x, y in pairs]), confidence)


def _mcnemar(gained: int, lost: int, n: int, confidence: float) -> Comparison:
    p_value = float(_scipy().binomtest(gained, gained + lost, 0.5).pvalue) if gained + lost else 1.0
    up, down, size = gained + 0.5, lost + 0.5, n + 2
    half = normal_quantile(confidence) * math.sqrt(up + down - (up - down) ** 2 / size) / size
    middle = (up - down) / size
    low, high = max(-1.0, middle - half), min(1.0, middle + half)
    return Comparison((gained - lost) / n, low, high, p_value, n, "mcnemar")


def _paired_t(differences: _Floats, confidence: float) -> Comparison:
    n, mean = len(differences), float(differences.mean())
    if n < 2:
        return Comparison(mean, NAN, NAN, 1.0, n, "one task")
    se = float(differences.std(ddof=1)) / math.sqrt(n)
    if float(np.ptp(differences)) < 1e-12:
        return Comparison(mean, mean, mean, 1.0 if abs(mean) < 1e-12 else 2.0 ** (1 - n), n, "sign flip")
    half = t_quantile(n - 1, confidence) * se
    return Comparison(mean, mean - half, mean + half, float(2 * _scipy().t.sf(abs(mean) / se, n - 1)), n, "paired t")


def _scipy() -> Any:
    return importlib.import_module("scipy.stats")  # a second to import, so only when it is needed


def _clusters(clusters: Sequence[Hashable], expected: int) -> tuple[int, npt.NDArray[np.int64]]:
    if len(clusters) != expected:
        raise ValueError(f"{expected} values but {len(clusters)} task ids")
    numbers: dict[Hashable, int] = {}
    index = np.array([numbers.setdefault(cluster, len(numbers)) for cluster in clusters], np.int64)
    return len(numbers), index


def _check_counts(n: int, c: int, k: int) -> None:
    if not 0 <= c <= n:
        raise ValueError(f"successes must be within 0..{n}, got {c}")
    if not 1 <= k <= n:
        raise ValueError(f"k must be within 1..{n} (the number of attempts), got {k}")
