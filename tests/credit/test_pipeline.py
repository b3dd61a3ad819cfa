"""The pipeline, the registry, the composition rules and the properties that hold for every estimator."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym
from agentgym.config.recipe import Recipe
from agentgym.credit import CreditError, CreditPipeline, add_component, assign, components, project, turn_rewards
from agentgym.credit.composition import RULES
from agentgym.credit.grpo import GRPO
from agentgym.credit.protocols import Ragged, Services, Values
from agentgym.credit.registry import ESTIMATORS, REWARDERS, make_estimator, make_part
from agentgym.errors import AgentGymError, ConfigError, UnknownNameError
from agentgym.types import Episode, Group, Task

MakeGroup = Callable[..., Group]
WEIGHTED = ["grpo", "rloo", "discounted_return", "gigpo", "hgpo"]  # the estimators with a group_weighting


class Bonus:
    """A turn rewarder of a user: 1 on every turn."""

    name = "bonus"

    def reset(self, task: Task) -> None:
        pass

    def score(self, record: Episode, turn: int) -> float:
        return 1.0


class Doubler:
    """A trajectory rewarder that replaces what is paid of ``bonus`` by twice as much."""

    name = "doubler"
    stage = "shape"
    requires: frozenset[str] = frozenset()

    def plan(self, paid: dict[str, float]) -> dict[str, float]:
        return {("doubled:bonus" if name == "bonus" else name): weight for name, weight in paid.items()}

    async def apply(self, groups: list[Group], svc: Services, step: int) -> None:
        await asyncio.sleep(0)
        for group in groups:
            for episode in group:
                add_component(episode, "doubled:bonus", 2 * turn_rewards(episode, ["bonus"]))


class NeedsScorer(Doubler):
    requires = frozenset({"scorer"})


class Redistributes(Bonus):
    name = "redistributed"
    traits = frozenset({"redistributes_outcome"})


class Telescopes(Bonus):
    traits = frozenset({"telescoping"})


def test_the_public_name_works_and_leaves_episodes_alone(group: MakeGroup) -> None:
    made = group([1, 0])
    made.episodes[0].turns[0].rewards["mine"] = 3.0
    first = agentgym.credit.assign([made], ["invalid_penalty"], estimator="rloo")
    second = agentgym.credit.assign([made], ["invalid_penalty"], estimator="rloo")
    np.testing.assert_array_equal(first[0][0], second[0][0])
    assert made.episodes[0].turns[0].rewards == {"mine": 3.0}
    CreditPipeline().run([made])  # a recorded outcome is computed anew
    np.testing.assert_array_equal(assign([made], estimator="rloo")[0][0], first[0][0])


def test_trajectory_rewarders_add_and_replace_in_order(group: MakeGroup) -> None:
    made = group([1, 0], [2, 3])
    pipeline = CreditPipeline([Doubler(), Bonus()], "discounted_return", {"gamma": 1.0, "baseline": "none"})
    assert pipeline.paid == {"outcome": 1.0, "doubled:bonus": 1.0}
    (advantages,) = pipeline.run([made]).advantages
    np.testing.assert_allclose(advantages[0], [2 + 2 + 1, 2 + 1])
    assert sorted(components([made])) == ["bonus", "doubled:bonus", "outcome"]


def test_the_pipeline_runs_inside_a_running_event_loop(group: MakeGroup) -> None:
    async def inside() -> list[list[np.ndarray]]:
        return CreditPipeline([Bonus(), Doubler()]).run([group([1, 0])]).advantages

    assert len(asyncio.run(inside())) == 1


def test_a_missing_service_is_named_at_start() -> None:
    with pytest.raises(ConfigError, match="'doubler' needs scorer"):
        CreditPipeline([Bonus(), NeedsScorer()])
    CreditPipeline([Bonus(), NeedsScorer()], services=Services({"scorer": object()}))


def test_a_redistributed_outcome_is_recorded_but_not_paid(group: MakeGroup) -> None:
    pipeline = CreditPipeline([Redistributes()], "rloo")
    assert pipeline.paid == {"redistributed": 1.0}
    made = group([1, 0])
    (advantages,) = pipeline.run([made]).advantages
    assert [a.tolist() for a in advantages] == [[1, 1], [-1, -1]]  # the contrast is still the outcome's
    assert "outcome" in components([made])
    with pytest.raises(ConfigError, match="pays it twice"):
        CreditPipeline([Redistributes(), "outcome"], "rloo")


def test_composition_rules_reject_what_cancels() -> None:
    with pytest.raises(ConfigError, match="has no effect"):
        CreditPipeline([Telescopes()], "grpo")
    with pytest.raises(ConfigError, match="has no effect"):
        CreditPipeline([Telescopes()], "rloo", {"dense": "sum"})
    CreditPipeline([Telescopes()], "rloo")
    with pytest.warns(UserWarning, match="nothing teaches the policy to submit"):
        CreditPipeline(facts=["gate", "truncation_masking"])
    assert all(rule.reason and rule.when for rule in RULES)


def test_recipes_and_their_short_forms() -> None:
    pipeline = CreditPipeline.from_recipe(
        Recipe.model_validate(
            {"rl": {"invalid_penalty": 0.1, "success_reward": 10}, "estimator": {"name": "rloo", "options": {}}}
        )
    )
    assert pipeline.paid == {"outcome": 1.0, "invalid_penalty": 1.0}
    both = Recipe.model_validate({"rl": {"invalid_penalty": 0.1}, "credit": ["invalid_penalty"]})
    with pytest.raises(ConfigError, match="keep one"):
        CreditPipeline.from_recipe(both)


def test_success_reward_pays_success_not_score(group: MakeGroup) -> None:
    made = group([1, 0.7])
    CreditPipeline([{"outcome": {"success_reward": 10}}]).run([made])
    assert [turn_rewards(e, ["outcome"]).sum() for e in made] == [10, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_part("outcom", {}), "Did you mean 'outcome'"),
        (lambda: make_estimator("gpro", {}), "Did you mean .*'grpo'"),
        (lambda: make_estimator("outcome", {}), "is of the kind credit module"),
        (lambda: make_estimator("grpo", {"sdt": "none"}), "Did you mean 'std'"),
        (lambda: make_estimator("grpo", {"std": "median"}), "must be one of population, sample, none"),
        (lambda: make_estimator("discounted_return", {"gamma": 2}), "gamma must be in"),
        (lambda: make_part("no_such_module:X", {}), "there is no module"),
        (lambda: make_part("agentgym.credit.grpo:GRPO", {}), "has neither reset/score"),
        (lambda: make_part("agentgym.credit.grpo:GPRO", {}), "Did you mean 'GRPO'"),
        (lambda: CreditPipeline(["outcome", "outcome"]), "twice"),
        (lambda: CreditPipeline([{"outcome": {}, "bonus": {}}]), "a credit entry is a name or"),
        (lambda: CreditPipeline(estimator=GRPO(), options={"std": "none"}), "go with an estimator's name"),
    ],
)
def test_mistakes_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises((ConfigError, UnknownNameError, AgentGymError), match=message):
        call()


#: options without which a module says nothing
NEEDED: dict[str, dict[str, object]] = {"named_rewards": {"weights": {"format": 0.05}}}


def test_every_built_in_name_loads() -> None:
    for name in REWARDERS:
        assert make_part(name, NEEDED.get(name, {}))
    for name in ESTIMATORS:
        assert make_estimator(name, {})
    assert make_estimator("agentgym.credit.grpo:GRPO", {"std": "none"})


def test_an_installed_package_can_add_an_estimator(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        name = "mine"

        def load(self) -> type:
            return GRPO

    monkeypatch.setattr("agentgym.credit.registry.entry_points", lambda group: [Point()])
    assert isinstance(make_estimator("mine", {"std": "none"}), GRPO)


def test_nan_rewards_are_named(group: MakeGroup) -> None:
    made = group([1, 0], [2, 3], name="pick up the mug")
    made.episodes[1].turns[2].rewards["judge"] = float("nan")
    with pytest.raises(CreditError, match=r"fake task 'pick up the mug' episode 1, turn 2: component 'judge' is nan"):
        CreditPipeline().run([made])


def test_projection_refuses_what_does_not_fit(group: MakeGroup) -> None:
    episode = group([1], [3]).episodes[0]
    with pytest.raises(CreditError, match=r"\(2,\) advantages for 3 turns"):
        project(episode, np.zeros(2))
    with pytest.raises(CreditError, match="turn 1: advantage is nan"):
        project(episode, np.array([0, np.nan, 0]))
    assert project(Episode(episode.task, 0, 0, [], "aborted"), np.zeros(0)) == []  # type: ignore[arg-type]


def test_absent_components_are_not_zero(group: MakeGroup) -> None:
    made = group([1], [2])
    made.episodes[0].turns[0].rewards["judge"] = 0.0
    assert np.isnan(components([made])["judge"][0][0]).tolist() == [False, True]
    with pytest.raises(UnknownNameError, match="Did you mean 'judge'"):
        turn_rewards(made.episodes[0], ["judg"])


def test_episodes_without_turns_count_as_failures_to_score(group: MakeGroup) -> None:
    (advantages,) = assign([group([1, 0, 0], [2, 0, 2])], estimator="rloo")
    assert len(advantages[1]) == 0
    assert advantages[0][0] == 1.0
    for estimator in WEIGHTED:
        for weighting in ("trajectory", "turn"):
            assign([group([1, 0, 0], [2, 0, 0])], estimator=estimator, group_weighting=weighting)
            assign([group([0, 0, 0], [0, 0, 0])], estimator=estimator, group_weighting=weighting)


def test_no_groups_is_no_work() -> None:
    result = CreditPipeline().run([])
    assert result.advantages == []
    assert result.metrics["credit/dead_groups"] == 0


@given(
    episodes=st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(0, 6)), min_size=1, max_size=6),
    estimator=st.sampled_from(WEIGHTED),
    weighting=st.sampled_from(["trajectory", "turn"]),
)
def test_advantages_are_finite_aligned_and_projected_to_sampled_tokens_only(
    group: MakeGroup, episodes: list[tuple[float, int]], estimator: str, weighting: str
) -> None:
    made = group([r for r, _ in episodes], [n for _, n in episodes], invalid=[1])
    (advantages,) = assign([made], ["invalid_penalty"], estimator=estimator, group_weighting=weighting)
    for episode, a in zip(made, advantages, strict=True):
        assert np.isfinite(a).all()
        for row, placed in zip(episode.rows, project(episode, a), strict=True):
            assert not placed[~row.mask].any()
            np.testing.assert_array_equal(placed[row.mask], a.astype(np.float32)[row.turns[row.mask]])


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=8), st.floats(-5, 5))
def test_a_shift_of_all_outcomes_changes_no_contrast(group: MakeGroup, outcomes: list[float], shift: float) -> None:
    for estimator in ("grpo", "rloo"):
        (a,) = assign([group(outcomes)], estimator=estimator, **({"std": "none"} if estimator == "grpo" else {}))
        (b,) = assign(
            [group([r + shift for r in outcomes])],
            estimator=estimator,
            **({"std": "none"} if estimator == "grpo" else {}),
        )
        np.testing.assert_allclose(np.concatenate(a), np.concatenate(b), atol=1e-7)
        assert abs(sum(x[0] for x in a)) < 1e-7


def test_importing_credit_and_statistics_loads_neither_torch_nor_scipy() -> None:
    code = "import sys, agentgym.credit, agentgym.statistics; print(sorted({'torch', 'scipy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"invalid_penalty": {"weight": float("nan")}}, "option weight must be finite, got nan"),
        ({"invalid_penalty": {"penalty": "abc"}}, "option penalty must be a number, got the text 'abc'"),
        ({"invalid_penalty": {"weight": None}}, "option weight must be a number, got None"),
        ({"spa": {"plain": "yes"}}, "option plain must be true or false, got the text 'yes'"),
        ({"spa": {"warmup_episodes": 2.5}}, "option warmup_episodes must be an integer, got 2.5"),
        ({"spa": {"fit": 3}}, "option fit must be"),
        ({"spa": 3}, "options are {name: value}, got 3"),
        ({"mira": {"fit": {"lr": float("nan")}}}, "option fit must be finite"),
        ({"retro": {"memory": "lessons.sqlite"}}, "option memory must be true or false or"),
        ({"retro": {"exclude_splits": "train"}}, "option exclude_splits must be"),
        ({"milestones": {"source": "rules", "rules": 3}}, "option rules must be"),
        ({"gated": {"components": "milestone"}}, "option components must be"),
        ({"os:path": {}}, "expected a class"),
        ({":": {}}, "expected module:Class"),
    ],
    ids=str,
)
def test_options_of_the_wrong_kind_are_named(spec: dict[str, object], message: str) -> None:
    with pytest.raises(AgentGymError, match=re.escape(message)):
        CreditPipeline([spec], "reinforce_pp")  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"gamma": "0.9"}, "option gamma must be a number"), ({"gamma": True}, "must be a number"), (3, "options are")],
)
def test_options_of_estimators_too(options: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_estimator("reinforce_pp", options)  # type: ignore[arg-type]


class Mistaken:
    """A module of a user with one mistake at a time."""

    name = "mistaken"
    requires: frozenset[str] = frozenset()

    def __init__(self, how: str = "") -> None:
        self.how = how
        if how == "weight":
            self.weight = None

    async def apply(self, groups: list[Group], svc: Services, step: int) -> None:
        if self.how == "apply":
            raise KeyError("speed")

    def report(self) -> dict[str, object]:
        return {"text": "fast"} if self.how == "report" else {}


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("apply", r"credit part 'mistaken' raised KeyError: 'speed' \(.*test_pipeline\.py:\d+\)"),
        ("report", "credit part 'mistaken' raised ValueError: could not convert string to float"),
        ("weight", "credit module 'mistaken': weight must be a finite number, got None"),
    ],
)
def test_a_users_mistake_names_the_module(group: MakeGroup, how: str, message: str) -> None:
    with pytest.raises(AgentGymError, match=message):
        CreditPipeline([Mistaken(how)]).run([group([1, 0])])


def test_an_estimator_must_answer_for_every_episode_and_no_more(group: MakeGroup) -> None:
    class Generous(GRPO):
        def compute(self, groups: list[Group], values: Values | None) -> Ragged:
            return [[*row, np.zeros(1)] for row in super().compute(groups, values)]

    class Silent(GRPO):
        def compute(self, groups: list[Group], values: Values | None) -> Ragged:
            return None  # type: ignore[return-value]

    with pytest.raises(CreditError, match=r"answered for \[3\] episodes in groups of \[2\]"):
        CreditPipeline([], Generous()).run([group([1, 0])])
    with pytest.raises(CreditError, match="answered for NoneType"):
        CreditPipeline([], Silent()).run([group([1, 0])])
