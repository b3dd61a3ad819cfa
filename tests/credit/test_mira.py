"""MiRA: potential labels, shaping, the potential critic, and the mixed advantage."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from learned_episodes import DEEDS, make

from agentgym.credit import CreditError, CreditPipeline, component
from agentgym.credit.learned import LearnedPart
from agentgym.credit.mira import PotentialCritic, completions, potential_labels
from agentgym.credit.mixed import MixedAdvantage
from agentgym.credit.numerics import returns_to_go
from agentgym.credit.protocols import Array, Services, Values
from agentgym.credit.shaping import shape
from agentgym.errors import AgentGymError, ConfigError
from agentgym.types import Episode, Group, Termination

NONE = Services()
P = np.array([0, 0.25, 0.25, 0.5, 1])
R = np.array([0.0, 0, 0, 1])
KEPT = np.array([0.25, 0, 0.25, 1.5])


def quest(reached: int, task: int, index: int = 0) -> Episode:
    """Deeds with a move before each; the milestones are the deeds."""
    actions = [a for deed in DEEDS[:reached] for a in ("go on", deed)] or ["go on"]
    sofar = [DEEDS[: (t + 1) // 2] for t in range(len(actions))]
    rooms = ["start", *(f"after {action} {t // 2}" for t, action in enumerate(actions))]
    return make(
        actions, task=f"q{task}", index=index, success=reached == 4, milestones=sofar, names=DEEDS, observations=rooms
    )


def quests(tasks: int, reached: tuple[int, ...] = (4, 4, 1, 2)) -> list[Group]:
    made = [[quest(n, task, i) for i, n in enumerate(reached)] for task in range(tasks)]
    return [Group(episodes[0].task, episodes) for episodes in made]


def shaped(part: PotentialCritic, *episodes: Episode) -> list[Array]:
    asyncio.run(part.apply([Group(episode.task, [episode]) for episode in episodes], NONE, 0))
    return [component(episode, "mira") for episode in episodes]


class Fixed:
    """Stands in for a fitted critic."""

    fitted, requires = True, frozenset[str]()

    def __init__(self, *potentials: Any) -> None:
        self.potentials = potentials

    def encode(self, episodes: list[Episode], svc: Services, keep: bool = False) -> list[Any]:
        return list(episodes)

    def predict(self, items: list[Any], svc: Services) -> list[Array]:
        return [np.array(p, np.float64) for p in self.potentials]


# ---- labels


def test_the_golden_labels() -> None:
    """0.6: T = 6, K = 3, done at 2, 3, 6."""
    labels = potential_labels(6, [2, 3, 6], 3, True)
    np.testing.assert_allclose(labels, [0, 0.1667, 0.3333, 0.6667, 0.7778, 0.8889, 1], atol=5e-5)


def test_labels_of_a_success_end_at_one_even_if_a_milestone_was_never_seen() -> None:
    np.testing.assert_allclose(potential_labels(4, [2], 2, True), [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(potential_labels(4, [4], 2, True), [0, 0.25, 0.5, 0.75, 1])


def test_milestones_that_were_there_at_the_start_count_at_the_start() -> None:
    np.testing.assert_allclose(potential_labels(2, [0, 2], 2, True), [0.5, 0.75, 1])


@pytest.mark.parametrize(("turns", "count", "success"), [(3, 2, False), (3, 0, True), (0, 2, True)])
def test_there_are_no_labels_for_failures_or_without_milestones(turns: int, count: int, success: bool) -> None:
    assert potential_labels(turns, [], count, success) is None


@given(st.integers(1, 30), st.lists(st.integers(0, 30), max_size=8), st.integers(1, 8))
def test_labels_rise_from_start_to_end(turns: int, done: list[int], count: int) -> None:
    labels = potential_labels(turns, [min(d, turns) for d in done], count, True)
    assert labels is not None
    assert labels.shape == (turns + 1,)
    assert labels[-1] == 1
    assert (np.diff(labels) >= -1e-12).all()
    assert labels[0] >= 0


def test_where_milestones_are_read() -> None:
    episode = quest(2, 0)
    assert completions(episode) == ([2, 4], 4)
    assert completions(episode, "judge") == ([], 0)
    episode.info["milestones:judge"] = ["a", "b"]
    episode.turns[1].info["milestones:judge"] = ["b"]
    episode.turns[3].info["milestones:judge"] = ["b", "other"]
    assert completions(episode, "judge") == ([2], 2)


# ---- shaping


def test_the_golden_shaping() -> None:
    """0.6: both treatments of the last potential."""
    np.testing.assert_allclose(shape(R, P, terminal="keep"), KEPT, atol=1e-12)
    np.testing.assert_allclose(returns_to_go(KEPT, 1.0), [2, 1.75, 1.75, 1.5], atol=1e-12)
    zero = shape(R, P, terminal="zero")
    np.testing.assert_allclose(zero, [0.25, 0, 0.25, 0.5], atol=1e-12)
    np.testing.assert_allclose(returns_to_go(zero, 1.0), [1, 0.75, 0.75, 0.5], atol=1e-12)
    assert P[-1] == 1, "the caller's potentials were written to"


@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=10),
    st.floats(0, 1),
    st.floats(-2, 2),
    st.data(),
)
def test_shaping_moves_the_return_by_a_potential_only(
    rewards: list[float], gamma: float, coef: float, data: Any
) -> None:
    """0.2: G'_t = G_t - P(s_t) + gamma^(T-t) P(s_T)."""
    turns = len(rewards)
    p = np.array(data.draw(st.lists(st.floats(0, 1), min_size=turns + 1, max_size=turns + 1)))
    r = np.array(rewards)
    found = returns_to_go(shape(r, p, gamma, coef, "keep"), gamma)
    left = gamma ** np.arange(turns, 0, -1.0) * p[-1]
    np.testing.assert_allclose(found, returns_to_go(r, gamma) + coef * (left - p[:-1]), atol=1e-9)


@pytest.mark.parametrize(
    ("potential", "terminal", "word"),
    [([0.0], "zero", "2 potentials"), ([0.0, np.nan], "keep", "finite"), ([0.0, 0.0], "none", "'none'")],
)
def test_shaping_refuses_what_does_not_fit(potential: list[float], terminal: Any, word: str) -> None:
    with pytest.raises(CreditError, match=word):
        shape(np.zeros(1), np.array(potential), terminal=terminal)


# ---- the potential critic


@pytest.mark.parametrize(
    ("ended", "options", "last"),
    [
        (Termination.ENV_DONE, {}, -0.5),
        (Termination.AGENT_STOP, {}, -0.5),
        (Termination.PARSE_FAILURE, {}, -0.5),
        (Termination.ENV_DONE, {"terminal_potential": "keep"}, 0.3),
        (Termination.MAX_TURNS, {}, 0.3),
        (Termination.CONTEXT_LIMIT, {"terminal_potential": "keep", "truncated": "zero"}, -0.5),
    ],
)
def test_the_last_potential_is_zero_at_true_ends_and_kept_at_cuts(
    ended: Termination, options: dict[str, Any], last: float
) -> None:
    part = PotentialCritic(**options)
    part.model = Fixed([0.0, 0.5, 0.8])  # type: ignore[assignment]
    (found,) = shaped(part, make(["a", "b"], termination=ended))
    np.testing.assert_allclose(found, [0.5, last], atol=1e-12)


def test_potentials_outside_the_unit_interval_are_clamped() -> None:
    part = PotentialCritic()
    part.model = Fixed([-3.0, 0.5, 7.0])  # type: ignore[assignment]
    np.testing.assert_allclose(shaped(part, make(["a", "b"]))[0], [0.5, 0.5])


def test_the_critic_learns_progress_from_successes() -> None:
    part = PotentialCritic(fit={"epochs": 60, "patience": 20})
    metrics = part.warm_up(quests(20), NONE)
    assert metrics["fit/buffer"] == 40
    (found,) = shaped(part, quest(4, 99))
    potential = np.concatenate([[0], np.cumsum(found[:-1])])
    assert potential[-1] > 0.6
    assert (np.diff(potential) > 0).mean() > 0.8
    assert part.report()["fallback"] == 0.0


def test_before_the_first_success_the_shaping_is_zero_and_that_is_said() -> None:
    part = PotentialCritic()
    part.feedback(quests(3, (0, 1, 2)), NONE, 0)
    found = shaped(part, quest(2, 0), make([]), make(["one"]))
    assert [len(f) for f in found] == [4, 0, 1]
    assert not np.concatenate(found).any()
    assert part.report() == {"fallback": 1.0, "fallback_episodes": 3.0, "no_milestones": 0.0}


def test_successes_without_milestones_are_counted_and_not_fitted() -> None:
    part = PotentialCritic()
    part.feedback([Group(make([]).task, [make(["a"], success=True)])], NONE, 0)
    assert part.report()["no_milestones"] == 1.0
    assert not part.model.fitted


def test_a_recipe_with_a_trajectory_sum_is_refused() -> None:
    with pytest.raises(ConfigError, match="telescoping"):
        CreditPipeline(["mira"], "grpo")


def test_critic_and_estimator_of_the_same_name_work_and_resume_together() -> None:
    def pipeline() -> CreditPipeline:
        options = {"fit": {"epochs": 2}, "refit_every": 1}
        return CreditPipeline([{"mira": options}], "mira", options)

    first, second = pipeline(), pipeline()
    first.parts.warm_up(quests(6))
    second.parts.load_state_dict(first.parts.state_dict())
    results = []
    for one in (first, second):
        metrics = one.parts.feedback(quests(3), 0)
        results.append((one.run(quests(2)).advantages, metrics))
    assert results[0][1] == results[1][1]
    for one, other in zip(results[0][0], results[1][0], strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_an_experts_episodes_teach_the_potential_and_not_the_value_of_the_policy() -> None:
    """Else every state that the expert passed is worth a success, and a policy that fails is driven away from it."""
    pipeline = CreditPipeline([{"mira": {"fit": {"epochs": 2}}}], "mira", {"fit": {"epochs": 2}})
    metrics = pipeline.parts.warm_up(quests(6), on_policy=False)
    potential, value = (part for _, part in pipeline.parts.named if isinstance(part, LearnedPart))
    assert (len(potential.model.buffer.samples) > 0, potential.model.fitted) == (True, True)
    assert (len(value.model.buffer.samples), value.model.fitted) == (0, False)
    assert not any(key.startswith("credit/mira.1/") for key in metrics)
    pipeline.parts.warm_up(quests(6))
    assert value.model.fitted


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"terminal_potential": "drop"}, "'drop'"),
        ({"truncated": ""}, "truncated"),
        ({"source": "env2"}, "source"),
        ({"gamma": 1.5}, "gamma"),
        ({"min_successes": 0}, "min_successes"),
        ({"warmup_episodes": -1}, "warmup_episodes"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        PotentialCritic(**options)


# ---- the mixed advantage


def valued(v: Any, total: Array = KEPT, outcome: float = 1.0) -> Values:
    return Values([[total]], [[total]], [np.array([outcome])], None if v is None else [[np.array(v)]])


def four(success: bool = True, **options: Any) -> list[Group]:
    episode = make(["a", "b", "c", "d"], success=success, **options)
    return [Group(episode.task, [episode])]


def test_the_golden_mixed_advantage() -> None:
    """0.6: keep-variant r', V = [.3, .4, .4, .6, 0], R_MC on the env reward only."""
    (found,) = MixedAdvantage().compute(four(), valued([0.3, 0.4, 0.4, 0.6]))
    np.testing.assert_allclose(found[0], [0.525, 0.300, 0.525, 0.650], atol=1e-12)


def test_a_shaped_monte_carlo_return() -> None:
    (found,) = MixedAdvantage(lam=0.0, mc="shaped").compute(four(), valued([0.0] * 4))
    np.testing.assert_allclose(found[0], [2, 1.75, 1.75, 1.5], atol=1e-12)


def test_gamma_discounts_both_parts() -> None:
    (found,) = MixedAdvantage(lam=0.5, gamma=0.5).compute(four(), valued([0.0, 0.0, 0.0, 0.8], R))
    np.testing.assert_allclose(found[0], [0.0625, 0.125, 0.25 + 0.2, 0.2], atol=1e-12)


def test_only_a_cut_episode_keeps_the_value_of_its_end_and_only_if_asked() -> None:
    v = [0.0, 0.0, 0.0, 0.0, 0.6]
    for bootstrap, ended, want in (
        (True, Termination.MAX_TURNS, 0.6),
        (True, Termination.ENV_DONE, 0.0),
        (False, Termination.MAX_TURNS, 0.0),
    ):
        estimator = MixedAdvantage(lam=1.0, bootstrap=bootstrap)
        (found,) = estimator.compute(four(False, termination=ended), valued(v, np.zeros(4), 0.0))
        assert found[0][-1] == want


def test_without_a_fit_the_value_is_the_mean_outcome_and_that_is_said() -> None:
    estimator = MixedAdvantage(lam=0.0)
    episodes = [make(["a", "b"], success=True), make(["a"], index=1), make([], index=2), make(["a"], index=3)]
    (found,) = estimator.compute([Group(episodes[0].task, episodes)], None)
    np.testing.assert_allclose(np.concatenate(found), [0.75, 0.75, -0.25, -0.25])
    assert estimator.report() == {"fallback": 1.0, "fallback_episodes": 4.0}


def test_the_value_learns_success_on_the_scale_of_the_outcome() -> None:
    estimator = MixedAdvantage(lam=0.0, fit={"epochs": 60, "patience": 20})
    groups = quests(20, (4, 4, 2, 2))
    for episode in (e for g in groups for e in g):
        episode.turns[-1].rewards["outcome"] = 10.0 * episode.success
    estimator.warm_up(groups, NONE)
    both = [quest(4, 77), quest(2, 77, 1)]
    ten = Values([[np.zeros(8), np.zeros(4)]], [[np.zeros(8), np.zeros(4)]], [np.array([10.0, 0.0])])
    (found,) = estimator.compute([Group(both[0].task, both)], ten)
    value = 10.0 - found[0]
    assert value[0] == pytest.approx(5, abs=1.5), "half of the episodes succeed"
    assert value[6] > 8, "only successes get this far"
    assert estimator.report()["fallback"] == 0.0


def test_the_trainers_critic_must_be_there_and_gets_targets() -> None:
    estimator = MixedAdvantage(critic="trainer", gamma=0.5)
    assert estimator.requires_critic
    assert estimator.warmup_episodes == 0
    with pytest.raises(ConfigError, match=r"values\.critic"):
        estimator.compute(four(), valued(None))
    groups = four()
    for turn in groups[0].episodes[0].turns[1:]:
        turn.row, turn.start, turn.end = 0, 2, 4
    (targets,) = estimator.targets(groups, valued([0.0] * 4))
    assert [t.tolist()[:1] for t in targets[0]] == [[], [0.25], [0.5], [1.0]]
    assert all(np.isnan(t[1:]).all() for t in targets[0])


@pytest.mark.parametrize("v", [[0.0] * 3, [0.0, 0.0, np.nan, 0.0]])
def test_values_that_do_not_fit_are_refused_with_their_place(v: list[float]) -> None:
    with pytest.raises(CreditError, match="fake task 't' episode 0"):
        MixedAdvantage().compute(four(), valued(v))


@pytest.mark.parametrize(
    "options", [{"lam": 2}, {"mc": "raw"}, {"critic": "own"}, {"critic": "trainer", "bootstrap": True}]
)
def test_wrong_options_of_the_estimator_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(AgentGymError, match="estimator 'mira'"):
        MixedAdvantage(**options)
