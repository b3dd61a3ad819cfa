"""Every estimator against a second implementation with loops, and the properties they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import credit_loops as loops
import numpy as np
import pytest
from credit_loops import Batch, Played, build
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.credit import CreditPipeline
from agentgym.credit.protocols import Ragged, Values
from agentgym.credit.registry import make_estimator

Loops = Callable[[Batch], list[list[list[float]]]]
EIGHTHS = st.integers(-24, 24).map(lambda n: n / 8)
ANCHORS = ["shelf", "shelf 1", "desk", "", " "]

#: estimator, options, the same with loops
CASES: list[tuple[str, dict[str, Any], Loops]] = [
    ("grpo", {}, lambda b: loops.grpo(b)),
    ("grpo", {"std": "sample"}, lambda b: loops.grpo(b, "sample")),
    ("grpo", {"std": "none", "group_weighting": "turn"}, lambda b: loops.grpo(b, "none", True)),
    ("grpo", {"group_weighting": "turn"}, lambda b: loops.grpo(b, "population", True)),
    ("rloo", {}, lambda b: loops.rloo(b)),
    ("rloo", {"dense_weight": 0.5}, lambda b: loops.rloo(b, a=0.5)),
    ("rloo", {"dense": "sum", "group_weighting": "turn"}, lambda b: loops.rloo(b, True, True)),
    ("discounted_return", {}, lambda b: loops.discounted(b, 0.95, "leave_one_out")),
    ("discounted_return", {"gamma": 0.5, "baseline": "mean"}, lambda b: loops.discounted(b, 0.5, "mean")),
    ("discounted_return", {"gamma": 0.9, "baseline": "none"}, lambda b: loops.discounted(b, 0.9, "none")),
    ("reinforce_pp", {}, lambda b: loops.reinforce_pp(b, 1.0, "none", "token")),
    ("reinforce_pp", {"gamma": 0.97, "weights": "turn"}, lambda b: loops.reinforce_pp(b, 0.97, "none", "turn")),
    (
        "reinforce_pp",
        {"baseline": "group", "weights": "trajectory"},
        lambda b: loops.reinforce_pp(b, 1.0, "group", "trajectory"),
    ),
    ("reinforce_pp", {"baseline": "group", "gamma": 0.9}, lambda b: loops.reinforce_pp(b, 0.9, "group", "token")),
    ("gigpo", {}, lambda b: loops.gigpo(b)),
    (
        "gigpo",
        {"gamma": 0.5, "omega": 2.0, "norm": "mean_std", "episode_std": "none", "first_visit": True},
        lambda b: loops.gigpo(b, 0.5, 2.0, "population", "none", True),
    ),
    (
        "gigpo",
        {"norm": "mean_std", "std": "sample", "similarity": 0.8},
        lambda b: loops.gigpo(b, 0.95, 1.0, "sample", "sample", False, 0.8),
    ),
    ("hgpo", {}, lambda b: loops.hgpo(b)),
    (
        "hgpo",
        {"history": 1, "weight_exponent": 2.0, "norm": "mean_std", "base_group": True, "gamma": 1.0},
        lambda b: loops.hgpo(b, 1.0, 1, 2.0, "population", True),
    ),
    ("igpo", {}, lambda b: loops.igpo(b, False)),
    ("igpo", {"norm": "joint", "gamma": 0.9, "ig_weight": 0.5}, lambda b: loops.igpo(b, True, 0.9, 0.5)),
]
IDS = [f"{name}-{'-'.join(str(v) for v in options.values())}" for name, options, _ in CASES]
RELATIVE = [case for case in CASES if case[0] != "reinforce_pp" and case[1].get("baseline") != "none"]
RELATIVE += [case for case in CASES if case[0] == "reinforce_pp" and case[1].get("baseline") == "group"]


@st.composite
def episodes(draw: st.DrawFn) -> Played:
    turns = draw(st.integers(0, 5))
    dense = [draw(EIGHTHS) if draw(st.booleans()) else 0.0 for _ in range(turns)]
    critic = [[draw(EIGHTHS) for _ in range(draw(st.integers(0, 3)))] for _ in range(turns)]
    return Played(
        dense,
        draw(EIGHTHS),
        [draw(st.sampled_from(ANCHORS)) for _ in range(turns)],
        critic,
        [draw(EIGHTHS) for _ in range(turns)],
        text_only=draw(st.integers(0, 4)) == 0,
        truncated=draw(st.booleans()),
    )


batches = st.lists(st.lists(episodes(), min_size=1, max_size=4), min_size=1, max_size=2)


def values(batch: Batch, scale: float = 1.0) -> Values:
    """What the pipeline would hand over: the outcome is paid on the last turn."""

    def ragged(read: Callable[[Played], list[float]]) -> Ragged:
        return [[scale * np.array(read(one), np.float64) for one in group] for group in batch]

    return Values(
        ragged(lambda one: one.total),
        ragged(lambda one: one.dense),
        [scale * np.array([one.outcome if one.turns else 0.0 for one in group], np.float64) for group in batch],
    )


def advantages(name: str, options: dict[str, Any], batch: Batch, scale: float = 1.0, gap: int = 2) -> Ragged:
    return make_estimator(name, options).compute(build(batch, gap), values(batch, scale))


def same(found: Ragged, expected: Any, what: str) -> None:
    assert [len(group) for group in found] == [len(group) for group in expected], what
    for group, wanted in zip(found, expected, strict=True):
        for a, want in zip(group, wanted, strict=True):
            assert a.dtype == np.float64
            np.testing.assert_allclose(a, want, rtol=1e-9, atol=1e-9, err_msg=what)


@settings(max_examples=40)
@given(batch=batches)
def test_an_independent_implementation_with_loops_agrees(batch: Batch) -> None:
    for name, options, slow in CASES:
        same(advantages(name, options, batch), slow(batch), f"{name} {options}")


@settings(max_examples=25)
@given(batch=batches, seed=st.integers(0, 99))
def test_order_of_groups_and_episodes_does_not_matter(batch: Batch, seed: int) -> None:
    rng = np.random.default_rng(seed)
    outer, inner = rng.permutation(len(batch)), [rng.permutation(len(group)) for group in batch]
    for name, options, _ in CASES:
        straight = advantages(name, options, batch)
        mixed = advantages(name, options, [[batch[g][i] for i in inner[g]] for g in outer])
        same(mixed, [[straight[g][i] for i in inner[g]] for g in outer], f"{name} {options}")


@settings(max_examples=15)
@given(batch=batches)
def test_longer_observations_change_nothing(batch: Batch) -> None:
    for name, options, _ in CASES:
        for a, b in zip(advantages(name, options, batch), advantages(name, options, batch, gap=40), strict=True):
            np.testing.assert_array_equal(np.concatenate(a), np.concatenate(b), f"{name} {options}")


@settings(max_examples=25)
@given(one=episodes())
def test_a_group_of_one_has_no_contrast(one: Played) -> None:
    others = [Played([0.0], 1.0, ["x"], [[0.0]]), Played([0.0], 0.0, ["x"], [[0.0]])]
    for name, options, _ in RELATIVE:
        ((alone,), _) = advantages(name, options, [[one], others])
        if name == "rloo" and options.get("dense") != "sum":  # its credit is centred within the episode
            want = options.get("dense_weight", 1.0) * (
                np.array(one.dense) - np.mean([0.0] * (not one.turns) + one.dense)
            )
            np.testing.assert_allclose(alone, want, atol=1e-12)
        else:
            assert not alone.any(), name


@settings(max_examples=25)
@given(outcome=st.sampled_from([0.0, 1.0, -7.3, 1e9 / 3]), turns=st.integers(1, 6), size=st.integers(1, 5))
def test_a_constant_group_is_exactly_zero(outcome: float, turns: int, size: int) -> None:
    for name, options, _ in CASES:
        if outcome and options.get("baseline") == "none" and name == "discounted_return":
            continue  # no baseline: a constant is paid
        estimator = make_estimator(name, options)
        discounts = getattr(getattr(estimator, "returns", estimator), "gamma", 1.0) < 1
        count = 1 if outcome and discounts else turns  # a discount tells the turns of an episode apart
        one = Played([0.0] * count, outcome, [f"place {t}" for t in range(count)], [[0.0]] * count)
        assert not np.concatenate(advantages(name, options, [[one] * size])[0]).any(), f"{name} {options}"


@pytest.mark.parametrize(("name", "options", "slow"), CASES, ids=IDS)
@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1e9, 1e150, 1e300])
def test_extreme_rewards_stay_finite(name: str, options: dict[str, Any], slow: Loops, scale: float) -> None:
    batch = [
        [
            Played([1.0, 0.0, -1.0], 1.0, ["a", "b", "a"], [[0.0]] * 3),
            Played([0.0, 0.5], -1.0, ["a", "a"], [[0.0]] * 2),
        ],
        [Played([1e-9], 1.0, ["a"], [[0.0]]), Played([], 0.0)],
    ]
    for group in advantages(name, options, batch, scale):
        for a in group:
            assert np.isfinite(a).all()


@pytest.mark.parametrize(("name", "options", "slow"), CASES, ids=IDS)
def test_noise_below_the_threshold_is_not_amplified(name: str, options: dict[str, Any], slow: Loops) -> None:
    """A spread of 1e-9 over a std of 1e-9 plus epsilon would be 1e-3; of rewards of 1e9, float noise would be .1."""
    if options.get("baseline") == "none" and name == "discounted_return":
        return
    for base, noise in ((0.25, 1e-9), (1e9, 2e-7)):
        batch = [[Played([0.0], base + noise * i, ["a"], [[0.0]]) for i in range(4)]]
        assert not np.concatenate(advantages(name, options, batch)[0]).any()


@pytest.mark.parametrize(("name", "options", "slow"), CASES, ids=IDS)
def test_no_turns_no_episodes_and_no_groups_are_no_work(name: str, options: dict[str, Any], slow: Loops) -> None:
    assert advantages(name, options, []) == []
    assert advantages(name, options, [[]]) == [[]]
    ((first, second),) = advantages(name, options, [[Played([]), Played([])]])
    assert len(first) == len(second) == 0


@pytest.mark.parametrize(("name", "options", "slow"), CASES, ids=IDS)
def test_a_truncated_last_turn_without_tokens_loses_no_reward(name: str, options: dict[str, Any], slow: Loops) -> None:
    """The last turn drew nothing: its reward reaches the turns before it, which have tokens."""
    cut = Played([0.0, 0.0, 0.0], -2.0, ["a", "b", "c"], [[0.0], [0.0], []], truncated=True)
    kept = Played([0.0, 0.0], 1.0, ["a", "b"], [[0.0], [0.0]])
    ((lost, won),) = advantages(name, options, [[cut, kept]])
    assert (lost[:2] < won).all()


@pytest.mark.parametrize(("name", "options", "slow"), CASES, ids=IDS)
def test_without_values_the_outcome_is_paid(name: str, options: dict[str, Any], slow: Loops) -> None:
    batch = [[Played([0.0] * n, r, ["a"] * n, [[0.0]] * n) for n, r in ((2, 1.0), (3, 0.0), (1, 1.0))]]
    same(make_estimator(name, options).compute(build(batch), None), slow(batch), name)


@pytest.mark.parametrize(("name", "options", "slow"), CASES, ids=IDS)
def test_the_pipeline_hands_over_the_same(name: str, options: dict[str, Any], slow: Loops) -> None:
    batch = [[Played([0.0] * n, r, ["a"] * n, [[0.0]] * n) for n, r in ((2, 1.0), (3, 0.0), (1, 0.5))]]
    same(CreditPipeline([], name, options).run(build(batch)).advantages, slow(batch), name)
