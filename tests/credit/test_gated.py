"""The gate: golden vectors open and closed, strictness, tiers, penalties, and what is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.credit import CreditPipeline, add_component, component
from agentgym.credit.gated import Gated
from agentgym.credit.protocols import Services
from agentgym.errors import ConfigError, UnknownNameError
from agentgym.types import Episode, Group, Task, Termination, Turn

TASK = Task("fake", "t")


class Steps:
    """A dense module: pays the same rewards in every episode under any name."""

    requires = frozenset[str]()

    def __init__(self, values: Sequence[float], name: str = "steps", weight: float = 1.0, traits: str = "") -> None:
        self.values, self.name, self.weight, self.traits = values, name, weight, frozenset(traits.split())

    async def apply(self, groups, svc, step):
        for group in groups:
            for episode in group:
                add_component(episode, self.name, self.values)


def episode(outcome=0.0, termination=Termination.ENV_DONE, *, index=0, success=False, turns=3, **info):
    record = [Turn(t, "o", "r", "a") for t in range(turns)]
    if record and info:
        record[-1].info.update(info)
    return Episode(TASK, index, index, record, termination, outcome, success)


def run(credit, *episodes, gamma=1.0):
    pipeline = CreditPipeline(credit, "discounted_return", {"gamma": gamma, "baseline": "none"})
    return pipeline.run([Group(TASK, list(episodes))])


@pytest.mark.parametrize(
    ("outcome", "steps", "to_go"), [(0.0, [0.1, 0.1, 0.1], [0.3, 0.2, 0.1]), (-0.5, [0, 0, 0], [-0.5, -0.5, -0.5])]
)
def test_golden_open_and_closed(outcome, steps, to_go):
    made = episode(outcome)
    result = run([Steps([0.1] * 3), {"gated": {"threshold": -0.5}}], made)
    np.testing.assert_allclose(component(made, "gated:steps"), steps, atol=1e-15)
    np.testing.assert_allclose(component(made, "steps"), [0.1] * 3)
    np.testing.assert_allclose(result.advantages[0][0], to_go, atol=1e-12)


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_open_means_strictly_above(outcome, threshold):
    made = episode(outcome)
    run([Steps([0.1] * 3), {"gated": {"threshold": threshold}}], made)
    assert component(made, "gated:steps").any() == (outcome > threshold)


def test_what_is_paid_and_the_default_threshold():
    pipeline = CreditPipeline([Steps([1.0] * 3, "a", 0.5), Steps([1.0] * 3, "b"), "gated"], "rloo")
    assert pipeline.paid == {"outcome": 1.0, "gated:a": 0.5, "gated:b": 1.0}
    pipeline = CreditPipeline([Steps([1.0] * 3, "a"), Steps([1.0] * 3, "b"), {"gated": {"components": ["b"]}}], "rloo")
    assert pipeline.paid == {"outcome": 1.0, "a": 1.0, "gated:b": 1.0}
    good, bad = episode(0.01), episode(0.0, index=1)
    run([Steps([0.1] * 3), "gated"], good, bad)
    assert component(good, "gated:steps").any()
    assert not component(bad, "gated:steps").any()


def test_penalties_pass_a_closed_gate_unless_told_otherwise():
    mixed = [0.1, -0.2, 0.0]
    for options, expected in [({}, [0, -0.2, 0]), ({"gate_penalties": True}, [0, 0, 0])]:
        made = episode(0.0)
        run([Steps(mixed), {"gated": options}], made)
        np.testing.assert_array_equal(component(made, "gated:steps"), expected)
    made = episode(0.0)
    run([Steps(mixed, weight=-1.0), "gated"], made)  # under a negative weight the positive values cost
    np.testing.assert_array_equal(component(made, "gated:steps"), [0.1, 0, 0])


@pytest.mark.parametrize("name", ["milestone", "spa", "info_gain", "shuffled:milestone", "delta:prm"])
def test_values_that_mean_something_together_are_gated_together(name):
    """The negative half of a telescoping sum is no penalty: left alone it would punish progress."""
    made = episode(0.0)
    run([Steps([0.5, 0.25, -0.75], name), "gated"], made)
    np.testing.assert_array_equal(component(made, f"gated:{name}"), [0, 0, 0])


TIERS = [
    {"name": "outcome", "level": "outcome", "threshold": 0.0, "components": ["outcome"]},
    {"name": "format", "level": "component:form", "threshold": 0.15, "components": ["form"]},
    {"name": "style", "components": ["style"]},
]


@pytest.mark.parametrize(
    ("outcome", "form", "pays"),
    [(1, 0.1, (True, True)), (1, 0.05, (True, False)), (0, 0.1, (False, False)), (0, 0.05, (False, False))],
)
def test_a_tier_counts_where_every_tier_above_is_open(outcome, form, pays):
    made = episode(outcome)
    pipeline = CreditPipeline(
        [Steps([form] * 3, "form"), Steps([0.01] * 3, "style"), {"gated": {"tiers": TIERS}}],
        "discounted_return", {"baseline": "none"},
    )  # fmt: skip
    result = pipeline.run([Group(TASK, [made])])
    assert (component(made, "gated:form").any(), component(made, "gated:style").any()) == pays
    assert result.metrics["credit/gated/open/format"] == pays[0]
    assert result.metrics["credit/gated/open/style"] == pays[1]
    assert component(made, "outcome").sum() == outcome


@pytest.mark.parametrize(
    ("made", "opens"),
    [
        (episode(success=True, outcome=1.0), True),
        (episode(patch="diff --git a b"), True),
        (episode(patch="diff", termination=Termination.AGENT_STOP), True),
        (episode(), True),
        (episode(patch=" \n"), False),
        (episode(patch="diff", termination=Termination.MAX_TURNS), False),
        (episode(patch="diff", termination=Termination.CONTEXT_LIMIT), False),
        (episode(patch="diff", termination=Termination.PARSE_FAILURE), False),
    ],
)
def test_software_levels_open_for_any_patch_that_is_not_empty(made, opens):
    for turn in made.turns:
        turn.rewards = {}
    run([Steps([0.1] * 3), {"gated": {"levels": "swe"}}], made)
    assert component(made, "gated:steps").any() == opens


def test_levels_by_how_an_episode_ended():
    levels = {"success": 1.0, "agent_stop": 0.0, "default": -1.0}
    part = {"gated": {"levels": levels, "threshold": -0.5}}
    for made, opens in [
        (episode(1.0, success=True), True),
        (episode(0.0), False),
        (episode(0.0, Termination.AGENT_STOP), True),
        (episode(0.0, Termination.MAX_TURNS), False),
    ]:
        run([Steps([0.1] * 3), part], made)
        assert component(made, "gated:steps").any() == opens


def test_failed_episodes_are_neither_open_nor_closed():
    made = [episode(1.0), episode(0.0, index=1), episode(0.0, Termination.ENV_ERROR, index=2)]
    result = run([Steps([0.1] * 3), "gated"], *made)
    assert result.metrics["credit/gated/open/dense"] == 0.5
    assert "gated:steps" not in made[2].turns[0].rewards
    part = Gated()
    part.plan({"outcome": 1.0, "steps": 1.0})
    asyncio.run(part.apply([Group(TASK, [made[2]])], Services(), 0))
    assert part.report() == {}


def test_completion_and_outcome_are_reported_apart():
    made = [episode(0.0), episode(-1.0, Termination.MAX_TURNS, index=1)]
    metrics = run([Steps([0.1] * 3, weight=2.0), {"gated": {"threshold": -0.5}}], *made).metrics
    assert metrics["credit/gated/open/dense"] == 0.5
    assert metrics["credit/gated/outcome"] == -0.5
    assert metrics["credit/gated/total"] == pytest.approx((0.6 + 0.0 - 1.0) / 2)


def test_a_redistributed_outcome_is_never_gated_away():
    """The stream that carries the outcome is closed: the outcome itself is paid, once."""
    for outcome in (0.5, -0.5):
        made = episode(outcome)
        spa = Steps(np.array([0.2, 0.5, 0.3]) * outcome, "spa", traits="redistributes_outcome")
        result = run([spa, {"gated": {"threshold": 0.0}}], made)
        expected = [0.5, 0.4, 0.15] if outcome > 0 else [-0.5] * 3
        np.testing.assert_allclose(result.advantages[0][0], expected, atol=1e-12)


def test_a_carrier_that_is_not_gated_keeps_carrying_the_outcome_alone():
    made = episode(-0.5)
    spa = Steps(np.array([0.2, 0.5, 0.3]) * -0.5, "spa", traits="redistributes_outcome")
    result = run([spa, Steps([0.1] * 3), {"gated": {"components": ["steps"]}}], made)
    np.testing.assert_allclose(result.advantages[0][0], [-0.5, -0.4, -0.15], atol=1e-12)


def test_a_closed_group_of_equal_outcomes_has_no_advantage():
    made = [episode(0.0, index=i) for i in range(3)]
    result = CreditPipeline([Steps([0.1] * 3), "gated"], "grpo").run([Group(TASK, made)])
    assert result.dead == [True]


def test_an_episode_without_turns_passes():
    made = episode(1.0, turns=0)
    run([Steps([]), "gated"], made)
    assert made.turns == []


def test_the_gate_warns_beside_truncation_masking():
    with pytest.warns(UserWarning, match="submit"):
        CreditPipeline([Steps([0.1] * 3), "gated"], "rloo", facts=["truncation_masking"])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"levels": "outcom"}, UnknownNameError, "'outcome'"),
        ({"levels": "component:"}, UnknownNameError, "component:NAME"),
        ({"levels": "component:steps"}, ConfigError, "finite threshold"),
        ({"levels": {"success": 1, "max_turn": 0}, "threshold": 0}, UnknownNameError, "'max_turns'"),
        ({"levels": {"success": 1, "max_turns": 0}, "threshold": 0}, ConfigError, "say nothing about env_done"),
        ({"levels": {"default": "high"}, "threshold": 0}, ConfigError, "option levels must be"),
        ({"threshold": float("nan")}, ConfigError, "threshold must be finite"),
        ({"tiers": TIERS, "threshold": 0.0}, ConfigError, "not both"),
        ({"tiers": TIERS[:1]}, ConfigError, "two tiers"),
        ({"tiers": [TIERS[0], TIERS[0]]}, ConfigError, "names of their own"),
        ({"tiers": [TIERS[2], TIERS[0]]}, ConfigError, "needs a level"),
        ({"tiers": [{**TIERS[0], "treshold": 1}, TIERS[2]]}, ConfigError, "did you mean 'threshold'"),
        ({"tiers": [{**TIERS[0], "components": "outcome"}, TIERS[2]]}, ConfigError, "list of names"),
        ({"tiers": [TIERS[0], {"name": "x", "components": ["outcome"]}]}, ConfigError, "one tier only"),
        ({"components": ["step"]}, UnknownNameError, "'steps'"),
    ],
)
def test_bad_options_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        CreditPipeline([Steps([0.1] * 3), {"gated": options}], "rloo")


def test_a_gate_over_nothing_is_refused():
    with pytest.raises(ConfigError, match="nothing to gate"):
        CreditPipeline(["gated"], "rloo")


def test_gated_milestones_end_to_end():
    """Progress that was not followed by success is not paid for."""
    good, bad = episode(1.0, success=True), episode(0.0, Termination.MAX_TURNS, index=1)
    for made in (good, bad):
        made.milestone_names = ("a", "b")
        for turn, names in zip(made.turns, [(), ("a",), ("a", "b")], strict=True):
            turn.milestones = names
    run(["milestones", "gated"], good, bad)
    np.testing.assert_array_equal(component(good, "gated:milestone"), [0, 0.5, -0.5])
    np.testing.assert_array_equal(component(bad, "gated:milestone"), [0, 0, 0])
    np.testing.assert_array_equal(component(bad, "milestone"), [0, 0.5, 0.5])
