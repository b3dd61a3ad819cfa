"""Subgoal hints: the first open subgoal, from the environment, from a list, or from a judge; nothing else leaks."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from judges import FakeJudge, between, down, offering

from agentgym.augment import PromptContext, PromptPatch
from agentgym.credit import CreditPipeline
from agentgym.credit.protocols import PromptAugmenter, Services
from agentgym.credit.subgoals import SubgoalHint
from agentgym.errors import AgentGymError, ConfigError, UnknownNameError
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


GOALS = ("find key", "open door")
WRITTEN = json.dumps([{"name": name, "seen": ""} for name in GOALS])


def asked(judge, **options):
    """A hint with this judge."""
    hint = SubgoalHint("judge", **options)
    hint.bind(offering(judge))
    return hint


def hints(hint, *contexts):
    """The texts of turns that are asked for at the same time."""

    async def all_of_them():
        return await asyncio.gather(*(hint.augment(one) for one in contexts))

    return [patch and patch.text for patch in asyncio.run(all_of_them())]


def by_sight(prompt, seed):
    """Writes two subgoals; finds each reached at the first step that says its name in capitals."""
    if "<subgoals>" not in prompt:
        return WRITTEN
    names = [line.partition(". ")[2] for line in between(prompt, "subgoals").splitlines()]
    steps = between(prompt, "transcript").split("\nStep ")
    seen = {n: next((t for t, s in enumerate(steps, 1) if name.upper() in s), None) for n, name in enumerate(names, 1)}
    return json.dumps(seen)


def questions(judge):
    return [prompt for prompt in judge.prompts if "<subgoals>" in prompt]


def episode(*seen, **options):
    return context(*((text, ()) for text in seen), **options)


def test_the_judge_writes_at_the_first_turn_and_is_asked_before_the_later_ones():
    judge = FakeJudge(by_sight)
    hint = asked(judge)
    rising = [(), ("FIND KEY",), ("FIND KEY", "x"), ("FIND KEY", "x", "OPEN DOOR"), ("FIND KEY", "x", "OPEN DOOR", "x")]
    shown = [hints(hint, episode(*seen))[0] for seen in rising]
    first, second = "Next subgoal: find key.", "Next subgoal: open door."
    assert shown == [first, second, second, None, None]
    assert len(judge.prompts) == 1 + 3, "writing, then three checks; with all reached nothing is asked"
    assert hint.report() == {"hinted": 0.6, "judge_failed_turns": 0.0}


def test_a_reached_subgoal_is_not_asked_about_again():
    judge = FakeJudge(by_sight)
    hint = asked(judge)
    for seen in ((), ("FIND KEY",), ("FIND KEY", "x")):
        hints(hint, episode(*seen))
    one, two = questions(judge)
    assert between(one, "subgoals") == "1. find key\n2. open door"
    assert between(two, "subgoals") == "1. open door"


def test_the_judge_sees_the_task_actions_and_answers_alone():
    judge = FakeJudge(by_sight)
    turns = [Turn(0, "A task: fetch.", "<think>thought</think>", "look", "a drawer", info={"gold": "GOLDEN-ANSWER"})]
    hints(asked(judge), PromptContext(TASK, 0, 1, [], Observation("A task: fetch.", state_key="GOLDEN-STATE")))
    hints(asked(judge), PromptContext(TASK, 0, 1, turns, Observation("a drawer", state_key="GOLDEN-STATE")))
    assert len(judge.prompts) == 3
    assert all("A task: fetch." in prompt for prompt in judge.prompts)
    assert all(secret not in prompt for prompt in judge.prompts for secret in ("GOLDEN", "thought"))
    (question,) = questions(judge)
    assert "Action: look" in question
    assert "Answer: a drawer" in question


class Counting:
    """A judge that takes its time and counts who is inside."""

    def __init__(self, answer, wait=0.0):
        self.inner, self.wait, self.prompts = FakeJudge(answer), wait, []

    async def complete(self, messages, **options):
        self.prompts.append(messages[0]["content"])
        await asyncio.sleep(self.wait)
        return await self.inner.complete(messages, **options)


def test_eight_episodes_of_a_task_make_one_writing_call_and_other_tasks_their_own():
    judge = Counting(by_sight, 0.01)
    other = Task("fake", "u")
    hint = asked(judge)
    shown = hints(hint, *(episode(mode="eval") for _ in range(8)), episode(task=other, mode="eval"))
    assert set(shown) == {"Next subgoal: find key."}
    assert len(judge.prompts) == 2
    hints(hint, *(episode("same", mode="eval") for _ in range(8)), episode("another", mode="eval"))
    assert len(judge.prompts) == 4, "histories that are alike are asked about once"
    assert hints(hint, episode("same", mode="eval")) == ["Next subgoal: find key."]
    assert len(judge.prompts) == 4


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_one_episode_reached_says_nothing_about_another(order):
    hint = asked(FakeJudge(by_sight))
    hints(hint, episode())
    contexts = [episode("FIND KEY"), episode("nothing")]
    shown = dict(zip(order, hints(hint, *(contexts[at] for at in order)), strict=True))
    assert shown == {0: "Next subgoal: open door.", 1: "Next subgoal: find key."}


def test_check_every_asks_at_every_third_turn_and_its_last_word_holds_between():
    judge = FakeJudge(by_sight)
    hint = asked(judge, check_every=3)
    seen = ["FIND KEY", "x", "x", "OPEN DOOR", "x", "x"]
    shown = [hints(hint, episode(*seen[:turn]))[0] for turn in range(7)]
    first, second = "Next subgoal: find key.", "Next subgoal: open door."
    assert shown == [first, first, first, second, second, second, None]
    assert len(questions(judge)) == 2


def test_a_judge_that_takes_back_its_word_is_not_believed():
    said = iter([WRITTEN, '{"1": 1, "2": null}', "no idea", "none", '{"1": null}'])
    hint = asked(FakeJudge(lambda prompt, seed: next(said)))
    shown = [hints(hint, episode(*["x"] * turn))[0] for turn in range(4)]
    assert shown == ["Next subgoal: find key.", "Next subgoal: open door.", None, "Next subgoal: open door."]
    assert hint.report()["judge_failed_turns"] == 1.0


@pytest.mark.parametrize("answer", [down, lambda prompt, seed: "I would rather not.", lambda prompt, seed: OSError(5)])
def test_a_judge_that_fails_costs_hints_only(answer, caplog):
    hint = asked(FakeJudge(answer))
    with caplog.at_level(logging.WARNING):
        assert hints(hint, episode(), episode("x"), episode("x", "y", mode="eval")) == [None] * 3
    assert hint.report() == {"hinted": 0.0, "judge_failed_turns": 3.0}
    assert hint.report() == {"judge_failed_turns": 0.0}
    assert "fake task 't' turn 0 has no hint" in caplog.text
    assert hint.state_dict() == {"subgoals": {}}


def test_failures_are_all_counted_but_not_all_logged(caplog):
    hint = asked(FakeJudge(down))
    with caplog.at_level(logging.WARNING):
        hints(hint, *(episode() for _ in range(50)))
    assert hint.report()["judge_failed_turns"] == 50
    assert len(caplog.records) == 20
    assert "only counted" in caplog.records[-1].getMessage()


def test_a_judge_that_recovers_is_asked_again():
    working = []
    hint = asked(FakeJudge(lambda prompt, seed: by_sight(prompt, seed) if working else down(prompt, seed)))
    assert hints(hint, episode()) == [None]
    working.append(1)
    assert hints(hint, episode("FIND KEY")) == ["Next subgoal: open door."]


def test_a_slow_judge_costs_the_turn_and_its_answer_serves_the_next():
    judge = Counting(by_sight, 0.1)
    hint = asked(judge, deadline=0.02)

    async def play():
        none = await hint.augment(episode())
        await asyncio.sleep(0.3)
        return none, await hint.augment(episode())

    none, patch = asyncio.run(play())
    assert none is None
    assert patch.text == "Next subgoal: find key."
    assert len(judge.prompts) == 1
    assert hint.report()["judge_failed_turns"] == 1.0


def test_a_call_of_a_loop_that_is_gone_is_made_anew():
    judge = Counting(by_sight, 0.1)
    hint = asked(judge, deadline=0.02)
    assert hints(hint, episode()) == [None]
    hint.tracker.deadline = 5.0
    assert hints(hint, episode()) == ["Next subgoal: find key."]


def test_written_subgoals_are_kept_and_bounded():
    hint = asked(FakeJudge(by_sight))
    hints(hint, episode())
    fresh = asked(judge := FakeJudge(by_sight))
    fresh.load_state_dict(json.loads(json.dumps(hint.state_dict())))
    assert hints(fresh, episode()) == ["Next subgoal: find key."]
    assert judge.prompts == []
    fresh.tracker.writer.most = 3
    for number in range(6):
        hints(fresh, episode(task=Task("fake", f"task {number}")))
    assert list(fresh.state_dict()["subgoals"]) == [Task("fake", f"task {n}").id for n in (3, 4, 5)]


def test_without_a_judge_it_says_who_gives_one():
    for hint in (SubgoalHint("judge"), asked(None)):
        hint._services = None if hint._services is None else Services({})
        with pytest.raises(AgentGymError, match=r"bind\(\)"):
            hints(hint, episode())


def test_the_pipeline_hands_over_the_judge_it_was_given():
    judge = FakeJudge(by_sight)
    pipeline = CreditPipeline([{"subgoal_hint": {"source": "judge"}}], services=offering(judge))
    assert asyncio.run(pipeline.augment(episode())).text == "Next subgoal: find key."


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
    assert asyncio.run(pipeline.augment(context())).text == "Next subgoal: key found."
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
        ({"check_every": 0}, ConfigError, "check_every >= 1"),
        ({"deadline": 0}, ConfigError, "deadline > 0"),
        ({"count": 13}, ConfigError, "count 1 to 12"),
        ({"source": "given", "subgoals": {"*": []}}, ConfigError, r"'\*' need at least one"),
        ({"source": "given", "subgoals": {"*": [{"nam": "x"}]}}, ConfigError, "nam"),
        ({"source": "given", "subgoals": {"*": [3]}}, ConfigError, "text"),
    ],
)
def test_bad_options_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        SubgoalHint(**options)
