"""SPA: what is paid, what the estimator learns, and what happens without one."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learned_episodes import DEEDS, chain, make, only_turn_matters

from agentgym.credit import CreditError, CreditPipeline, component
from agentgym.credit.learned.attribution import credited
from agentgym.credit.numerics import returns_to_go
from agentgym.credit.protocols import Array, Services
from agentgym.credit.spa import SPA
from agentgym.errors import AgentGymError, ConfigError
from agentgym.types import Episode, Group, Termination

NONE = Services()
LONG = {"epochs": 60, "patience": 20}


class Fixed:
    """Stands in for a fitted model: the given credits, whatever the episode."""

    fitted, requires = True, frozenset[str]()

    def __init__(self, *credits: list[float]) -> None:
        self.credits = credits

    def encode(self, episodes: list[Episode], svc: Services, keep: bool = False) -> list[Any]:
        return list(episodes)

    def predict(self, items: list[Any], svc: Services) -> list[Array]:
        return [np.array(credit) for credit in self.credits]


def paid(spa: SPA, *episodes: Episode) -> list[Array]:
    asyncio.run(spa.apply([Group(episode.task, [episode]) for episode in episodes], NONE, 0))
    return [component(episode, "spa") for episode in episodes]


def stub(spa: SPA, *credits: list[float]) -> SPA:
    spa.model = Fixed(*credits)  # type: ignore[assignment]
    return spa


def won(turns: int = 3, **options: Any) -> Episode:
    return make([f"a{t}" for t in range(turns)], success=True, **options)


@pytest.fixture(scope="module")
def spread_fit() -> SPA:
    spa = SPA(fit=LONG)
    spa.warm_up(chain(100), NONE)
    return spa


@pytest.fixture(scope="module")
def plain_fit() -> SPA:
    spa = SPA(plain=True, beta=0.0, fit=LONG)
    spa.warm_up(chain(100), NONE)
    return spa


def test_the_golden_residual() -> None:
    """0.6: c = [.2, .5, .1], R = 1 -> [.2, .5, .3]; return-to-go [1, .8, .3]."""
    (found,) = paid(stub(SPA(residual="last"), [0.2, 0.5, 0.1]), won())
    np.testing.assert_allclose(found, [0.2, 0.5, 0.3], atol=1e-12)
    np.testing.assert_allclose(returns_to_go(found, 1.0), [1.0, 0.8, 0.3], atol=1e-12)


def test_the_golden_published_bonus_and_ours() -> None:
    """0.6: beta .5, g = [1, 0, 1], c = [.2, .5, .3] -> [.7, .5, .8]; as a penalty the refused turn costs instead."""
    (found,) = paid(stub(SPA(plain=True), [0.2, 0.5, 0.3]), won(refused=[1]))
    np.testing.assert_allclose(found, [0.7, 0.5, 0.8], atol=1e-12)
    (found,) = paid(stub(SPA(beta=0.5), [0.2, 0.5, 0.3]), won(refused=[1]))
    np.testing.assert_allclose(found, [0.2, -0.5, 0.3], atol=1e-12)


def test_a_refused_turn_has_no_credit_whatever_the_estimator_says() -> None:
    spa = stub(SPA(), [0.2, 0.9, 0.3])
    (found,) = paid(spa, won(refused=[1]))
    assert found[1] == 0.0
    assert spa.report()["refused"] == 0.0
    assert spa.report()["refused_raw"] == pytest.approx(0.9)


def test_the_residual_is_on_the_last_turn_even_if_that_was_refused() -> None:
    """An earlier turn must not know that the later ones failed."""
    (found,) = paid(stub(SPA(residual="last"), [0.2, 0.5, 0.4]), make(["a", "b", "c"], refused=[2]))
    np.testing.assert_allclose(found, [0.2, 0.5, -0.7], atol=1e-12)


def test_an_action_is_credited_once_in_a_state() -> None:
    rooms = ["hall", "hall", "yard", "hall", "hall"]
    loop = make(["look", "go", "look", "look"], observations=rooms)
    np.testing.assert_array_equal(credited(loop), [1, 1, 1, 0])
    np.testing.assert_array_equal(credited(loop, plain=True), [1, 1, 1, 1])
    refused_first = make(["take", "take"], observations=["hall"] * 3, refused=[0])
    np.testing.assert_array_equal(credited(refused_first), [0, 1])


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.booleans()), min_size=1, max_size=12),
    st.floats(-10, 10),
    st.floats(-3, 3),
)
def test_with_the_residual_the_sum_is_the_outcome(
    turns: list[tuple[float, bool]], outcome: float, alpha: float
) -> None:
    refused = [t for t, (_, flag) in enumerate(turns) if flag]
    episode = make(["a"] * len(turns), outcome=outcome, refused=refused)
    (found,) = paid(stub(SPA(residual="last", alpha=alpha), [c for c, _ in turns]), episode)
    assert found.sum() == pytest.approx(alpha * outcome, abs=1e-6)


def test_only_the_turn_that_matters_gets_credit() -> None:
    spa = SPA()
    spa.warm_up(only_turn_matters(2, 5, tasks=30), NONE)
    episodes = [e for g in only_turn_matters(2, 5, tasks=10, seed=9) for e in g if e.success]
    assert len(episodes) > 10
    assert all(int(credit.argmax()) == 2 for credit in paid(spa, *episodes))


def by_deed(spa: SPA) -> dict[str, float]:
    episodes = [e for g in chain(10, seed=5) for e in g if e.success]
    found: dict[str, list[float]] = {deed: [] for deed in DEEDS}
    for episode, credit in zip(episodes, paid(spa, *episodes), strict=True):
        for turn in episode.turns:
            if turn.action in found:
                found[turn.action].append(credit[turn.index])
    return {deed: float(np.mean(values)) for deed, values in found.items()}


def test_the_published_loss_collapses_onto_the_last_action_and_ours_does_not(spread_fit: SPA, plain_fit: SPA) -> None:
    """Deeds are done by failures too, so only c(place gem) = 1, all else 0, has zero loss."""
    plain, ours = by_deed(plain_fit), by_deed(spread_fit)
    assert plain["place gem"] > 1.5 * ours["place gem"]
    early = [sum(found[deed] for deed in DEEDS[:2]) / 2 for found in (plain, ours)]
    assert abs(early[0]) < 0.03
    assert early[1] > 0.05
    assert sum(ours.values()) > 0.5


def test_how_the_credit_lies_is_reported(spread_fit: SPA, plain_fit: SPA) -> None:
    shares = []
    for spa in (plain_fit, spread_fit):
        paid(spa, *[e for g in chain(10, seed=5) for e in g if e.success])
        shares.append(spa.report()["last_share"])
    assert shares[0] > shares[1] + 0.1
    paid(spread_fit, *[e for g in chain(10, seed=6) for e in g])
    assert spread_fit.report()["spearman"] > 0.6


def test_order_in_the_batch_changes_nothing(spread_fit: SPA) -> None:
    one, other = [e for g in chain(6, seed=3) for e in g], [e for g in chain(6, seed=3) for e in g]
    order = np.random.default_rng(0).permutation(len(one))
    straight = paid(spread_fit, *one)
    shuffled = paid(spread_fit, *[other[i] for i in order])
    for place, i in enumerate(order):
        np.testing.assert_allclose(shuffled[place], straight[i], atol=1e-6)


def test_order_of_the_groups_does_not_change_the_fit() -> None:
    fits = []
    for groups in (chain(12), list(reversed(chain(12)))):
        spa = SPA(fit={"epochs": 3})
        spa.warm_up(groups, NONE)
        fits.append(paid(spa, won(4))[0])
    np.testing.assert_array_equal(*fits)


def test_longer_episodes_and_huge_texts_are_credited_finitely(spread_fit: SPA) -> None:
    long = make(["take key"] * 400, observations=[f"room {t} " + "x y " * t for t in range(401)])
    huge = make(["take key"], observations=["word " * 100_000, "unseen " * 100_000])
    for credit in paid(spread_fit, long, huge):
        assert np.isfinite(credit).all()
        assert np.abs(credit).max() < 5
    assert spread_fit.model.trunk.hasher.truncated == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("options", [{}, {"residual": "last"}])
def test_without_a_fit_the_outcome_is_paid_and_that_is_said(options: dict[str, Any]) -> None:
    spa = SPA(**options)
    first, second = paid(spa, won(3), make([]))
    np.testing.assert_array_equal(first, [0, 0, 1])
    assert second.shape == (0,)
    assert spa.report() == {"fallback": 1.0, "fallback_episodes": 2.0}
    spa.feedback([], NONE, 0)
    paid(spa, won(3))
    assert spa.report()["fallback_episodes"] == 3.0


def test_labels_that_do_not_differ_teach_nothing_and_are_counted() -> None:
    spa = SPA()
    failures = [Group(make([]).task, [make(["a", "b"], index=i) for i in range(8)])]
    assert spa.warm_up(failures, NONE)["fit/skipped"] == 1.0
    assert spa.feedback(failures, NONE, 0)["fit/skipped"] == 2.0
    np.testing.assert_array_equal(paid(spa, won(2))[0], [0, 1])
    assert spa.report()["fallback"] == 1.0


def test_refits_come_when_due_and_the_estimator_is_frozen_in_between() -> None:
    spa = SPA(refit_every=2, fit={"epochs": 2})
    spa.warm_up(chain(12), NONE)
    before = paid(spa, won(4))[0]
    assert spa.feedback(chain(4, seed=1), NONE, 0) == {}
    np.testing.assert_array_equal(paid(spa, won(4))[0], before)
    assert spa.feedback(chain(4, seed=2), NONE, 1)["fit/epochs"] == 2.0
    assert (paid(spa, won(4))[0] != before).any()


def test_a_resumed_run_goes_on_to_the_same_bits() -> None:
    def lived(stop: bool) -> tuple[Array, dict[str, float]]:
        spa = SPA(refit_every=1, fit={"epochs": 2}, capacity=40)
        spa.warm_up(chain(10), NONE)
        if stop:
            state, spa = spa.state_dict(), SPA(refit_every=1, fit={"epochs": 2}, capacity=40)
            spa.load_state_dict(state)
        metrics = spa.feedback(chain(4, seed=1), NONE, 0)
        return paid(spa, won(4))[0], metrics

    (straight, metrics), (resumed, again) = lived(False), lived(True)
    np.testing.assert_array_equal(straight, resumed)
    assert metrics == again


def test_the_pipeline_pays_credit_in_place_of_the_outcome(spread_fit: SPA) -> None:
    groups = chain(3, seed=4)
    pipeline = CreditPipeline([spread_fit], "discounted_return", {"gamma": 1.0, "baseline": "none"})
    result = pipeline.run(groups)
    assert pipeline.paid == {"spa": 1.0}
    np.testing.assert_allclose(result.advantages[0][0], returns_to_go(component(groups[0].episodes[0], "spa"), 1.0))
    assert result.metrics["credit/spa/fallback"] == 0.0
    assert "credit/spa/spearman" in result.metrics


def test_credit_besides_the_outcome_is_paid_with_its_weight() -> None:
    pipeline = CreditPipeline([{"spa": {"sum_preserving": False, "weight": 0.3}}], "discounted_return")
    assert pipeline.paid == {"outcome": 1.0, "spa": 0.3}


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"sum_preserving": False}, "weight"),
        ({"sum_preserving": True}, "residual"),
        ({"residual": "even"}, "'even'"),
        ({"labels": "score"}, "'score'"),
        ({"spread": -1}, "spread"),
        ({"beta": float("nan")}, "beta"),
        ({"refit_every": 0}, "refit_every"),
        ({"trunk": "word"}, "'words'"),
        ({"trunk": {"words": {"hidde": 3}}}, "hidde"),
        ({"fit": {"epoch": 3}}, "'epochs'"),
        ({"capacity": 0}, "capacity"),
    ],
)
def test_wrong_options_are_refused_by_name(options: dict[str, Any], word: str) -> None:
    with pytest.raises(AgentGymError, match=word):
        SPA(**options)


@pytest.mark.parametrize(
    ("credit", "estimator"),
    [(["outcome", "spa"], "discounted_return"), ([{"spa": {"residual": "last"}}], "grpo")],
)
def test_combinations_that_count_twice_or_cancel_are_refused(credit: list[Any], estimator: str) -> None:
    with pytest.raises(ConfigError, match="combination"):
        CreditPipeline(credit, estimator)


def test_an_outcome_that_is_not_finite_is_refused_with_its_place() -> None:
    bad = make(["a"])
    bad.outcome = float("nan")
    with pytest.raises(CreditError, match="fake task 't' episode 0"):
        paid(SPA(), bad)


@settings(max_examples=5)
@given(st.sampled_from(list(Termination)))
def test_failed_episodes_are_not_remembered(ended: Termination) -> None:
    spa = SPA()
    spa.remember([Group(make([]).task, [make(["a"], termination=ended), make([], index=1)])], NONE)
    assert len(spa.model.buffer) == (not ended.is_failure)
