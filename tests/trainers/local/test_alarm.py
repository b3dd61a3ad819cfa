"""The alarm for dense rewards that rise while the outcome falls (pitfall 29 of the credit reference)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from agentgym.trainers.local.alarm import OUTCOME, WINDOW, HackingAlarm, moved


def run(dense: list[float], outcome: list[float]) -> tuple[list[float], list[str]]:
    alarm, notes = HackingAlarm(["spa"]), []
    found = [alarm.check({"credit/spa/mean": d, OUTCOME: o}, notes.append) for d, o in zip(dense, outcome, strict=True)]
    return [metrics["alarm/spa"] for metrics in found], notes


def noisy(slope: float, seed: int, steps: int = 2 * WINDOW) -> list[float]:
    rng = np.random.default_rng(seed)
    return (0.5 + slope * np.arange(steps) / steps + 0.05 * rng.standard_normal(steps)).tolist()


def test_a_simulated_hacker_is_told_once_a_window() -> None:
    alarms, notes = run(noisy(1.0, 1), noisy(-0.5, 2))
    assert not any(alarms[: WINDOW - 1])
    assert all(alarms[WINDOW + 5 :])
    assert len(notes) == 2
    assert "spa rose while the outcome fell" in notes[0]


@pytest.mark.parametrize(("dense", "outcome"), [(1.0, 1.0), (-1.0, -1.0), (-1.0, 1.0), (0.0, 0.0), (1.0, 0.0)])
def test_anything_else_is_not(dense: float, outcome: float) -> None:
    alarms, notes = run(noisy(dense, 3), noisy(outcome, 4))
    assert sum(alarms) <= 1  # noise may cross two standard errors now and then
    assert len(notes) <= 1


def test_moved_is_welchs_statistic() -> None:
    values = noisy(0.3, 5, WINDOW)
    expected = stats.ttest_ind(values[WINDOW // 2 :], values[: WINDOW // 2], equal_var=False).statistic
    assert moved(values) == pytest.approx(expected)
    assert moved(values[:-1]) == 0.0
    assert moved([0.0] * (WINDOW // 2) + [1.0] * (WINDOW // 2)) == np.inf
    assert moved([1.0] * WINDOW) == 0.0


def test_nothing_dense_is_nothing_to_watch_and_state_comes_back() -> None:
    assert HackingAlarm([]).check({OUTCOME: 0.5}, print) == {}
    whole, first, notes = HackingAlarm(["spa"]), HackingAlarm(["spa"]), []
    steps = [{"credit/spa/mean": d, OUTCOME: o} for d, o in zip(noisy(1.0, 1), noisy(-0.5, 2), strict=True)]
    expected = [whole.check(step, notes.append) for step in steps]
    got = [first.check(step, notes.append) for step in steps[:20]]
    second = HackingAlarm(["spa"])
    second.load_state_dict(first.state_dict())
    assert got + [second.check(step, notes.append) for step in steps[20:]] == expected
