"""Delta, Clip, preference and attention: golden vectors of the reference, and how they are paid."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from agentgym.credit import CreditError, CreditPipeline, add_component, component
from agentgym.credit.attention import attention_redistribution
from agentgym.credit.numerics import returns_to_go
from agentgym.credit.transforms import Clip, Preference, clip, delta, preference
from agentgym.errors import ConfigError, UnknownNameError
from agentgym.types import Episode, Group, Task, Termination, Turn

SCORES = arrays(np.float64, st.integers(0, 8), elements=st.floats(-2, 2))


class Process:
    """Step scores by episode index."""

    name, requires, weight = "prm", frozenset[str](), 0.5

    def __init__(self, *scores):
        self.scores = scores

    async def apply(self, groups, svc, step):
        for group in groups:
            for episode in group:
                add_component(episode, "prm", self.scores[episode.index])


def groups(*lengths, task=None):
    task = task or Task("fake", "t", kind="kind")
    return [
        Group(task, [
            Episode(task, i, i, [Turn(t, "o", "r", "a") for t in range(n)], Termination.MAX_TURNS)
            for i, n in enumerate(lengths)
        ])
    ]  # fmt: skip


def run(credit, made):
    pipeline = CreditPipeline(credit, "discounted_return", {"gamma": 1.0, "baseline": "none"})
    return pipeline, pipeline.run(made)


def test_golden_vectors():
    np.testing.assert_allclose(delta(np.array([0.8, 0.9, 0.3])), [-0.1, 0.6, 0.3], atol=1e-12)
    np.testing.assert_allclose(clip(np.array([0.8, 0.9, 0.3]), 0.85), [-0.05, 0, -0.55], atol=1e-12)
    assert preference(1.2, np.array([0.5, 1.0, 2.0])) == pytest.approx(0.50935, abs=5e-6)
    np.testing.assert_allclose(attention_redistribution(1.0, np.array([0.5, 0.3, 0.2])), [0.25, 0.15, 0.6], atol=1e-12)


@given(SCORES)
def test_the_return_to_go_of_the_differences_is_the_score(scores):
    np.testing.assert_allclose(returns_to_go(delta(scores), 1.0), scores, atol=1e-9)


@given(SCORES, st.floats(-2, 2))
def test_clipping_never_pays_and_never_punishes_the_good(scores, eta):
    out = clip(scores, eta)
    assert (out <= 0).all()
    assert not out[scores >= eta].any()


@given(SCORES, SCORES, st.floats(0.1, 10))
def test_preference_is_bounded_and_its_reverse_is_its_complement(a, b, k):
    for score in a:
        value = preference(float(score), b, k)
        assert 0 <= value <= 1
        if len(b) == 1:
            assert value + preference(float(b[0]), np.array([score]), k) == pytest.approx(1)
    assert preference(1e9, np.array([-1e9])) == 1.0


@given(st.floats(-2, 2), arrays(np.float64, st.integers(1, 8), elements=st.floats(0, 5)), st.floats(0, 1))
def test_attention_credit_sums_to_the_outcome(outcome, attention, beta):
    assert attention_redistribution(outcome, attention, beta).sum() == pytest.approx(outcome, abs=1e-9)


def test_attention_that_says_nothing_leaves_the_outcome_at_the_end_and_bad_attention_is_refused():
    np.testing.assert_array_equal(attention_redistribution(1.0, np.zeros(3)), [0, 0, 1])
    assert len(attention_redistribution(1.0, np.zeros(0))) == 0
    for attention, beta in [([-0.1, 1], 0.5), ([np.nan, 1], 0.5), ([1, 1], 1.5)]:
        with pytest.raises(CreditError, match="attention credit"):
            attention_redistribution(1.0, np.array(attention), beta)


def test_delta_and_clip_replace_what_they_work_on():
    made = groups(3, 1)
    process = Process([0.8, 0.9, 0.3], [0.5])
    pipeline, result = run([process, {"clip": {"component": "prm", "eta": 0.85}}], made)
    assert pipeline.paid == {"outcome": 1.0, "clip:prm": 0.5}
    np.testing.assert_allclose(component(made[0].episodes[0], "clip:prm"), [-0.05, 0, -0.55], atol=1e-12)
    np.testing.assert_allclose(component(made[0].episodes[0], "prm"), [0.8, 0.9, 0.3])
    np.testing.assert_allclose(result.advantages[0][1], [0.5 * -0.35], atol=1e-12)
    assert result.metrics["credit/clip/eta"] == 0.85
    assert result.metrics["credit/clip/punished"] == 0.75
    assert result.metrics["credit/clip/turns"] == 2
    made = groups(3)
    pipeline, result = run([Process([0.8, 0.9, 0.3]), {"delta": {"component": "prm"}}], made)
    assert pipeline.paid == {"outcome": 1.0, "delta:prm": 0.5}
    np.testing.assert_allclose(result.advantages[0][0], [0.4, 0.45, 0.15], atol=1e-12)


def test_transforms_stack_in_the_order_of_the_recipe():
    made = groups(3)
    stack = [
        Process([0.8, 0.9, 0.3]),
        {"clip": {"component": "prm", "eta": 0.85}},
        {"delta": {"component": "clip:prm"}},
    ]
    pipeline, _ = run(stack, made)
    assert pipeline.paid == {"outcome": 1.0, "delta:clip:prm": 0.5}
    np.testing.assert_allclose(component(made[0].episodes[0], "delta:clip:prm"), [-0.05, 0.55, -0.55], atol=1e-12)


def test_the_bar_of_clip_is_the_batch_s_median_unless_given():
    made = groups(3, 2)
    _, result = run([Process([0.1, 0.2, 0.3], [0.4, 0.9]), {"clip": {"component": "prm"}}], made)
    assert result.metrics["credit/clip/eta"] == pytest.approx(0.3)
    np.testing.assert_allclose(component(made[0].episodes[0], "clip:prm"), [-0.2, -0.1, 0], atol=1e-12)
    run([Process([]), {"clip": {"component": "prm"}}], groups(0))


def test_preference_against_given_references():
    options = {"component": "prm", "references": [0.5, 1.0, 2.0]}
    made = groups(2)
    pipeline, _ = run([Process([0.7, 0.5]), {"preference": options}], made)
    assert pipeline.paid == {"outcome": 1.0, "preference:prm": 0.5}
    np.testing.assert_allclose(component(made[0].episodes[0], "preference:prm"), [0, 0.50935], atol=5e-6)
    made = groups(2)
    run([Process([0.7, 0.5]), {"preference": {**options, "most": 1}}], made)
    assert component(made[0].episodes[0], "preference:prm")[1] == pytest.approx(1 / (1 + np.exp(-0.7)))


def test_preference_by_task_and_within_the_group():
    for key in ("t", "kind"):
        made = groups(1)
        run([Process([1.2]), {"preference": {"component": "prm", "references": {key: [1.2]}}}], made)
        assert component(made[0].episodes[0], "preference:prm").tolist() == [0.5]
    made = groups(1, 1, 1)
    _, result = run([Process([0.0], [1.0], [1.0]), {"preference": {"component": "prm"}}], made)
    found = [component(e, "preference:prm")[0] for e in made[0]]
    sigmoid = 1 / (1 + np.exp(-1.0))
    np.testing.assert_allclose(found, [1 - sigmoid, (sigmoid + 0.5) / 2, (sigmoid + 0.5) / 2], atol=1e-12)
    assert result.metrics["credit/preference/episodes_without"] == 0
    made = groups(1)
    _, result = run([Process([3.0]), {"preference": {"component": "prm", "references": {"other": [1.0]}}}], made)
    assert component(made[0].episodes[0], "preference:prm").tolist() == [0.5]
    assert result.metrics["credit/preference/episodes_without"] == 1


def test_delta_needs_turn_advantages():
    with pytest.raises(ConfigError, match="telescoping"):
        CreditPipeline([Process([1.0]), {"delta": {"component": "prm"}}], "grpo")


@pytest.mark.parametrize(
    ("name", "options", "error", "words"),
    [
        ("delta", {"component": "prn"}, UnknownNameError, "'prm'"),
        ("clip", {"component": ""}, UnknownNameError, "unknown component of clip"),
        ("clip", {"component": "prm", "quantile": 2}, ConfigError, "quantile"),
        ("preference", {"component": "prm", "references": "groop"}, UnknownNameError, "'group'"),
        ("preference", {"component": "prm", "references": []}, ConfigError, "at least one"),
        ("preference", {"component": "prm", "references": {"t": [float("nan")]}}, ConfigError, "finite"),
        ("preference", {"component": "prm", "k": 0}, ConfigError, "k > 0"),
    ],
)
def test_bad_options_are_refused(name, options, error, words):
    with pytest.raises(error, match=words):
        CreditPipeline([Process([1.0]), {name: options}], "discounted_return")


def test_the_one_dense_component_need_not_be_named():
    paid = CreditPipeline([Process([1.0]), "clip", "preference"], "rloo").paid
    assert paid == {"outcome": 1.0, "preference:clip:prm": 0.5}
    for credit in (["clip"], [Process([1.0]), "invalid_penalty", "clip"]):
        with pytest.raises(ConfigError, match=r"component=NAME must say.*outcome"):
            CreditPipeline(credit, "rloo")


def test_differences_must_not_be_read_turn_by_turn():
    with pytest.raises(ConfigError, match="return_to_go"):
        CreditPipeline([Process([1.0]), "delta"], "rloo")


def test_objects_work_as_names_do():
    made = groups(2)
    run([Process([0.2, 0.4]), Clip("prm", eta=0.3), Preference("clip:prm", [0.0])], made)
    assert component(made[0].episodes[0], "preference:clip:prm")[1] == pytest.approx(1 / (1 + np.exp(0.1)))
