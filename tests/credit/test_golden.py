"""Golden vectors of credit-methods.md 0.6 that concern the estimators we have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from agentgym.credit import assign
from agentgym.credit.numerics import centre, returns_to_go
from agentgym.credit.protocols import Values
from agentgym.credit.rloo import RLOO
from agentgym.types import Group

MakeGroup = Callable[..., Group]


@pytest.mark.parametrize(
    ("estimator", "options", "expected", "tolerance"),
    [
        ("grpo", {}, [1, -1, -1, 1], 2e-6),
        ("grpo", {"std": "sample"}, [0.8660, -0.8660, -0.8660, 0.8660], 5e-5),
        ("grpo", {"std": "none"}, [0.5, -0.5, -0.5, 0.5], 1e-12),
        ("rloo", {}, [2 / 3, -2 / 3, -2 / 3, 2 / 3], 1e-12),
        ("discounted_return", {"gamma": 1.0}, [2 / 3, -2 / 3, -2 / 3, 2 / 3], 1e-12),
        ("discounted_return", {"gamma": 1.0, "baseline": "mean"}, [0.5, -0.5, -0.5, 0.5], 1e-12),
        ("discounted_return", {"gamma": 1.0, "baseline": "none"}, [1, 0, 0, 1], 0),
    ],
)
def test_outcomes_1001(
    group: MakeGroup, estimator: str, options: dict[str, object], expected: list[float], tolerance: float
) -> None:
    (advantages,) = assign([group([1, 0, 0, 1], [1, 2, 3, 4])], estimator=estimator, **options)
    for a, want, turns in zip(advantages, expected, [1, 2, 3, 4], strict=True):
        assert a.dtype == np.float64
        np.testing.assert_allclose(a, np.full(turns, want), atol=tolerance, rtol=0)


def test_outcome_plus_centred_credit(group: MakeGroup) -> None:
    """2.2: A_seq = .5, c = [.2, .5, .3], a = 1 -> [.3667, .6667, .4667]."""
    made = group([0.25, -0.25], [3, 3])
    credit = np.array([0.2, 0.5, 0.3])
    dense = [[credit, np.zeros(3)]]
    values = Values(total=dense, dense=dense, outcome=[np.array([0.25, -0.25])])
    (advantages,) = RLOO().compute([made], values)
    np.testing.assert_allclose(advantages[0], [0.3667, 0.6667, 0.4667], atol=5e-5)
    np.testing.assert_allclose(advantages[1], [-0.5, -0.5, -0.5])


def test_dense_weight_scales_the_centred_part_only(group: MakeGroup) -> None:
    dense = [[np.array([0.2, 0.5, 0.3]), np.zeros(3)]]
    values = Values(dense, dense, [np.array([0.25, -0.25])])
    (advantages,) = RLOO(dense_weight=0.0).compute([group([0.25, -0.25], [3, 3])], values)
    np.testing.assert_allclose(advantages[0], [0.5, 0.5, 0.5])


def test_spa_return_to_go_of_the_reference() -> None:
    np.testing.assert_allclose(returns_to_go(np.array([0.2, 0.5, 0.3]), 1.0), [1.0, 0.8, 0.3])


def test_gated_and_shaped_returns_of_the_reference() -> None:
    np.testing.assert_allclose(returns_to_go(np.array([0.1, 0.1, 0.1]), 1.0), [0.3, 0.2, 0.1])
    np.testing.assert_allclose(returns_to_go(np.array([0.0, 0.0, -0.5]), 1.0), [-0.5, -0.5, -0.5])
    np.testing.assert_allclose(returns_to_go(np.array([0.25, 0, 0.25, 1.5]), 1.0), [2, 1.75, 1.75, 1.5])
    np.testing.assert_allclose(returns_to_go(np.array([0.0, 0.0, 10.0]), 0.95), [9.025, 9.5, 10])


def test_discounted_return_worked_by_hand(group: MakeGroup) -> None:
    """gamma .5: G_A = [.5, 1] (mean .75), G_B = 0; leave-one-out baselines 0 and .75, mean baseline .375."""
    made = group([1, 0], [2, 3])
    (loo,) = assign([made], estimator="discounted_return", gamma=0.5)
    np.testing.assert_allclose(loo[0], [0.5, 1.0])
    np.testing.assert_allclose(loo[1], [-0.75] * 3)
    (mean,) = assign([made], estimator="discounted_return", gamma=0.5, baseline="mean")
    np.testing.assert_allclose(mean[0], [0.125, 0.625])
    (by_turn,) = assign([made], estimator="discounted_return", gamma=0.5, baseline="mean", group_weighting="turn")
    np.testing.assert_allclose(by_turn[0], np.array([0.5, 1.0]) - 1.5 / 5)


def test_rloo_sum_pools_dense_rewards(group: MakeGroup) -> None:
    made = group([1, 0], [2, 2], invalid=[0])
    (advantages,) = assign([made], [{"invalid_penalty": {"penalty": 0.5}}], estimator="rloo", dense="sum")
    np.testing.assert_allclose(advantages[0], [1, 1])  # both pay the penalty once, so it cancels
    (centred,) = assign([made], [{"invalid_penalty": {"penalty": 0.5}}], estimator="rloo")
    np.testing.assert_allclose(centred[0], [1 - 0.25, 1 + 0.25])


def test_centre_of_equal_credit_is_exactly_zero() -> None:
    assert not centre(np.full(7, 0.1)).any()
