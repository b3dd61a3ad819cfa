"""GAE at its three levels, its targets, and what it does without tokens, at limits and without a critic."""

from __future__ import annotations

from typing import Any

import credit_loops as loops
import numpy as np
import pytest
from credit_loops import Batch, Played, build
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.credit import CreditError
from agentgym.credit.gae import GAE
from agentgym.credit.protocols import TokenRagged, Values
from agentgym.errors import ConfigError

EIGHTHS = st.integers(-24, 24).map(lambda n: n / 8)
LEVELS = ["turn", "token", "bilevel"]


@st.composite
def episodes(draw: st.DrawFn) -> Played:
    turns = draw(st.integers(0, 5))
    text_only = draw(st.integers(0, 4)) == 0
    return Played(
        [draw(EIGHTHS) for _ in range(turns)],
        draw(EIGHTHS),
        ["a"] * turns,
        [[draw(EIGHTHS) for _ in range(0 if text_only else draw(st.integers(0, 3)))] for _ in range(turns)],
        [draw(EIGHTHS) for _ in range(turns)],
        text_only=text_only,
        truncated=draw(st.booleans()),
    )


batches = st.lists(st.lists(episodes(), min_size=1, max_size=3), min_size=1, max_size=2)


def values(batch: Batch) -> Values:
    return Values(
        [[np.array(one.total) for one in group] for group in batch],
        [[np.array(one.dense) for one in group] for group in batch],
        [np.array([one.outcome for one in group]) for group in batch],
        [[np.array(one.begin) for one in group] for group in batch],
        [[[np.array(v) for v in one.critic] for one in group] for group in batch],
    )


def one(rewards: list[float], v: list[float], truncated: bool = False, **options: Any) -> list[float]:
    played = Played(rewards, 0.0, ["a"] * len(v), [[x] for x in v], v, truncated=truncated)
    estimator = GAE(**{"normalise": "none", **options})
    return estimator.compute(build([[played]]), values([[played]]))[0][0].tolist()


def test_turn_gae_of_the_reference() -> None:
    """0.6: gamma = lam = .95, r = [0,0,1], V = [.2,.3,.5] -> [.6502,.6262,.5]."""
    found = one([0, 0, 1], [0.2, 0.3, 0.5], gamma=0.95, lam=0.95)
    np.testing.assert_allclose(found, [0.6502, 0.6262, 0.5], atol=5e-5)


def test_defaults_are_those_of_the_docstring() -> None:
    found = one([0, 1], [0.5, 0.25])
    np.testing.assert_allclose(found, [0.99 * 0.25 - 0.5 + 0.99 * 0.95 * 0.75, 0.75])


def test_bootstrapping_at_a_limit() -> None:
    """V after the cut is taken to be V at the last turn's beginning: delta = 1 + .9 * .25 - .25."""
    assert one([1.0], [0.25], truncated=True, gamma=0.9, lam=1.0, bootstrap="last") == pytest.approx([0.975])
    assert one([1.0], [0.25], truncated=True, gamma=0.9, lam=1.0) == pytest.approx([0.75])
    assert one([1.0], [0.25], truncated=False, gamma=0.9, lam=1.0, bootstrap="last") == pytest.approx([0.75])


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=20)
@given(batch=batches, bootstrap=st.booleans(), normalise=st.sampled_from(["none", "batch"]))
def test_an_independent_implementation_with_loops_agrees(
    level: str, batch: Batch, bootstrap: bool, normalise: str
) -> None:
    turn, token = (0.9, 0.8), (0.95, 0.7)
    estimator = GAE(level, *turn, *token, "last" if bootstrap else "none", normalise)  # type: ignore[arg-type]
    groups, given_values = build(batch), values(batch)
    slow = [[loops.gae(x, level, turn, token, bootstrap) for x in group] for group in batch]
    targets = estimator.targets(groups, given_values)
    _check_targets(level, batch, slow, targets)
    if normalise == "batch":
        _whiten(level, batch, slow)
    found, tokens = estimator.compute(groups, given_values), estimator.compute_tokens(groups, given_values)
    for g, group in enumerate(batch):
        for i, x in enumerate(group):
            for t in range(x.turns):
                want = slow[g][i][t]
                np.testing.assert_allclose(found[g][i][t], np.mean(want) if want else 0.0, rtol=1e-9, atol=1e-9)
                each = want * x.tokens[t] if level == "turn" else want
                np.testing.assert_allclose(tokens[g][i][t], each, rtol=1e-9, atol=1e-9)


def _check_targets(level: str, batch: Batch, slow: list[Any], targets: TokenRagged) -> None:
    for group, rows, found in zip(batch, slow, targets, strict=True):
        for x, row, mine in zip(group, rows, found, strict=True):
            for t in range(x.turns):
                want = [a + v for a, v in zip(row[t], x.critic[t], strict=True)] if level != "turn" else []
                if level == "turn" and x.tokens[t]:
                    want = [row[t][0] + x.begin[t]] + [np.nan] * (x.tokens[t] - 1)
                np.testing.assert_allclose(mine[t], want, rtol=1e-9, atol=1e-9)


def _whiten(level: str, batch: Batch, slow: list[Any]) -> None:
    flat = [
        (a, max(x.tokens[t], 1) if level == "turn" else 1)
        for group, rows in zip(batch, slow, strict=True)
        for x, row in zip(group, rows, strict=True)
        for t in range(x.turns)
        for a in row[t]
    ]
    repeated = np.array([a for a, n in flat for _ in range(n)])
    constant = len(flat) < 2 or max(a for a, _ in flat) - min(a for a, _ in flat) < 1e-8
    for rows in slow:
        for row in rows:
            for t, turn in enumerate(row):
                row[t] = [0.0 if constant else (a - repeated.mean()) / (repeated.std() + 1e-6) for a in turn]


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=20)
@given(batch=batches)
def test_longer_observations_change_nothing(level: str, batch: Batch) -> None:
    a, b = (GAE(level).compute(build(batch, gap), values(batch)) for gap in (1, 30))  # type: ignore[arg-type]
    for left, right in zip(a, b, strict=True):
        np.testing.assert_array_equal(np.concatenate(left), np.concatenate(right))


@pytest.mark.parametrize("level", LEVELS)
def test_a_turn_without_tokens_hands_its_reward_on(level: str) -> None:
    """The middle turn's reward moves to the first turn; a first turn's to the second. Nothing is lost."""
    for rewards, tokens in (([0.0, 5.0, 1.0], [1, 0, 1]), ([5.0, 0.0, 1.0], [0, 1, 1])):
        critic = [[0.0] * n for n in tokens]
        played = Played(rewards, 0.0, ["a"] * 3, critic, [0.0, 0.0, 0.0])
        estimator = GAE(level, 1.0, 1.0, 1.0, 1.0, normalise="none")  # type: ignore[arg-type]
        found = estimator.compute(build([[played]]), values([[played]]))[0][0]
        assert found[np.array(tokens) > 0].tolist() == [6.0, 1.0]
        assert not found[np.array(tokens) == 0].any()


@pytest.mark.parametrize("level", LEVELS)
def test_a_constant_batch_is_exactly_zero(level: str) -> None:
    batch = [[Played([0.0], 0.3, ["a"], [[0.1]], [0.1]) for _ in range(3)]]
    assert not np.concatenate(GAE(level).compute(build(batch), values(batch))[0]).any()  # type: ignore[arg-type]


@pytest.mark.parametrize("level", LEVELS)
def test_whitening_over_the_batch_weighs_tokens(level: str) -> None:
    """Advantages 1 (three tokens) and 0 (one token): mean .75, std sqrt(.1875)."""
    batch = [[Played([1.0], 0.0, ["a"], [[0.0] * 3], [0.0])], [Played([0.0], 0.0, ["a"], [[0.0]], [0.0])]]
    (high,), (low,) = GAE(level).compute(build(batch), values(batch))  # type: ignore[arg-type]
    np.testing.assert_allclose([high[0], low[0]], np.array([0.25, -0.75]) / 0.1875**0.5, rtol=1e-5)


@pytest.mark.parametrize("level", LEVELS)
def test_extreme_rewards_stay_finite(level: str) -> None:
    batch = [[Played([1e300, 0.0], -1e300, ["a"] * 2, [[0.0], [0.5]], [0.0, 0.5]), Played([], 0.0)]]
    assert np.isfinite(np.concatenate(GAE(level).compute(build(batch), values(batch))[0])).all()  # type: ignore[arg-type]


def test_without_turn_values_the_first_tokens_value_is_the_turns() -> None:
    played = Played([0.0, 1.0], 0.0, ["a"] * 2, [[0.5, 9.0], [0.25, 9.0]], [0.5, 0.25])
    with_begin, without = values([[played]]), values([[played]])
    without.critic = None
    a, b = (GAE(normalise="none").compute(build([[played]]), v)[0][0] for v in (with_begin, without))
    np.testing.assert_array_equal(a, b)


def test_a_missing_or_wrong_critic_is_named() -> None:
    batch = [[Played([0.0, 1.0], 0.0, ["a"] * 2, [[0.5], [0.25]], [0.5, 0.25])]]
    none = values(batch)
    none.critic = none.tokens = None
    with pytest.raises(ConfigError, match=r"'gae' needs values\.critic.*use an estimator with a group baseline"):
        GAE().compute(build(batch), none)
    with pytest.raises(ConfigError, match="a value before each sampled token"):
        GAE("token").compute(build(batch), none)
    short = values(batch)
    short.tokens[0][0][1] = np.zeros(4)  # type: ignore[index]
    with pytest.raises(CreditError, match="fake task 't0' episode 0, turn 1: the critic gave 4 values for 1 sampled"):
        GAE("token").compute(build(batch), short)
    bad = values(batch)
    bad.critic[0][0][1] = np.nan  # type: ignore[index]
    with pytest.raises(CreditError, match="fake task 't0' episode 0, turn 1: the critic's value is nan"):
        GAE().compute(build(batch), bad)
    bad.critic[0][0] = np.zeros(3)  # type: ignore[index]
    with pytest.raises(CreditError, match="differ in shape"):
        GAE().compute(build(batch), bad)


def test_a_value_may_be_missing_where_no_token_was_drawn() -> None:
    played = Played([0.0, 1.0], 0.0, ["a"] * 2, [[0.5], []], [0.5, np.nan])
    assert GAE(normalise="none").compute(build([[played]]), values([[played]]))[0][0].tolist() == [0.5, 0.0]


def test_options_are_checked() -> None:
    assert GAE.requires_critic
    for options in ({"level": "step"}, {"bootstrap": "first"}, {"normalise": "group"}):
        with pytest.raises(ConfigError, match="must be one of"):
            GAE(**options)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"lam must be in \[0, 1\], got 1.5"):
        GAE(lam=1.5)
    assert GAE().traits == {"normalises"}
    assert not GAE(normalise="none").traits


def test_questions_about_one_batch_share_the_work_and_other_batches_get_their_own() -> None:
    def batch(reward: float) -> Batch:
        return [[Played([reward], 0.0, ["a"], [[0.5]], [0.5])]]

    estimator = GAE(normalise="none")
    groups, first = build(batch(1.0)), values(batch(1.0))
    assert estimator.compute(groups, first)[0][0].tolist() == [0.5]
    first.total[0][0][0] = 3.0
    assert estimator.compute(groups, first)[0][0].tolist() == [2.5]  # compute never answers from memory
    assert estimator.compute_tokens(groups, first)[0][0][0].tolist() == [2.5]
    assert estimator.targets(build(batch(2.0)), values(batch(2.0)))[0][0][0].tolist() == [2.0]
    assert estimator.targets(groups, first)[0][0][0].tolist() == [3.0]
    assert estimator._solved is None  # no batch is kept
