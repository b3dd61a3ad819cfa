"""Subgoal hints: the first open subgoal, from the environment, from a list, or from a judge; nothing else leaks."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from judges import FakeJudge, down, offering

from agentgym.augment import PromptContext, PromptPatch
from agentgym.credit import CreditPipeline
from agentgym.credit.protocols import PromptAugmenter, Services
from agentgym.credit.subgoals import SubgoalHint
from agentgym.errors import ConfigError, UnknownNameError
from agentgym.types import Episode, Group, Observation, Task, Termination, Turn

TASK = Task("fake", "t", kind="fetch", data={"gold": "GOLDEN-ANSWER"})
NAMES = ("key_found", "door_open")


def context(*turns, names=NAMES, mode="train", task=TASK):
    record = [Turn(t, "o", "r", "a", seen, milestones=reached) for t, (seen, reached) in enumerate(turns)]
    return PromptContext(task, 0, 4, record, Observation("now"), names, mode)


def text(hint, *turns, **options):
    patch = hint.augment(context(*turns, **options))
    return patch and patch.text


def test_the_first_open_milestone_is_named():
    hint = SubgoalHint()
    assert hint.augment(context()) == PromptPatch("Next subgoal: key found.", "subgoal_hint:env")
    assert text(hint, ("", ("key_found",))) == "Next subgoal: door open."
    assert text(hint, ("", ("door_open",))) == "Next subgoal: key found."
    assert text(hint, ("", ("key_found",)), ("", NAMES)) is None
    assert text(hint, names=()) is None


def test_texts_and_template():
    hint = SubgoalHint(texts={"key_found": "look for the {key}"}, template="[{done}/{total}] {subgoal}")
    assert text(hint) == "[0/2] look for the {key}"
    assert text(hint, ("", ("key_found",))) == "[1/2] door open"


def test_nothing_but_the_name_is_shown():
    task = Task("fake", "SECRET", "train", kind="KIND", data={"gold": "GOLDEN-ANSWER"})
    shown = text(SubgoalHint(), ("GOLDEN-ANSWER", ()), task=task)
    assert shown == "Next subgoal: key found."


def test_given_subgoals_by_task_kind_or_for_all():
    goals = {"*": ["rest"], "fetch": [{"name": "get it", "seen": "You  TAKE the key"}, "go home"], "other": ["x"]}
    hint = SubgoalHint("given", subgoals=goals)
    assert text(hint) == "Next subgoal: get it."
    assert text(hint, ("nothing", ())) == "Next subgoal: get it."
    assert text(hint, ("you take\nthe key.", ()), ("", ())) == "Next subgoal: go home."
    assert text(hint, task=Task("fake", "u")) == "Next subgoal: rest."
    assert text(SubgoalHint("given", subgoals={"u": ["x"]})) is None
    assert text(SubgoalHint("given", subgoals={TASK.id: ["by id"], "t": ["by name"]})) == "Next subgoal: by id."


def test_a_given_subgoal_called_like_a_milestone_follows_the_environment():
    hint = SubgoalHint("given", subgoals={"*": ["key_found", "leave"]})
    assert text(hint, ("", ())) == "Next subgoal: key found."
    assert text(hint, ("", ("key_found",))) == "Next subgoal: leave."


def group():
    turns = [Turn(0, "A task: fetch.", "<think>thought</think>", "look", "a key")]
    return Group(TASK, [Episode(TASK, 0, 0, turns, Termination.ENV_DONE, 0.987654, info={"gold": "GOLDEN-ANSWER"})])


def test_the_judge_writes_for_the_next_visit_and_sees_the_task_alone():
    judge = FakeJudge(lambda prompt, seed: json.dumps([{"name": "find key", "seen": "a key"}, {"name": "open door"}]))
    hint = SubgoalHint("judge")
    assert text(hint) is None
    for _ in range(2):
        asyncio.run(hint.apply([group()], offering(judge), 0))
    (prompt,) = judge.prompts
    assert "A task: fetch." in prompt
    for secret in ("GOLDEN", "0.98", "a key", "thought", "look"):
        assert secret not in prompt
    assert text(hint, mode="eval") == "Next subgoal: find key."
    assert text(hint, ("You see A KEY.", ())) == "Next subgoal: open door."
    fresh = SubgoalHint("judge")
    fresh.load_state_dict(json.loads(json.dumps(hint.state_dict())))
    assert text(fresh) == "Next subgoal: find key."


def test_a_judge_that_fails_costs_hints_only(caplog):
    hint = SubgoalHint("judge")
    with caplog.at_level(logging.WARNING):
        asyncio.run(hint.apply([group()], offering(FakeJudge(down)), 0))
    assert text(hint) is None
    assert hint.report() == {"hinted": 0.0, "judge_failed_tasks": 1.0}
    assert "has no subgoals" in caplog.text


def test_evaluation_changes_nothing():
    hint = SubgoalHint()
    text(hint)
    before = (hint.state_dict(), vars(hint).copy())
    text(hint, mode="eval")
    assert (hint.state_dict(), vars(hint)) == before
    assert hint.report() == {"hinted": 1.0}
    assert hint.report() == {}


def test_it_augments_and_pays_nothing():
    pipeline = CreditPipeline(["subgoal_hint"], "grpo")
    assert pipeline.paid == {"outcome": 1.0}
    assert isinstance(SubgoalHint(), PromptAugmenter)
    assert pipeline.augment(context()).text == "Next subgoal: key found."
    made = group()
    pipeline.run([made])
    assert set(made.episodes[0].turns[0].rewards) == {"outcome"}
    with pytest.raises(ConfigError, match="needs judge"):
        CreditPipeline([{"subgoal_hint": {"source": "judge"}}], services=Services())


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"source": "enw"}, UnknownNameError, "'env'"),
        ({"source": "given"}, ConfigError, "source 'given'"),
        ({"subgoals": {"*": ["x"]}}, ConfigError, "source is 'env'"),
        ({"template": "{gold}"}, ConfigError, "gold"),
        ({"template": "{"}, ConfigError, "template"),
        ({"source": "given", "subgoals": {"*": []}}, ConfigError, r"'\*' need at least one"),
        ({"source": "given", "subgoals": {"*": [{"nam": "x"}]}}, ConfigError, "nam"),
        ({"source": "given", "subgoals": {"*": [3]}}, ConfigError, "text"),
    ],
)
def test_bad_options_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        SubgoalHint(**options)
