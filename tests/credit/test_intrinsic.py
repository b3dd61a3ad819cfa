"""Self-certainty and curiosity: golden vectors, and the bonus as a component."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.credit import CreditPipeline, component
from agentgym.credit.intrinsic import Curiosity, curiosity_bonus, mean_nll, self_certainty
from agentgym.credit.protocols import Services
from agentgym.errors import ConfigError
from agentgym.types import Group


def test_golden_self_certainty():
    logits = np.array([[2.0, 0, 0, 0], [0, 0, 0, 0]])
    np.testing.assert_allclose(self_certainty(logits, constant=False), [1.84075, np.log(4)], atol=5e-6)
    np.testing.assert_allclose(self_certainty(logits), [0.45446, 0], atol=5e-6)


@given(st.lists(st.floats(-20, 20), min_size=2, max_size=9), st.floats(-1e4, 1e4))
def test_self_certainty_is_the_divergence_of_the_uniform_distribution(logits, shift):
    p = np.exp(np.array(logits) - max(logits))
    p /= p.sum()
    expected = float(np.mean(np.log(1 / len(p)) - np.log(p)))
    assert self_certainty(np.array(logits)) == pytest.approx(expected, abs=1e-9)
    assert self_certainty(np.array(logits) + shift) == pytest.approx(expected, abs=1e-8)


def test_golden_curiosity():
    for outcome, total in [(1.0, 1.1667), (-1.0, -0.8333)]:
        assert outcome + curiosity_bonus(outcome, 2.0, omega=0.5, kappa=3, alpha=0.3) == pytest.approx(total, abs=5e-5)
    assert curiosity_bonus(0.0, 2.0) == 0
    assert curiosity_bonus(1.0, 0.5) == pytest.approx(0.5 * 0.15)


def test_the_bonus_comes_from_the_recorded_log_probabilities(group: Callable[..., Group]):
    made = group([1, 0], [2, 3])  # every drawn token has log-probability -0.5, every other one 0
    assert mean_nll(made.episodes[0]) == pytest.approx(0.5)
    result = CreditPipeline(["curiosity"], "rloo").run([made])
    for episode in made:
        np.testing.assert_allclose(component(episode, "curiosity")[:-1], 0)
        assert component(episode, "curiosity")[-1] == pytest.approx(0.5 * 0.15)
    assert result.metrics["credit/curiosity/nll"] == pytest.approx(0.5)
    assert result.metrics["credit/curiosity/episodes_without"] == 0


def test_with_the_environment_s_outcome_a_failure_gets_no_bonus(group: Callable[..., Group]):
    made = group([1, 0])
    CreditPipeline([{"curiosity": {"signed": False}}], "rloo").run([made])
    assert [component(e, "curiosity")[-1] for e in made] == [pytest.approx(0.075), 0]


def test_an_episode_without_tokens_gets_nothing_and_is_counted(group: Callable[..., Group]):
    made = group([1, 0], response_tokens=[0, 0])
    result = CreditPipeline(["curiosity"], "rloo").run([made])
    assert not any(component(e, "curiosity").any() for e in made)
    assert result.metrics["credit/curiosity/episodes_without"] == 2


def test_the_weight_decays_in_steps(group: Callable[..., Group]):
    part = Curiosity(decay=0.5, every=10)
    for step, omega in [(0, 0.5), (9, 0.5), (10, 0.25), (25, 0.125)]:
        asyncio.run(part.apply([group([1])], Services(), step))
        assert part.report()["omega"] == omega


@pytest.mark.parametrize("options", [{"omega": -1}, {"kappa": 0}, {"alpha": -1}, {"decay": 2}, {"every": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(ConfigError, match="curiosity"):
        Curiosity(**options)
