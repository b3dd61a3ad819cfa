"""The pitfalls of credit-methods.md section 3 (numbers in the names) and pitfalls.md section 4 (``report``)."""

# Where each pitfall is tested. No file: here. ``properties``: tests/credit/test_properties.py, for every registered
# module and estimator. Tests elsewhere are named by file, below tests/.
#
#  1 borders of turns       policies/test_rendering: append_only_templates_give_one_row_that_is_the_conversation,
#                           text_the_template_adds_has_mask_0, an_end_token_that_was_not_drawn_is_added_with_mask_0
#  2 history edited         policies/test_rendering: rows_stay_exact_where_the_template_rewrites_history,
#                           a_template_that_drops_thinking_splits_rows_and_loses_none; test_tokens:
#                           changed_prefix_opens_a_row (prefix_breaks is counted); 12_and_report_38
#  3 tokenised twice        policies/test_rendering: ids_are_never_encoded_again; rollouts/test_episode:
#                           sampler_ids_are_kept_and_rows_split_pitfall_22_23_24_26
#  4 sampler and trainer    trainers/local/test_trainer: recomputed_logprobs_are_the_sampled_ones; test_parts:
#                           trainer_logprobs_weigh_by_the_truncated_ratio (gap logged, ratio cut at 2)
#  5 top_p, top_k           5_inexact_sampling; trainers/local/test_trainer: what_cannot_be_trained_exactly_is_refused
#  6 temperature            trainers/local/test_parts: the_first_ratio_is_one_at_the_sampling_temperature
#  7 empty turns            7_an_empty_last_turn, 7_rewards_are_placed_whole; test_estimators:
#                           a_truncated_last_turn_without_tokens_loses_no_reward; test_gae:
#                           a_turn_without_tokens_hands_its_reward_on
#  8 observation tokens     8_and_12; properties: ..._touches_no_observation
#  9 padding without end    trainers/local/test_batch: padding_is_right_and_never_read; test_loss:
#                           tokens_after_a_row_change_nothing; rollouts/test_episode: truncated_response...
# 10 padding is an end id   trainers/local/test_batch: a_row_full_of_the_padding_id_is_kept
# 11 return cut by masks    11_an_outcome_at_the_end_reaches_every_turn (every estimator)
# 12 broadcast              8_and_12, 12_and_report_38; test_pipeline:
#                           advantages_are_finite_aligned_and_projected_to_sampled_tokens_only
# 13 ends guessed           13_turns_come_from_the_record
# 14 discounted tokens      14_an_inserted_observation; properties: an_inserted_observation_... (modules, estimators)
# 15 token index            15_ragged_groups
# 16 long episodes          16_and_report_39, rloo_by_turn_still_leaves_the_whole_episode_out
# 17 group ids              17_one_group_per_episode_is_refused
# 18 different prompts      18_and_reports_36_37_43, 18_turns_from_different_states; test_step_groups:
#                           states_of_two_tasks_are_never_the_same; retro/test_retro:
#                           half_of_a_group_can_have_its_own_statistics
# 19 order                  19_order; properties: ..._does_not_see_the_order_of_a_batch
# 20 std 0                  20_a_constant_group, 20_success_sooner; properties: a_constant_group_is_exactly_zero;
#                           trainers/local/test_parts: dead_groups_and_failed_episodes_train_nothing_and_are_counted,
#                           rows_without_advantage_change_nothing, resampling_replaces_dead_groups
# 21 group of one           21_a_group_of_one; properties: a_group_of_one_is_exactly_zero, ..._with_any_module
# 22 rows copied to fit     trainers/local/test_loss: order_of_rows_and_weightless_rows_change_nothing; test_batch:
#                           weightless_and_empty_rows_count_nowhere, split_holds_every_row_once_within_limits
# 23 truncated, terminated  23_and_26, 23_each_end_is_kept_apart; rollouts/test_episode: one test an ending
# 24 ghost turns            rollouts/test_episode: truncated_response_is_its_own_end_pitfall_32_35 (no more requests)
# 25 cap of a turn or row   rollouts/test_episode: episode_limit_goes_to_the_policy_before_each_call_pitfall_32,
#                           finished_episode_is_never_checked_pitfall_32; trainers/local/test_batch:
#                           too_long_rows_are_counted_and_refused
# 26 truncation masked      23_and_26
# 27 environment failures   27_and_reports_40_41; properties (failed episodes get zeros)
# 28 format farmed          28_well_formed_turns_cannot_be_farmed
# 29 dense up, outcome down trainers/local/test_alarm.py; 29_collecting_progress_does_not_beat_solving,
#    29_dense_and_outcome_are_logged_apart;
#                           test_gated: completion_and_outcome_are_reported_apart.
# 30 stalling, giving up    30_a_capped_penalty, 30_neither_stalling_nor_giving_up_pays
# 31 judge sees the outcome properties: 31_no_model_is_shown_the_gold_or_the_outcome; test_milestones, test_tournament:
#                           the_judge_is_shown_no_gold_no_outcome_and_no_thoughts; retro/test_models:
#                           the_outcome_is_not_in_the_question
# 32 evaluation writes      32_prompts_of_an_evaluation_change_nothing; retro/test_retro:
#                           evaluation_shows_three_in_every_slot_and_changes_nothing; retro/test_storage:
#                           reading_and_freezing_leave_every_byte
# 33 history by text        retro/test_retro: equal_texts_of_different_tasks_are_kept_apart
# 34 normalised twice       34_and_report_42; test_step_groups: a_second_normaliser_is_refused
# 35 changed afterwards     35_every_paid_component; properties: 35_the_record_alone_gives_the_advantages...
# 36 signs and weights      36_components_are_named_weighted_and_logged_apart, 36_a_penalty_is_negative_whatever...
#
# Bad input: NaN or infinite reward (bad_numbers_..., test_pipeline: nan_rewards_are_named), empty turn (7), group of
# one (21), truncated last turn (7, 23), no milestones (test_milestones: without_milestones_the_component_is_zero_and_
# counted; test_mira: successes_without_milestones_are_counted_and_not_fitted), a judge that fails or talks nonsense
# (properties: a_model_that_fails_or_talks_nonsense_is_counted_and_never_stops_a_run) or times out (test_judge:
# what_cannot_be_answered_is_one_error_and_is_not_kept; retro/test_models: a_judge_that_fails_costs_one_reflection),
# a damaged memory (retro/test_storage: a_damaged_file_is_set_aside_and_counted, a_damaged_row_is_passed_over_and_
# counted) or cache (test_judge: a_damaged_cache_is_set_aside_with_a_note), constant labels (test_spa:
# labels_that_do_not_differ_teach_nothing_and_are_counted).

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable

import numpy as np
import pytest
from credit_cases import ESTIMATES, MODULES, Move, Play, made_estimator, made_part, needs, offered, settings_of
from credit_cases import build as build_plan

from agentgym.augment import PromptContext
from agentgym.config.recipe import Recipe
from agentgym.credit import CreditError, CreditPipeline, assign, components, empty_turns, project, turn_rewards
from agentgym.credit.numerics import returns_to_go
from agentgym.credit.registry import ESTIMATORS as REGISTERED
from agentgym.credit.registry import REWARDERS
from agentgym.errors import ConfigError
from agentgym.tokens import TokenRow
from agentgym.types import Episode, Group, Observation, Task, Termination, Turn

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


@pytest.mark.parametrize(("name", "number"), settings_of(ESTIMATES, REGISTERED))
def test_11_an_outcome_at_the_end_reaches_every_turn(group: MakeGroup, name: str, number: int) -> None:
    estimator = made_estimator(name, number)
    pipeline = CreditPipeline(estimator=estimator, services=offered(needs(estimator)))
    found = []
    for outcomes in ([1, 0, 0], [0, 1, 0]):  # over a critic that knows nothing the outcome shows as a difference
        made = group(outcomes, [2, 2, 2])
        for turn in (turn for episode in made for turn in episode.turns):
            turn.state_key = turn.observation
        found.append(pipeline.run([made]).advantages[0][0])
    assert (found[0] != found[1]).all()


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


def test_18_turns_from_different_states_never_share_a_step_baseline(episode: MakeEpisode) -> None:
    """Turn 1 of each episode begins in a state of its own; only the group speaks about it."""
    task = Task("fake", "t")
    made = Group(task, [episode(task, 0, 1.0, 2), episode(task, 1, 0.0, 2)])
    for one in made:
        one.turns[0].state_key, one.turns[1].state_key = "start", f"only in {one.index}"
    plain, (steps,) = assign([made], std="none")[0], assign([made], estimator="gigpo")
    for (_, group_says), (first, second) in zip(plain, steps, strict=True):
        assert second == group_says
        assert first != group_says


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


def test_23_each_end_is_kept_apart() -> None:
    """What a limit cut is no end, and what failed is neither."""
    truncated = {t for t in Termination if t.is_truncation}
    failed = {t for t in Termination if t.is_failure}
    assert truncated == {Termination.MAX_TURNS, Termination.CONTEXT_LIMIT, Termination.RESPONSE_TRUNCATED}
    assert failed == {Termination.ENV_ERROR, Termination.ABORTED}
    ends = [t.value for t in Termination if not t.is_failure]
    groups = build_plan([[Play((Move(advance=True), Move()), 0.0, end) for end in ends]])
    CreditPipeline(["milestones"], "discounted_return").run(groups)
    taken_back = {e.termination for e in groups[0] if turn_rewards(e, ["milestone"]).sum() == 0}
    assert taken_back == set(Termination) - truncated - failed  # the potential stays where the episode was cut


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


COLLECTOR = Play(tuple(Move(t, advance=t < 2) for t in range(4)), 0.0, "env_done")  # two milestones, then the wrong end
SOLVER = Play((Move(0), Move(1), Move(2, advance=True)), 1.0, "env_done")


@pytest.mark.parametrize(
    "credit",
    [
        ["milestones"],  # shaping takes back at the end what it paid on the way
        [{"milestones": {"payment": "once"}}, "gated"],
        ["milestones", "gated"],
    ],
)
def test_29_collecting_progress_does_not_beat_solving(credit: list[object]) -> None:
    groups = build_plan([[COLLECTOR, SOLVER]])
    pipeline = CreditPipeline(credit, "discounted_return", {"gamma": 1.0})  # type: ignore[arg-type]
    pipeline.run(groups)
    collector, solver = (turn_rewards(e, list(pipeline.paid)).sum() for e in groups[0])
    assert collector == pytest.approx(0.0)
    assert solver >= 1.0
    ungated = build_plan([[COLLECTOR, SOLVER]])
    CreditPipeline([{"milestones": {"payment": "once"}}], "discounted_return").run(ungated)
    bare = [turn_rewards(e, ["outcome", "milestone"]).sum() for e in ungated[0]]
    assert bare == [2.0, 2.0]  # summed without a gate, collecting is as good as solving


def test_29_dense_and_outcome_are_logged_apart() -> None:
    result = CreditPipeline([{"milestones": {"payment": "once"}}], "discounted_return").run(
        build_plan([[COLLECTOR, COLLECTOR, SOLVER]])
    )
    assert result.metrics["credit/milestone/mean"] == pytest.approx(5 / 3)
    assert result.metrics["credit/outcome_mean"] == pytest.approx(1 / 3)
    assert result.metrics["credit/milestone/outcome_corr"] == pytest.approx(-1.0)  # the sign that something is wrong


def test_30_neither_stalling_nor_giving_up_pays() -> None:
    """With a capped penalty the staller, who keeps acting well, and the quitter, who stops at once, earn no more than
    the honest player, who is refused now and then and solves the task."""
    refused = Move(grounded=False)
    staller = Play((Move(),) * 30, 0.0, "max_turns")
    quitter = Play((Move(),), 0.0, "agent_stop")
    honest = Play((refused, Move(), refused, refused, Move()), 1.0, "env_done")
    struggling = Play((refused,) * 30, 0.0, "max_turns")
    groups = build_plan([[staller, quitter, honest, struggling]])
    pipeline = CreditPipeline([{"grounding_penalty": {"penalty": 0.1, "cap": 0.5}}], "discounted_return", {"gamma": 1})
    pipeline.run(groups)
    totals = [turn_rewards(e, list(pipeline.paid)).sum() for e in groups[0]]
    np.testing.assert_allclose(totals, [0.0, 0.0, 0.7, -0.5])  # 30 good turns earn nothing; 30 bad ones cost the cap
    bonus = [0.5 * sum(t.grounded for t in e.turns) + e.outcome for e in groups[0]]
    assert bonus[0] > bonus[2]  # the published bonus for executed actions, which pays for stalling


def test_30_a_capped_penalty_never_exceeds_the_cap(group: MakeGroup) -> None:
    made = group([0, 1], [9, 2], invalid=range(9))
    CreditPipeline([{"invalid_penalty": {"penalty": 0.1, "cap": 0.25}}]).run([made])
    paid = turn_rewards(made.episodes[0], ["invalid_penalty"])
    np.testing.assert_allclose(paid, [-0.1, -0.1, -0.05, *[0.0] * 6], atol=1e-15)
    assert turn_rewards(made.episodes[1], ["invalid_penalty"]).sum() == pytest.approx(-0.2)  # the cap is per episode


@pytest.mark.parametrize(("name", "number"), settings_of(MODULES, REWARDERS))
def test_32_prompts_of_an_evaluation_change_nothing(name: str, number: int) -> None:
    part = made_part(name, number)
    asked = getattr(part, "augment", None)
    assert (asked is not None) == (name in ("retro", "subgoal_hint")), "a new augmenter: say here that it is one"
    if asked is None:
        return
    assert not inspect.iscoroutinefunction(asked), "await it, with bound services"
    before = repr(part.state_dict()), dict(part.report())
    for slot in range(4):
        found = asked(PromptContext(Task("fake", "t"), slot, 4, (), Observation("a room"), ("found",), "eval"))
        if inspect.isawaitable(found):  # asks a judge, whose answers are cached and whose failures are counted
            found.close()
            return
    assert (repr(part.state_dict()), dict(part.report())) == before


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


@pytest.mark.parametrize("name", ["invalid_penalty", "grounding_penalty"])
def test_36_a_penalty_is_negative_whatever_its_option(name: str) -> None:
    bad = build_plan([[Play((Move(valid=False, grounded=False),), 0.0, "max_turns"), Play()]])
    CreditPipeline([{name: {"penalty": 0.3}}], "rloo").run(bad)
    assert turn_rewards(bad[0].episodes[0], [name]).tolist() == [-0.3]
    with pytest.raises(ConfigError, match="must be >= 0"):
        CreditPipeline([{name: {"penalty": -0.3}}], "rloo")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("where", ["outcome", "judge"])
def test_bad_numbers_are_refused_with_their_place_before_anything_is_estimated(
    group: MakeGroup, where: str, bad: float
) -> None:
    made = group([1, 0], [2, 3], name="pick up the mug")
    if where == "outcome":
        made.episodes[1].outcome = bad
    else:
        made.episodes[1].turns[2].rewards["judge"] = bad
    with pytest.raises(CreditError, match=rf"fake task 'pick up the mug' episode 1, turn 2: component '{where}' is"):
        CreditPipeline().run([made])


def test_a_batch_without_contrast_is_zero_and_said_to_be_so(group: MakeGroup) -> None:
    """Nothing is zeroed in silence: dead groups, groups of one and dropped episodes are numbers of the step."""
    result = CreditPipeline().run([group([1, 1], name="a"), group([1], name="b"), group([0, 1], name="c")])
    assert result.dead == [True, True, False]
    assert result.metrics["credit/dead_groups"] == pytest.approx(2 / 3)
    assert result.metrics["credit/singleton_groups"] == pytest.approx(1 / 3)
    assert result.metrics["credit/zero_advantage_turns"] == pytest.approx(6 / 10)


def test_7_rewards_are_placed_whole(episode: MakeEpisode) -> None:
    """What is placed on tokens is what the turns were given, once a token; empty turns hand theirs on by the return."""
    made = episode(Task("fake", "t"), 0, 1.0, 4, response_tokens=[1, 0, 3, 0])
    rewards = np.array([0.5, 0.25, 0.0, 1.0])
    to_go = returns_to_go(rewards, 1.0)
    (row,) = project(made, to_go)
    assert row.sum() == to_go[0] + 3 * to_go[2]
    assert row[made.rows[0].mask][0] == rewards.sum()  # the first token is answerable for all of it
