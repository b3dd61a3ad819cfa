"""Milestones as turn rewards: the reference's golden vectors, sources, undone milestones, and judges that fail."""

from __future__ import annotations

import asyncio
import json
import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judges import FakeJudge, between, down, offering
from policies.test_openai_api import Server, answer

from agentgym.credit import CreditPipeline, component
from agentgym.credit.milestones import Milestones
from agentgym.credit.protocols import Services
from agentgym.errors import ConfigError, UnknownNameError
from agentgym.judge import Judge
from agentgym.types import Episode, Group, Task, Termination, Turn

NAMES = ("found", "taken", "cleaned", "placed")
TO_GO = {"gamma": 1.0, "baseline": "none"}


def episode(reached, *, index=0, success=False, termination=None, names=NAMES, task=None, **turn):
    """An episode whose turn t has reached ``reached[t]``: names, or how many of the first ones."""
    sets = [tuple(r) if isinstance(r, tuple | list) else names[:r] for r in reached]
    turns = [
        Turn(t, f"obs {t}", f"<think>thought {t}</think>", f"act {t}", f"obs {t + 1}", milestones=s, **turn)
        for t, s in enumerate(sets)
    ]
    ended = termination or (Termination.ENV_DONE if success else Termination.MAX_TURNS)
    return Episode(task or Task("fake", "t"), index, index, turns, ended, float(success), success, names)


def apply(part, *episodes, judge=None):
    group = Group(episodes[0].task, list(episodes))
    asyncio.run(part.apply([group], offering(judge) if judge else Services(), 0))
    return [component(e, "milestone").tolist() for e in episodes]


@pytest.mark.parametrize(
    ("terminal", "rewards", "to_go"),
    [("keep", [0.25, 0, 0.25, 1.5], [2, 1.75, 1.75, 1.5]), ("zero", [0.25, 0, 0.25, 0.5], [1, 0.75, 0.75, 0.5])],
)
def test_golden_potential_shaping(terminal, rewards, to_go):
    made = episode([1, 1, 2, 4], success=True)
    pipeline = CreditPipeline([{"milestones": {"terminal_potential": terminal}}], "discounted_return", TO_GO)
    (((advantages),),) = pipeline.run([Group(made.task, [made])]).advantages
    np.testing.assert_allclose(component(made, "milestone") + component(made, "outcome"), rewards, atol=1e-12)
    np.testing.assert_allclose(advantages, to_go, atol=1e-12)


@pytest.mark.parametrize(("truncated", "to_go"), [("keep", [0.5, 0.25, 0.25]), ("zero", [0, -0.25, -0.25])])
def test_a_cut_episode_keeps_its_progress_or_gives_it_back(truncated, to_go):
    made = episode([1, 1, 2])  # Phi = 0, 1/4, 1/4, 1/2: G_t = Phi_T - Phi_t, or with Phi_T = 0: -Phi_t
    pipeline = CreditPipeline([{"milestones": {"truncated": truncated}}], "discounted_return", TO_GO)
    ((advantages,),) = pipeline.run([Group(made.task, [made])]).advantages
    np.testing.assert_allclose(advantages, to_go, atol=1e-12)


def test_the_default_is_milestone_turn_credit():
    """With the outcome it is the return-to-go of the Phi differences, where failures run into the turn limit."""
    good, bad = episode([0, 1, 3, 4], success=True), episode([0, 1, 1, 2, 2], index=1)
    pipeline = CreditPipeline(["milestones"], "discounted_return", {"gamma": 0.97, "baseline": "none"})
    found = pipeline.run([Group(good.task, [good, bad])]).advantages[0]
    for advantages, phi in zip(found, ([0, 0, 0.25, 0.75, 1], [0, 0, 0.25, 0.25, 0.5, 0.5]), strict=True):
        steps = np.diff(phi)
        expected = [sum(0.97 ** (k - t) * steps[k] for k in range(t, len(steps))) for t in range(len(steps))]
        np.testing.assert_allclose(advantages, expected, atol=1e-12)


def test_a_limit_keeps_the_potential_and_an_end_does_not():
    for termination, last in [
        (Termination.MAX_TURNS, 0.25), (Termination.CONTEXT_LIMIT, 0.25), (Termination.RESPONSE_TRUNCATED, 0.25),
        (Termination.ENV_DONE, -0.25), (Termination.AGENT_STOP, -0.25), (Termination.PARSE_FAILURE, -0.25),
    ]:  # fmt: skip
        assert apply(Milestones(), episode([1, 2], termination=termination)) == [[0.25, last]], termination


@given(st.lists(st.sets(st.sampled_from(NAMES)), min_size=1, max_size=8), st.booleans(), st.floats(0.1, 3))
def test_with_gamma_1_the_sum_telescopes(sets, ends, coef):
    """To Phi_T where a limit cut the episode, to 0 at an end: whatever happened on the way."""
    made = episode([sorted(s) for s in sets], termination=Termination.AGENT_STOP if ends else Termination.MAX_TURNS)
    ((values),) = apply(Milestones(coef=coef), made)
    share = len(set().union(*sets)) / len(NAMES)
    assert sum(values) == pytest.approx(0 if ends else coef * share, abs=1e-12)


@given(st.lists(st.sets(st.sampled_from(NAMES)), min_size=1, max_size=8))
def test_once_pays_each_milestone_once(sets):
    ((values),) = apply(Milestones(payment="once", coef=0.5), episode([sorted(s) for s in sets]))
    first = [len(s - set().union(*sets[:t])) for t, s in enumerate(sets)]
    assert values == [0.5 * n for n in first]


def test_an_undo_neither_costs_nor_pays_again():
    swinging = episode([("found",), (), ("found",), (), ("found", "taken")])
    assert apply(Milestones(), swinging) == [[0.25, 0, 0, 0, 0.25]]


def test_gamma_discounts_the_next_potential():
    assert apply(Milestones(gamma=0.5), episode([2, 2]))[0] == [0.25, 0.25 - 0.5]


def test_without_milestones_the_component_is_zero_and_counted():
    part = Milestones()
    assert apply(part, episode([0, 0], names=()), episode([], index=1, names=())) == [[0, 0], []]
    assert part.report() == {"episodes_without": 2.0, "undeclared_names": 0.0}


def test_names_met_in_the_group_stand_in_for_names_not_declared():
    task = Task("fake", "t")
    one, two = episode([()], names=(), task=task), episode([("a", "b")], index=1, names=(), task=task)
    one.turns[0].milestones = ("a",)
    part = Milestones()
    assert apply(part, one, two) == [[0.5], [1.0]]
    assert part.report() == {"episodes_without": 0.0, "reached": 0.75, "undeclared_names": 0.0}


def test_undeclared_names_are_counted_and_pay_nothing():
    part = Milestones()
    assert apply(part, episode([("found", "surprise"), ("found",)])) == [[0.25, 0]]
    assert part.report()["undeclared_names"] == 1


def test_a_telescoping_stream_needs_turn_advantages():
    with pytest.raises(ConfigError, match="telescoping"):
        CreditPipeline(["milestones"], "grpo")
    CreditPipeline([{"milestones": {"payment": "once"}}], "grpo")
    CreditPipeline([{"milestones": {"terminal_potential": "keep"}}], "rloo")
    CreditPipeline(["milestones"], "gigpo")


def test_what_is_taken_back_at_the_end_must_not_be_read_turn_by_turn():
    """Centred within a success, the last value of a zeroed potential, -Phi, would punish the solving action."""
    made = episode([1, 2, 3, 4], success=True)
    assert apply(Milestones(), made)[0][-1] == -0.75
    with pytest.raises(ConfigError, match="punish the action that solves"):
        CreditPipeline(["milestones"], "rloo")


def test_what_is_paid():
    assert CreditPipeline([{"milestones": {"weight": 0.3}}], "discounted_return").paid == {
        "outcome": 1.0,
        "milestone": 0.3,
    }
    with pytest.raises(ConfigError, match="twice"):
        CreditPipeline(["milestones", "milestones"], "discounted_return")


RULES = [
    {"name": "opened", "pattern": r"\bopen\b", "field": "action"},
    {"name": "seen", "pattern": "gold"},
    {"name": "start", "pattern": "^hall", "field": "observation"},
]


def test_rules_read_the_transcript():
    turns = [
        Turn(0, "hall", "", "look", "a chest", milestones=("found",)),
        Turn(1, "a chest", "", "open chest", "gold!"),
        Turn(2, "gold!", "", None, "gold again"),
    ]
    made = Episode(Task("fake", "t"), 0, 0, turns, Termination.MAX_TURNS, milestone_names=NAMES)
    third = pytest.approx(1 / 3)
    assert apply(Milestones("rules", rules=RULES), made) == [[third, pytest.approx(2 / 3), 0]]
    assert [t.info["milestones:rules"] for t in turns] == [["start"], *[["opened", "seen", "start"]] * 2]
    assert made.info["milestones:rules"] == ["opened", "seen", "start"]
    assert turns[0].milestones == ("found",)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"source": "rules"}, ConfigError, "rules go with source 'rules'"),
        ({"rules": RULES}, ConfigError, "source is 'env'"),
        ({"source": "rules", "rules": [{"name": "a", "pattern": "("}]}, ConfigError, "'a'.*no regular expression"),
        ({"source": "rules", "rules": [{"name": "a"}]}, ConfigError, "rule 0 needs a name and a pattern"),
        ({"source": "rules", "rules": [RULES[0], RULES[0]]}, ConfigError, "names of their own"),
        ({"source": "rules", "rules": [{"name": "a", "patern": "x"}]}, UnknownNameError, "'pattern'"),
        ({"source": "rules", "rules": [{**RULES[0], "field": "actoin"}]}, UnknownNameError, "'action'"),
        ({"source": "enviroment"}, UnknownNameError, "env"),
        ({"payment": "potental"}, UnknownNameError, "'potential'"),
        ({"terminal_potential": "kep"}, UnknownNameError, "'keep'"),
        ({"gamma": 1.5}, ConfigError, "gamma"),
        ({"source": "judge", "subgoals": 0}, ConfigError, "subgoals 1 to 12"),
        ({"source": "judge", "check": "never"}, ConfigError, "episode or turn"),
    ],
)
def test_bad_options_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        Milestones(**options)


GOALS = json.dumps([{"name": "find key", "seen": "a key"}, {"name": "open door", "seen": ""}])


def scripted(steps):
    """A judge that writes two subgoals, then answers ``steps(transcript)``."""
    return FakeJudge(lambda prompt, seed: steps(between(prompt, "transcript")) if "<transcript>" in prompt else GOALS)


def test_the_judge_dates_its_own_subgoals():
    judge = scripted(lambda text: 'So: {"1": 2, "2": null}')
    part, made = Milestones("judge"), episode([0, 0, 0])
    assert apply(part, made, judge=judge) == [[0, 0.5, 0]]
    assert [t.info["milestones:judge"] for t in made.turns] == [[], ["find key"], ["find key"]]
    assert made.info["milestones:judge"] == ["find key", "open door"]
    assert part.report()["reached"] == 0.5
    assert len(judge.prompts) == 2


def test_asked_turn_by_turn_the_judge_sees_the_past_only_and_progress_stays():
    said = {1: '{"1": 1, "2": null}', 2: '{"1": null, "2": null}', 3: '{"1": null, "2": 3}'}
    judge = scripted(lambda text: said[text.count("Step ")])
    part, made = Milestones("judge", check="turn"), episode([0, 0, 0])
    assert apply(part, made, judge=judge) == [[0.5, 0, 0.5]]
    for n, prompt in enumerate(judge.prompts[1:], 1):
        assert f"act {n - 1}" in prompt
        assert f"act {n}" not in prompt


def test_a_task_is_written_once_and_the_same_transcript_is_judged_once():
    judge = scripted(lambda text: '{"1": 1, "2": null}')
    part = Milestones("judge")
    apply(part, episode([0, 0]), episode([0, 0], index=1), judge=judge)
    assert len(judge.prompts) == 2
    apply(part, episode([0, 0, 0]), judge=judge)
    assert sum("<transcript>" not in prompt for prompt in judge.prompts) == 1
    fresh = Milestones("judge")
    fresh.load_state_dict(json.loads(json.dumps(part.state_dict())))
    assert apply(fresh, episode([0, 0]), judge=judge) == [[0.5, 0]]
    assert sum("<transcript>" not in prompt for prompt in judge.prompts) == 1


def test_the_judge_is_shown_no_gold_no_outcome_and_no_thoughts():
    task = Task("fake", "t", "train", data={"gold": "GOLDEN-ANSWER"}, kind="KIND")
    made = episode([0, 1, 4], success=True, task=task, info={"answer": "GOLDEN-ANSWER"})
    made.outcome = 0.987654
    made.info["gold"] = "GOLDEN-ANSWER"
    for check in ("episode", "turn"):
        judge = scripted(lambda text: '{"1": 1, "2": null}')
        part = Milestones("judge", check=check)
        made.turns[0].rewards, made.turns[1].rewards, made.turns[2].rewards = {"env": 0.987654}, {}, {}
        apply(part, made, judge=judge)
        assert len(judge.prompts) == (2 if check == "episode" else 4)
        for prompt in judge.prompts:
            for secret in ("GOLDEN", "0.98", "success", "thought", "env_done", "True", *NAMES):
                assert secret not in prompt, (secret, prompt)


def test_a_nonsense_answer_is_asked_again_once():
    judge = FakeJudge(
        lambda prompt, seed: "hm" if seed == 0 else ('{"1": 1, "2": 1}' if "<transcript>" in prompt else GOALS)
    )
    part = Milestones("judge")
    assert apply(part, episode([0]), judge=judge) == [[1.0]]
    assert len(judge.prompts) == 4
    assert part.report()["judge_failed_episodes"] == part.report()["judge_failed_tasks"] == 0


@pytest.mark.parametrize(
    "nonsense", ["no idea", "{}", '{"1": 9, "2": null}', '{"1": true, "2": null}', '{"1": 0, "2": null}', '{"1": 1}']
)
def test_a_bad_answer_costs_one_episode_its_milestones(nonsense, caplog):
    judge = scripted(lambda text: nonsense if "Step 2" in text else '{"1": 1, "2": null}')
    part = Milestones("judge")
    with caplog.at_level(logging.WARNING):
        found = apply(part, episode([0]), episode([0, 0], index=1), judge=judge)
    assert found == [[0.5], [0, 0]]
    assert part.report() == {
        "episodes_without": 1.0, "reached": 0.5,
        "judge_failed_tasks": 0.0, "judge_failed_episodes": 1.0, "judge_failed_groups": 0.0,
    }  # fmt: skip
    assert "episode 1 has no milestones" in caplog.text


@pytest.mark.parametrize(
    "goals", ["none", "[]", '[{"name": ""}]', '[{"name": "a"}, {"name": "a"}]', "[1]", '[{"name": "a", "seen": 3}]']
)
def test_a_task_without_subgoals_is_counted_logged_and_asked_again(goals, caplog):
    judge = FakeJudge(lambda prompt, seed: goals)
    part = Milestones("judge")
    with caplog.at_level(logging.WARNING):
        assert apply(part, episode([0, 0]), judge=judge) == [[0, 0]]
    assert part.report()["judge_failed_groups"] == part.report()["judge_failed_tasks"] == 1
    assert "task 't' has no subgoals" in caplog.text
    judge.answer = lambda prompt, seed: '{"1": 1, "2": null}' if "<transcript>" in prompt else GOALS
    assert apply(part, episode([0, 0]), judge=judge) == [[0.5, 0]]
    assert part.report()["judge_failed_groups"] == part.report()["judge_failed_tasks"] == 0


def test_a_judge_that_is_down_never_stops_the_run(caplog):
    part, made = Milestones("judge", terminal_potential="keep"), episode([0, 0])
    pipeline = CreditPipeline([part], "rloo", services=offering(FakeJudge(down)))
    with caplog.at_level(logging.WARNING):
        result = pipeline.run([Group(made.task, [made, episode([0], index=1, success=True)])])
    assert result.metrics["credit/milestones/judge_failed_groups"] == 1
    assert "no answer" in caplog.text
    np.testing.assert_array_equal(result.advantages[0][1], [1])
    with pytest.raises(ConfigError, match="needs judge"):
        CreditPipeline([{"milestones": {"source": "judge"}}], "discounted_return")


def test_a_bug_of_the_judge_is_not_taken_for_a_bad_answer():
    with pytest.raises(ZeroDivisionError):
        apply(Milestones("judge"), episode([0]), judge=scripted(lambda text: ZeroDivisionError()))


def test_long_observations_are_shortened_for_the_judge():
    judge = scripted(lambda text: '{"1": 1, "2": null}')
    made = episode([0])
    made.turns[0].next_observation = "head " + "x" * 5000 + " tail"
    apply(Milestones("judge", clip=200), made, judge=judge)
    assert "head x" in judge.prompts[1]
    assert "x tail" in judge.prompts[1]
    assert len(judge.prompts[1]) < 2000


def test_over_a_real_endpoint_and_over_several_batches(tmp_path):
    server = Server()
    try:
        server.moods = [answer(GOALS), (500, "oops"), answer('{"1": 2, "2": null}')]
        judge = Judge(f"http://127.0.0.1:{server.port}/v1", model="m", backoff=0.01, cache=tmp_path / "judge.sqlite")
        pipeline = CreditPipeline([{"milestones": {"source": "judge"}}], "discounted_return", services=offering(judge))
        for _ in range(2):  # every batch has an event loop of its own
            made = episode([0, 0])
            pipeline.run([Group(made.task, [made])])
            assert component(made, "milestone").tolist() == [0, 0.5]
        assert (judge.usage.calls, judge.usage.cached, judge.usage.retries, judge.usage.failed) == (2, 1, 1, 0)
    finally:
        server.server.should_exit = True
        server.thread.join(10)
