"""Statistics against SciPy, closed forms and simulation; edge cases."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from agentgym.statistics import (
    clustered_se,
    compare,
    mean_interval,
    normal_quantile,
    panel_pass,
    pass_at_k,
    pass_power_k,
    success_interval,
    t_quantile,
    wilson,
)


def test_wilson_equals_scipy() -> None:
    for n in (1, 5, 40, 134):
        for c in {0, 1, n // 2, n}:
            want = scipy_stats.binomtest(c, n).proportion_ci(method="wilson")
            found = success_interval([1] * c + [0] * (n - c), range(n))
            assert (found.low, found.high) == pytest.approx((want.low, want.high), abs=1e-12)
            assert found.method == "wilson"
            assert found.se == pytest.approx(math.sqrt(c / n * (1 - c / n) / n))


def test_quantiles() -> None:
    assert normal_quantile() == pytest.approx(1.959964, abs=1e-6)
    assert t_quantile(9) == pytest.approx(2.262157, abs=1e-6)
    with pytest.raises(ValueError, match="confidence"):
        normal_quantile(1.0)


def test_clustered_se_of_single_values_is_the_usual_one() -> None:
    x = np.random.default_rng(0).normal(size=30)
    assert clustered_se(x, range(30)) == pytest.approx(scipy_stats.sem(x))


def test_clustered_se_of_equal_clusters_is_that_of_their_means() -> None:
    x = np.random.default_rng(1).normal(size=(12, 4))
    tasks = np.repeat(np.arange(12), 4).tolist()
    assert clustered_se(x.ravel(), tasks) == pytest.approx(scipy_stats.sem(x.mean(1)))


def test_copying_every_attempt_adds_no_information() -> None:
    """Report 51: a naive standard error would shrink by half."""
    once = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0]
    four = np.repeat(once, 4)
    tasks = np.repeat(np.arange(8), 4).tolist()
    assert clustered_se(four, tasks) == pytest.approx(clustered_se(once, range(8)))
    found = success_interval(four.tolist(), tasks)
    low, high = wilson(0.5, 8, t_quantile(7))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.method == "clustered wilson"


def test_order_does_not_matter() -> None:
    values, tasks = [1, 0, 1, 1, 0, 0], ["a", "a", "b", "b", "c", "c"]
    order = [5, 2, 0, 3, 1, 4]
    assert success_interval(values, tasks) == success_interval([values[i] for i in order], [tasks[i] for i in order])


@pytest.mark.parametrize(("tasks", "attempts"), [(20, 4), (60, 3), (60, 1)])
def test_intervals_cover(tasks: int, attempts: int) -> None:
    """Beta-binomial tasks with mean .3: at least 93 % of 95 % intervals hold the truth."""
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(600):
        p = rng.beta(0.6, 1.4, size=tasks)
        wins = (rng.random((tasks, attempts)) < p[:, None]).astype(float)
        found = success_interval(wins.ravel().tolist(), np.repeat(np.arange(tasks), attempts).tolist())
        covered += found.low <= 0.3 <= found.high
    assert covered >= 0.93 * 600


def test_edges_of_success() -> None:
    none = success_interval([], [])
    assert math.isnan(none.value)
    assert none.n == 0
    assert json.loads(json.dumps(none.to_dict()))["value"] is None
    one = success_interval([1], ["a"])
    assert (one.value, one.high) == (1, 1)
    assert one.low == pytest.approx(0.2065, abs=1e-4)
    same = success_interval([1, 0], ["a", "a"])
    assert (same.low, same.high) == (0, 1)
    assert math.isnan(same.se)
    never = success_interval([0] * 40, np.repeat(np.arange(10), 4).tolist())
    assert never.low == 0
    assert never.high == pytest.approx(wilson(0, 10, t_quantile(9))[1])  # ten tasks, not forty trials
    with pytest.raises(ValueError, match="0/1"):
        success_interval([0.5], ["a"])
    with pytest.raises(ValueError, match="2 values but 1 task ids"):
        success_interval([1, 0], ["a"])


def test_mean_interval_equals_scipy_and_its_edges() -> None:
    x = np.random.default_rng(2).normal(size=25)
    want = scipy_stats.ttest_1samp(x, 0).confidence_interval()
    found = mean_interval(x, range(25))
    assert (found.low, found.high) == pytest.approx((want.low, want.high))
    assert math.isnan(mean_interval([1.0, 2.0], ["a", "a"]).low)
    assert math.isnan(mean_interval([], []).value)
    flat = mean_interval([2.0] * 5, range(5))
    assert (flat.low, flat.high, flat.se) == (2, 2, 0)


def test_pass_at_k_and_pass_power_k_by_enumeration() -> None:
    for n in range(1, 6):
        for c in range(n + 1):
            wins = [True] * c + [False] * (n - c)
            for k in range(1, n + 1):
                draws = list(itertools.combinations(wins, k))
                assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))
                assert pass_power_k(n, c, k) == pytest.approx(sum(map(all, draws)) / len(draws))
    for n, c, k in ((3, 4, 1), (3, -1, 1), (3, 1, 4), (3, 1, 0)):
        with pytest.raises(ValueError, match="must be within"):
            pass_at_k(n, c, k)


def test_panel_pass_averages_tasks() -> None:
    found = panel_pass([(4, 2), (4, 0), (4, 4)], 2)
    assert found.value == pytest.approx((5 / 6 + 0 + 1) / 3)
    assert 0 <= found.low < found.high <= 1
    assert panel_pass([(4, 2), (4, 0), (4, 4)], 2, power=True).value == pytest.approx((1 / 6 + 0 + 1) / 3)
    assert math.isnan(panel_pass([(4, 2)], 2).low)


def test_compare_single_attempts_is_exact_mcnemar() -> None:
    before = {str(i): [0.0] for i in range(20)}
    after = {str(i): [1.0 if i < 8 else 0.0] for i in range(20)}
    after["19"], before["19"] = [0.0], [1.0]
    found = compare(before, after)
    assert found.difference == pytest.approx(7 / 20)
    assert found.p_value == pytest.approx(scipy_stats.binomtest(8, 9).pvalue)
    assert found.method == "mcnemar"
    assert 0 < found.low < 7 / 20 < found.high
    up, down, n = 8.5, 1.5, 22
    half = 1.959964 * math.sqrt(up + down - (up - down) ** 2 / n) / n
    assert (found.low, found.high) == pytest.approx(((up - down) / n - half, (up - down) / n + half), abs=1e-6)


def test_compare_several_attempts_is_a_paired_t_test() -> None:
    rng = np.random.default_rng(3)
    before = {str(i): rng.integers(0, 2, 4).tolist() for i in range(15)}
    after = {str(i): rng.integers(0, 2, 3).tolist() for i in range(15)}
    a, b = (np.array([np.mean(side[t]) for t in before]) for side in (before, after))
    want = scipy_stats.ttest_rel(b, a)
    found = compare(before, after)
    assert found.p_value == pytest.approx(want.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(want.confidence_interval()))
    back = compare(after, before)
    assert (back.difference, back.p_value) == pytest.approx((-found.difference, found.p_value))


def test_edges_of_compare() -> None:
    assert compare({"a": [1]}, {"a": [1]}).p_value == 1
    assert math.isnan(compare({}, {}).difference)
    assert json.dumps(compare({}, {}).to_dict())
    assert compare({"a": [0.2]}, {"a": [0.5]}).p_value == 1
    uniform = compare({t: [0.25, 0.5] for t in "abcd"}, {t: [0.75, 1.0] for t in "abcd"})
    assert (uniform.low, uniform.high, uniform.p_value) == (0.5, 0.5, 2**-3)
    with pytest.raises(ValueError, match="not the same panel"):
        compare({"a": [1]}, {"b": [1]})
    with pytest.raises(ValueError, match="no attempt"):
        compare({"a": [1]}, {"a": []})


def test_clusters_of_unequal_size_equal_statsmodels() -> None:
    """Golden values: statsmodels 0.15.0, OLS on a constant, cov_type="cluster", use_t=True; mcnemar(exact=True)."""
    tasks = [0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 4, 4, 4]
    wins = [1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 0]
    found = mean_interval([float(x) for x in wins], tasks)
    assert (found.se, found.low, found.high) == pytest.approx((0.12626906806902635, 0.14942086, 0.85057914), rel=1e-7)
    scores = [0.1, 0.7, 0.35, 0.9, 0.2, 0.25, 0.6, 0.65, 0.8, 0.0, 0.15, 0.3, 0.45, 0.55]
    found = mean_interval(scores, tasks)
    want = (0.07662833896386843, 0.21581705193575879, 0.6413258052070985)
    assert (found.se, found.low, found.high) == pytest.approx(want, rel=1e-12)
    single = {f"t{i}": [float(i < 53)] for i in range(100)}
    other = {f"t{i}": [float(i < 50 or 53 <= i < 64)] for i in range(100)}  # 50 both, 3 lost, 11 gained
    assert compare(single, other).p_value == pytest.approx(0.057373046875, rel=1e-12)
