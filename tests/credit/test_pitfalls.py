"""The pitfalls of credit-methods.md section 3 (numbers in the names) and pitfalls.md section 4 (``report``)."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from agentgym.config.recipe import Recipe
from agentgym.credit import CreditError, CreditPipeline, assign, components, empty_turns, project, turn_rewards
from agentgym.errors import ConfigError
from agentgym.tokens import TokenRow
from agentgym.types import Episode, Group, Task, Termination, Turn

MakeGroup = Callable[..., Group]
MakeEpisode = Callable[..., Episode]
ESTIMATORS = ("grpo", "rloo", "discounted_return", "gigpo", "igpo")


def test_5_inexact_sampling_is_refused_at_start() -> None:
    with pytest.raises(ConfigError, match="top_p=1 and top_k off"):
        CreditPipeline(facts=["inexact_sampling"])
    CreditPipeline.from_recipe(Recipe())


def test_7_an_empty_last_turn_places_nothing_is_counted_and_loses_no_reward(episode: MakeEpisode) -> None:
    task = Task("fake", "t")
    made = Group(task, [episode(task, 0, 1.0, 3, response_tokens=[2, 2, 0]), episode(task, 1, 0.0, 3)])
    result = CreditPipeline(estimator="discounted_return", options={"gamma": 1.0}).run([made])
    assert empty_turns(made.episodes[0]) == 1
    assert result.metrics["credit/empty_turns"] == 1
    (row,) = project(made.episodes[0], result.advantages[0][0])
    assert row.sum() == 4  # the outcome on the empty turn reaches the four tokens before it
    assert turn_rewards(made.episodes[0], ["outcome"]).sum() == 1.0


def test_8_and_12_advantages_lie_on_sampled_tokens_only(episode: MakeEpisode) -> None:
    made = episode(Task("fake", "t"), 0, 1.0, 3, observation_tokens=3, response_tokens=[1, 2, 3])
    (row,) = project(made, np.array([5.0, 0.0, -1.0]))
    (tokens,) = made.rows
    assert row.dtype == np.float32
    assert not row[~tokens.mask].any()
    np.testing.assert_array_equal(row[tokens.mask], [5, 0, 0, -1, -1, -1])


def test_12_and_report_38_each_turn_keeps_its_own_row(episode: MakeEpisode) -> None:
    """Window layout: one row a turn; a turn's advantage lands in that turn's row."""

    def row(turn: int) -> TokenRow:
        turns = np.array([-1, turn, turn], np.int32)
        return TokenRow(np.zeros(3, np.int32), turns >= 0, np.zeros(3, np.float32), turns)

    turns = [Turn(t, "o", "r", "a", row=t, start=1, end=3) for t in range(3)]
    made = Episode(Task("fake", "t"), 0, 0, turns, Termination.MAX_TURNS, rows=[row(t) for t in range(3)])
    got = project(made, np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(got, [[0, 1, 1], [0, 2, 2], [0, 3, 3]])


@pytest.mark.parametrize("estimator", ["grpo", "rloo", "discounted_return", "reinforce_pp", "gigpo", "igpo"])
def test_11_an_outcome_at_the_end_reaches_every_turn(group: MakeGroup, estimator: str) -> None:
    (advantages,) = assign([group([1, 0], [2, 2])], estimator=estimator)
    assert all((a != 0).all() for a in advantages)


def test_13_turns_come_from_the_record_not_from_rewards_or_gaps(episode: MakeEpisode) -> None:
    """Adjacent turns without an observation between them, and turns without a reward."""
    made = episode(Task("fake", "t"), 0, 0.0, 3, observation_tokens=0)
    (row,) = project(made, np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(row[made.rows[0].mask], [1, 1, 2, 2, 3, 3])


@pytest.mark.parametrize("estimator", [*ESTIMATORS, "reinforce_pp"])
def test_14_an_inserted_observation_changes_nothing(group: MakeGroup, estimator: str) -> None:
    short, long = (group([1, 0, 1], [2, 4, 3], observation_tokens=n) for n in (1, 50))
    (a,), (b,) = assign([short], estimator=estimator), assign([long], estimator=estimator)
    for left, right, mine, other in zip(a, b, short, long, strict=True):
        np.testing.assert_array_equal(left, right)
        ((x,), (y,)) = project(mine, left), project(other, right)
        np.testing.assert_array_equal(x[mine.rows[0].mask], y[other.rows[0].mask])


def test_15_ragged_groups_use_no_token_or_turn_index(group: MakeGroup) -> None:
    """Turns 3..9 exist in one episode only; they share that episode's advantage."""
    (advantages,) = assign([group([1, 0], [3, 10])], estimator="rloo")
    np.testing.assert_array_equal(advantages[0], [1.0] * 3)
    np.testing.assert_array_equal(advantages[1], [-1.0] * 10)


def test_16_and_report_39_long_episodes_do_not_count_more(group: MakeGroup) -> None:
    made = group([1, 0], [2, 8])
    (even,) = assign([made], std="none")
    assert even[0][0] == pytest.approx(1 - 0.5)
    (by_turn,) = assign([made], std="none", group_weighting="turn")
    assert by_turn[0][0] == pytest.approx(1 - 0.2)


def test_rloo_by_turn_still_leaves_the_whole_episode_out(group: MakeGroup) -> None:
    (advantages,) = assign([group([1, 0, 0.5], [2, 8, 2])], estimator="rloo", group_weighting="turn")
    assert advantages[0][0] == pytest.approx(1 - (0 * 8 + 0.5 * 2) / 10)


def test_17_one_group_per_episode_is_refused(group: MakeGroup) -> None:
    singles = [group([1]), group([0])]  # the same task twice
    with pytest.raises(CreditError, match="hold one episode each"):
        assign(singles)
    result = CreditPipeline().run([group([1], name="a"), group([0], name="b")])
    assert result.metrics["credit/singleton_groups"] == 1
    assert result.metrics["credit/group_size_max"] == 1


def test_18_and_reports_36_37_43_groups_of_any_size_keep_their_own_mean(group: MakeGroup) -> None:
    a, b = group([1, 0, 0], name="a"), group([1, 1, 1, 0, 1], name="b")
    together = assign([a, b])
    np.testing.assert_array_equal(np.concatenate(together[0]), np.concatenate(assign([a])[0]))
    np.testing.assert_array_equal(np.concatenate(together[1]), np.concatenate(assign([b])[0]))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_19_order_of_episodes_and_groups_does_not_matter(group: MakeGroup, estimator: str) -> None:
    made = group([1, 0, 0.3, 1], [1, 5, 2, 4])
    (straight,) = assign([made], estimator=estimator)
    for order in itertools.permutations(range(4)):
        (got,) = assign([Group(made.task, [made.episodes[i] for i in order])], estimator=estimator)
        for place, i in enumerate(order):
            np.testing.assert_allclose(got[place], straight[i], atol=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("outcomes", [[0.0] * 4, [1.0] * 4, [0.3, 0.3 + 1e-9, 0.3, 0.3]])
def test_20_a_constant_group_is_exactly_zero_and_dead(group: MakeGroup, estimator: str, outcomes: list[float]) -> None:
    result = CreditPipeline(estimator=estimator).run([group(outcomes), group([1, 0], name="alive")])
    assert not any(a.any() for a in result.advantages[0])
    assert result.dead == [True, False]
    assert result.metrics["credit/dead_groups"] == 0.5  # report 45: the share is logged


def test_20_success_sooner_is_a_contrast_for_discounted_returns(group: MakeGroup) -> None:
    (advantages,) = assign([group([1, 1], [2, 6])], estimator="discounted_return", gamma=0.9)
    assert advantages[0].mean() > 0 > advantages[1].mean()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_21_a_group_of_one_gives_zero(group: MakeGroup, estimator: str) -> None:
    ((only,),) = assign([group([1])], estimator=estimator)
    assert not only.any()


@pytest.mark.parametrize("termination", [t for t in Termination if not t.is_failure and t is not Termination.ENV_DONE])
def test_23_and_26_truncated_episodes_stay_in_the_statistics(episode: MakeEpisode, termination: Termination) -> None:
    task = Task("fake", "t")
    made = Group(task, [episode(task, 0, 1.0, 2), episode(task, 1, 0.0, 2, termination=termination)])
    (advantages,) = assign([made], estimator="rloo")
    assert [float(a[0]) for a in advantages] == [1.0, -1.0]


@pytest.mark.parametrize("termination", [Termination.ENV_ERROR, Termination.ABORTED])
def test_27_and_reports_40_41_failed_episodes_get_zeros_and_move_no_baseline(
    episode: MakeEpisode, termination: Termination
) -> None:
    task = Task("fake", "t")
    failed = episode(task, 2, 0.0, 3, termination=termination)
    made = Group(task, [episode(task, 0, 1.0, 2), failed, episode(task, 1, 0.0, 2)])
    result = CreditPipeline(estimator="rloo").run([made])
    assert [a.tolist() for a in result.advantages[0]] == [[1, 1], [0, 0, 0], [-1, -1]]
    assert result.metrics["credit/dropped_episodes"] == 1
    assert "outcome" not in failed.turns[-1].rewards
    alone = Group(task, [episode(task, 0, 1.0, 2), failed])
    assert not any(a.any() for a in assign([alone])[0])  # fewer than two left: no contrast


def test_28_well_formed_turns_cannot_be_farmed(group: MakeGroup) -> None:
    farmer, honest = [0.0, 1.0], [30, 3]
    pipeline = CreditPipeline(["invalid_penalty"], "rloo", {"dense": "sum"})
    (advantages,) = pipeline.run([group(farmer, honest)]).advantages
    assert advantages[0].max() < advantages[1].min()


def test_30_a_capped_penalty_never_exceeds_the_cap(group: MakeGroup) -> None:
    made = group([0, 1], [9, 2], invalid=range(9))
    CreditPipeline([{"invalid_penalty": {"penalty": 0.1, "cap": 0.25}}]).run([made])
    paid = turn_rewards(made.episodes[0], ["invalid_penalty"])
    np.testing.assert_allclose(paid, [-0.1, -0.1, -0.05, *[0.0] * 6], atol=1e-15)
    assert turn_rewards(made.episodes[1], ["invalid_penalty"]).sum() == pytest.approx(-0.2)  # the cap is per episode


def test_34_and_report_42_a_second_normaliser_is_refused() -> None:
    with pytest.raises(ConfigError, match="exactly one normaliser"):
        CreditPipeline(facts=["batch_whitening"])
    CreditPipeline(estimator="rloo", facts=["batch_whitening"])


def test_35_every_paid_component_moves_the_advantage_and_none_is_overwritten(group: MakeGroup) -> None:
    made = group([1, 0], [2, 2])
    before = np.concatenate(assign([made], estimator="rloo")[0])
    made.episodes[0].turns[0].valid = False
    after = np.concatenate(assign([made], ["invalid_penalty"], estimator="rloo")[0])
    assert (before != after).any()
    CreditPipeline(["invalid_penalty"]).run([made])
    with pytest.raises(CreditError, match=r"turn 0: component 'outcome' exists already .* never overwritten"):
        CreditPipeline().run([made])


def test_36_components_are_named_weighted_and_logged_apart(group: MakeGroup) -> None:
    made = group([1, 0], [2, 2], invalid=[0])
    result = CreditPipeline([{"invalid_penalty": {"penalty": 0.2, "weight": 3.0}}, {"outcome": {"weight": 2.0}}]).run(
        [made]
    )
    found = components([made])
    np.testing.assert_allclose(found["invalid_penalty"][0][0], [-0.2, 0])  # recorded unweighted
    np.testing.assert_allclose(found["outcome"][0][0], [0, 1])
    assert result.metrics["credit/invalid_penalty/mean"] == pytest.approx(-0.2)
    assert result.metrics["credit/outcome/mean"] == 0.5
    assert result.metrics["credit/outcome/outcome_corr"] == pytest.approx(1.0)
    assert "credit/invalid_penalty/outcome_corr" not in result.metrics  # not defined, so not made up
