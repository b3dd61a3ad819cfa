"""Every way an episode can end, one by one. Numbers name the reports in docs/pitfalls."""

from __future__ import annotations

import asyncio
import random
import sys
from typing import Any

import numpy as np
import pytest
from fakes import Counter, ScriptedPolicy, SeededPolicy, sample, tasks_for

from agentgym import (
    ActionFormat,
    EpisodeStore,
    Observation,
    Policy,
    PromptLayout,
    SampledTurn,
    Sampling,
    Step,
    Task,
    Termination,
    load_policy,
    rollout,
)
from agentgym.errors import ContextOverflow, PolicyFault
from agentgym.policy import PolicyRequest
from agentgym.rollouts import Limits, RolloutConfig, make_handle, run_episode
from agentgym.seeding import derive_seed

TASK = tasks_for("fakes:Counter", 1)[0]


def play(policy, env=Counter, task=TASK, seed=0, index=0, options=None, **config):
    cfg = RolloutConfig(**config)
    episode = asyncio.run(run_episode(task, index, make_handle(env, options, cfg.limits), policy, cfg, seed))
    if hasattr(policy, "released"):
        assert len(policy.released) == 1, "the session must be released exactly once"
    for at, row in enumerate(episode.rows):  # 17: the mask counts what was sampled, nothing else
        assert row.mask.sum() == sum(t.end - t.start for t in episode.turns if t.row == at)
    return episode


def right(request):
    return f"<action>{request.messages[-1]['content'][-1]}</action>"


def test_env_done_success_is_the_environments_own():
    episode = play(ScriptedPolicy(right))
    assert (episode.termination, episode.success, episode.outcome) == (Termination.ENV_DONE, True, 1.0)
    assert episode.milestone_names == ("half", "end")
    assert [turn.milestones for turn in episode.turns] == [(), ("half",), ("half",), ("half", "end")]
    assert [turn.rewards for turn in episode.turns] == [{"env": 0.25}] * 4
    assert [turn.terminated for turn in episode.turns] == [False] * 3 + [True]
    first, second = episode.turns[:2]
    assert first.next_observation == second.observation
    assert first.state_key == "say " + first.observation[-1]
    assert first.admissible == ("0", "1", "2")
    assert first.info["at"] == 1


def test_done_without_won_is_no_success_pitfall_5_6_7():
    episode = play(ScriptedPolicy(lambda r: "<action>3</action>"))
    assert (episode.termination, episode.success, episode.outcome) == (Termination.ENV_DONE, False, 0.0)
    assert not any(turn.grounded for turn in episode.turns)
    assert all(turn.valid for turn in episode.turns)


def test_max_turns_is_no_success_pitfall_5():
    episode = play(ScriptedPolicy(right), limits=Limits(max_turns=3))
    assert (episode.termination, episode.success, len(episode.turns)) == (Termination.MAX_TURNS, False, 3)
    assert episode.termination.is_truncation


def test_default_turn_limit_is_the_environments():
    assert len(play(ScriptedPolicy(right), options={"length": 100}).turns) == Counter.spec.max_turns


def test_end_at_the_last_allowed_turn_is_the_environments_end():
    assert play(ScriptedPolicy(right), limits=Limits(max_turns=4)).success


def test_invalid_response_is_counted_and_its_tail_sent_pitfall_6():
    episode = play(ScriptedPolicy(lambda r: "x" * 50), limits=Limits(max_turns=1))
    (turn,) = episode.turns
    assert (turn.valid, turn.grounded, turn.action) == (False, False, "x" * 30)
    assert "no <action> tag" in turn.info["problem"]
    assert episode.invalid_actions == 1


def test_parse_failure_stops_without_a_step():
    episode = play(ScriptedPolicy(lambda r: "hm"), format=ActionFormat(on_invalid="stop"))
    assert episode.termination is Termination.PARSE_FAILURE
    (turn,) = episode.turns
    assert (turn.action, turn.valid, turn.next_observation, turn.rewards) == (None, False, "", {"env": 0.0})


@pytest.mark.parametrize("layout", ["chat", "window"])
def test_feedback_tells_the_policy_and_leaves_the_environment_alone(layout):
    policy = ScriptedPolicy(lambda r: "hm" if r.turn == 0 else right(r))
    episode = play(policy, format=ActionFormat(on_invalid="feedback"), layout=PromptLayout(layout))
    shown = policy.requests[1].messages[-1]["content"]
    assert "no <action> tag" in shown
    assert ("say" in shown) is (layout == "window")  # a window shows nothing else, a chat still shows it above
    assert episode.turns[0].next_observation == episode.turns[1].observation
    assert episode.turns[0].state_key == episode.turns[1].state_key
    assert episode.turns[1].admissible == ("0", "1", "2")
    assert not episode.turns[0].grounded


def test_truncated_response_is_its_own_end_pitfall_32_35():
    def answer(request):
        if request.turn == 1:
            turn = sample(request)
            turn.finish_reason = "length"
            return turn
        return sample(request)

    policy = ScriptedPolicy(answer)
    episode = play(policy)
    assert episode.termination is Termination.RESPONSE_TRUNCATED
    assert [turn.finish_reason for turn in episode.turns] == ["stop", "length"]
    last = episode.turns[-1]
    assert (last.next_observation, last.rewards) == ("", {"env": 0.0})  # the environment was not stepped
    assert last.end - last.start == 3  # what was sampled is kept, with the mask on it
    assert len(policy.requests) == 2  # no ghost turns


def test_context_overflow_keeps_earlier_turns_pitfall_33_34():
    def answer(request):
        if request.turn == 2:
            raise ContextOverflow("prompt 90 + 64 > window 128")
        return sample(request)

    episode = play(ScriptedPolicy(answer))
    assert episode.termination is Termination.CONTEXT_LIMIT
    assert len(episode.turns) == 2
    assert len(episode.rows) >= 1
    assert "turn 2" in episode.error
    assert "window 128" in episode.error


def test_episode_limit_goes_to_the_policy_before_each_call_pitfall_32():
    policy = ScriptedPolicy(sample)
    play(policy, limits=Limits(max_episode_tokens=777))
    assert {request.token_budget for request in policy.requests} == {777}


def test_finished_episode_is_never_checked_pitfall_32():
    # the last turn fills the limit exactly; the environment ends, and that is the end
    policy = ScriptedPolicy(lambda r: SampledTurn(right(r), prompt_tokens=100 + r.turn, completion_tokens=5))
    episode = play(policy, limits=Limits(max_episode_tokens=166), sampling=Sampling(max_tokens=64))
    assert episode.success
    shorter = play(
        ScriptedPolicy(policy.answer), limits=Limits(max_episode_tokens=165), sampling=Sampling(max_tokens=64)
    )
    assert (shorter.termination, len(shorter.turns)) == (Termination.CONTEXT_LIMIT, 3)


def test_policy_fault_aborts_with_its_text():
    def answer(request):
        raise PolicyFault("endpoint down after 5 tries")

    episode = play(ScriptedPolicy(answer))
    assert episode.termination is Termination.ABORTED
    assert "endpoint down" in episode.error
    assert "task 't0' episode 0, turn 0" in episode.error


def test_any_exception_of_a_policy_becomes_a_record_pitfall_49():
    def answer(request):
        raise KeyError("oops")

    assert "scripted' raised KeyError" in play(ScriptedPolicy(answer)).error


def test_policy_deadline():
    class Slow(SeededPolicy):
        async def act(self, request: PolicyRequest) -> SampledTurn:
            await asyncio.sleep(3600)
            raise AssertionError

    episode = play(Slow(), limits=Limits(policy_timeout=0.05))
    assert episode.termination is Termination.ABORTED
    assert "no response within 0.05 s" in episode.error


def test_nonfinite_logprob_is_the_policys_fault_pitfall_46():
    def answer(request):
        turn = sample(request)
        if request.turn == 1:
            turn.logprobs[1] = np.nan
        return turn

    episode = play(ScriptedPolicy(answer))
    assert episode.termination is Termination.ABORTED
    assert "turn 1" in episode.error
    assert len(episode.turns) == 1


def test_agent_stop():
    episode = play(ScriptedPolicy(lambda r: SampledTurn("done", info={"agent_stop": True})))
    assert (episode.termination, len(episode.turns)) == (Termination.AGENT_STOP, 1)


def test_environment_exception_is_a_record_and_makes_no_success_pitfall_41_49():
    class Cracks(Counter):
        def step(self, action: str) -> Step:
            if self.at == 2:
                raise ValueError("no such door")
            return super().step(action)

    episode = play(SeededPolicy(), Cracks)
    assert episode.termination is Termination.ENV_ERROR
    assert episode.termination.is_failure
    assert "fakes:Counter task 't0' episode 0, turn 2: step raised ValueError: no such door" in episode.error
    assert "Traceback" in episode.error
    assert len(episode.turns) == 3  # the response that met the failure was sampled
    assert sum(row.mask.sum() for row in episode.rows) == 9


@pytest.mark.parametrize("what", ["reset", "step"])
def test_wrong_return_type_names_the_method(what):
    class Wrong(Counter):
        pass

    setattr(Wrong, what, lambda self, argument: "a string")
    Wrong.__abstractmethods__ = frozenset()
    handle_task = Counter.reset

    if what == "step":
        Wrong.reset = handle_task
    error = play(SeededPolicy(), Wrong).error
    assert f"{what} returned str, expected {'Observation' if what == 'reset' else 'Step'}" in error


def test_score_wins_over_the_sum_of_rewards():
    class Scored(Counter):
        def step(self, action: str) -> Step:
            step = super().step(action)
            step.score = 0.125
            return step

    assert play(ScriptedPolicy(right), Scored).outcome == 0.125


def test_expert_is_asked_only_where_needed():
    policy = ScriptedPolicy(lambda r: f"<action>{r.expert}</action>", needs_expert=True)
    assert play(policy).success
    plain = ScriptedPolicy(right)
    play(plain)
    assert {request.expert for request in plain.requests} == {None}


def test_seeds_hang_on_task_and_index_only_pitfall_50():
    policy = ScriptedPolicy(right)
    episode = play(policy, seed=9, index=3)
    assert episode.seed == derive_seed(9, TASK.id, 3)
    assert [request.seed for request in policy.requests] == [derive_seed(episode.seed, t) for t in range(4)]
    assert len({request.session for request in policy.requests}) == 1


def test_sampler_ids_are_kept_and_rows_split_pitfall_22_23_24_26():
    chat = play(SeededPolicy(), layout=PromptLayout("chat"))
    # this policy's prompt does not begin with the ids it sampled, so each turn is a row of its own
    assert len(chat.rows) == len(chat.turns) == 4
    for turn in chat.turns:
        row = chat.rows[turn.row]
        request_ids = sample(
            PolicyRequest("", turn.index, [], Sampling(), ActionFormat(), derive_seed(chat.seed, turn.index))
        ).token_ids
        assert np.array_equal(row.ids[turn.start : turn.end], request_ids)
        assert row.mask[turn.start : turn.end].all()
        assert not row.mask[: turn.start].any()  # 19, 20: prompt and template have mask 0
    assert chat.info["prefix_breaks"] == 3


def test_append_only_conversation_is_one_row():
    known: list[int] = []

    def answer(request):
        prompt = np.asarray([*known, 7, 7], np.int32)
        known[:] = [*prompt.tolist(), 1, 2]
        return SampledTurn(
            right(request), "stop", prompt, np.asarray([1, 2], np.int32), np.asarray([-1, -2], np.float32)
        )

    episode = play(ScriptedPolicy(answer))
    (row,) = episode.rows
    assert row.turns.tolist() == [-1, -1, 0, 0, -1, -1, 1, 1, -1, -1, 2, 2, -1, -1, 3, 3]
    assert episode.turns[2].prompt_tokens == 10
    assert episode.turns[2].sampled_tokens == 2


def test_costs_of_remote_calls_are_kept():
    episode = play(ScriptedPolicy(lambda r: SampledTurn(right(r), prompt_tokens=9, completion_tokens=4, cost=0.5)))
    assert [(t.prompt_tokens, t.sampled_tokens, t.info["cost"], t.row) for t in episode.turns] == [(9, 4, 0.5, -1)] * 4


def test_global_generators_are_untouched():
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 - the point of the test
    before = (random.getstate(), np.random.get_state()[1].tolist())  # noqa: NPY002
    play(SeededPolicy())
    assert random.getstate() == before[0]
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002


def test_observation_without_admissible_stays_none():
    class Bare(Counter):
        def _observation(self) -> Observation:
            self.digit = 0
            return Observation("say 0")

    episode = play(ScriptedPolicy(right), Bare)
    assert {turn.admissible for turn in episode.turns} == {None}


@pytest.mark.parametrize(
    "bad", [{"max_turns": 0}, {"max_episode_tokens": 0}, {"step_timeout": 0}, {"policy_timeout": -1}]
)
def test_limits_are_validated(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Limits(**bad)


#: what an environment's step may answer wrongly -> words of the record
WRONG_STEPS = {
    "text reward": (lambda: Step(Observation("x"), reward="1"), "Step.reward must be a number"),
    "no reward": (lambda: Step(Observation("x"), reward=None), "Step.reward must be a number"),
    "rewards": (lambda: Step(Observation("x"), reward=np.ones(2)), "Step.reward must be a number"),
    "huge reward": (lambda: Step(Observation("x"), reward=10**400), "Step.reward must be a number"),
    "NaN score": (lambda: Step(Observation("x"), score=float("nan")), "Step.score must be finite"),
    "infinite score": (lambda: Step(Observation("x"), score=float("inf")), "Step.score must be finite"),
    "text flag": (lambda: Step(Observation("x"), terminated="yes"), "Step.terminated must be True or False"),
    "no flag": (lambda: Step(Observation("x"), grounded=None), "Step.grounded must be True or False"),
    "no milestones": (lambda: Step(Observation("x"), milestones=None), "Step.milestones must be"),
    "milestone numbers": (lambda: Step(Observation("x"), milestones=(1,)), "Step.milestones must be"),
    "milestone set": (lambda: Step(Observation("x"), milestones={"a"}), "Step.milestones must be"),
    "info list": (lambda: Step(Observation("x"), info=[1]), "Step.info must be a mapping"),
    "info object": (lambda: Step(Observation("x"), info={"x": object()}), "Step.info is not JSON-compatible"),
    "info key": (lambda: Step(Observation("x"), info={(1, 2): 3}), "Step.info is not JSON-compatible"),
    "text": (lambda: Step("text"), "Step.observation must be an Observation"),
    "admissible text": (lambda: Step(Observation("x", "abc")), "admissible must be a list"),
    "admissible numbers": (lambda: Step(Observation("x", [1])), "an admissible action that is not text"),
    "state key": (lambda: Step(Observation("x", state_key=5)), "state_key must be str"),
}


@pytest.mark.parametrize("case", WRONG_STEPS)
def test_wrong_step_is_a_record_that_can_be_stored(case: str, tmp_path: Any) -> None:
    answer, words = WRONG_STEPS[case]

    class Wrong(Counter):
        def step(self, action: str) -> Step:
            return answer()

    with EpisodeStore(tmp_path / "store") as store:
        (group,) = rollout(Wrong, load_policy("random"), tasks_for(Counter.spec.name, 1), store=store)
    (episode,) = group
    assert episode.termination is Termination.ENV_ERROR
    assert words in episode.error
    assert len(store) == 1


@pytest.mark.parametrize(("name", "value", "words"), [
    ("milestone_names", None, "milestone_names must be"),
    ("milestone_names", (1,), "milestone_names must be"),
    ("expert", lambda: 5, "expert returned int"),
])  # fmt: skip
def test_wrong_names_and_experts_are_records(name: str, value: Any, words: str) -> None:
    class Wrong(Counter):
        def reset(self, task: Task) -> Observation:
            observation = super().reset(task)
            setattr(self, name, value)
            return observation

    (group,) = rollout(Wrong, load_policy("expert"), tasks_for(Counter.spec.name, 1))
    assert group.episodes[0].termination is Termination.ENV_ERROR
    assert words in group.episodes[0].error


_OK = "<action>0</action>"


@pytest.mark.parametrize(("answer", "words"), [
    (lambda: None, "gave NoneType, expected SampledTurn"),
    (lambda: "0", "gave str, expected SampledTurn"),
    (lambda: SampledTurn(None), "text must be str"),
    (lambda: SampledTurn(_OK, info=None), "info must be a dict"),
    (lambda: SampledTurn(_OK, info={"x": object()}), "info is not JSON-compatible"),
    (lambda: SampledTurn(_OK, cost=float("nan")), "cost must be finite"),
    (lambda: SampledTurn(_OK, prompt_ids=[1], token_ids=[[2, 3]], logprobs=[[-1.0, -1.0]]), "row of integers"),
    (lambda: SampledTurn(_OK, prompt_ids=["a"], token_ids=[2], logprobs=[-1.0]), "row of integers"),
    (lambda: SampledTurn(_OK, prompt_ids=[1], token_ids=[1.5], logprobs=[-1.0]), "row of integers"),
    (lambda: SampledTurn(_OK, prompt_ids=[1], token_ids=[-2], logprobs=[-1.0]), "expected 0 to 2**31 - 1"),
    (lambda: SampledTurn(_OK, prompt_ids=[1], token_ids=[2**40], logprobs=[-1.0]), "expected 0 to 2**31 - 1"),
    (lambda: SampledTurn(_OK, prompt_ids=[1], token_ids=[2, 3], logprobs=[-1.0]), "one each"),
    (lambda: sys.exit(3), "raised SystemExit: 3"),
])  # fmt: skip
def test_wrong_answer_of_a_policy_is_a_record(answer: Any, words: str, tmp_path: Any) -> None:
    class Wrong(Policy):
        name = "wrong"

        async def act(self, request: PolicyRequest) -> SampledTurn:
            return answer()

    with EpisodeStore(tmp_path / "store") as store:
        (group,) = rollout(Counter, Wrong(), tasks_for(Counter.spec.name, 1), store=store)
    assert group.episodes[0].termination is Termination.ABORTED
    assert words in group.episodes[0].error
    assert len(store) == 1
