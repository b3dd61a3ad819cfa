"""Search behind the contract: scores, ends, milestones, judgements, options, isolation, determinism, bad input."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_help import play, task_of

import agentgym
from agentgym.credit.belief import gold_answers
from agentgym.environments.search import Search
from agentgym.errors import AgentGymError, ConfigError, DataError, EnvironmentFault, UnknownNameError
from agentgym.parsing import ActionFormat
from agentgym.types import Step, Task, Termination

FICTIONAL = ("train", "valid", "test")


@pytest.fixture
def env(corpus_file: Path) -> Search:
    """An episode over the hand-made corpus has begun."""
    made = Search(corpus=str(corpus_file), topk=2)
    made.reset(task_of())
    return made


def solve(env: Search, task: Task) -> list[Step]:
    env.reset(task)
    steps: list[Step] = []
    while (action := env.expert()) is not None:
        steps.append(env.step(action))
    return steps


def test_is_registered_and_describes_itself() -> None:
    env = agentgym.make("search", topk=5)
    assert isinstance(env, Search)
    spec = env.spec
    assert (spec.name, spec.max_turns, spec.thread_safe, spec.cheap, spec.snapshots) == (
        "search",
        10,
        True,
        False,
        True,
    )
    assert spec.splits[:3] == FICTIONAL


@pytest.mark.parametrize("judge", [False, True])
@pytest.mark.parametrize("notation", ["plain", "tags"])
def test_the_expert_scores_one_with_every_milestone(judge: bool, notation: str) -> None:
    env = Search(judge=judge, notation=notation)
    for split in FICTIONAL:
        for task in env.tasks(split, n=48):
            steps = solve(env, task)
            assert len(steps) <= env.spec.max_turns
            assert all(step.grounded for step in steps)
            last = steps[-1]
            assert (last.terminated, last.success, last.info and last.info["em"]) == (True, True, 1.0)
            assert (last.score if judge else last.reward) == 1.0
            assert last.milestones == env.milestone_names
            assert len(env.milestone_names) == int(task.kind[0])


def test_the_expert_scores_one_on_hotpotqa(stored: Path) -> None:
    env = Search(data=str(stored))
    ends = [solve(env, task)[-1] for task in env.tasks("hotpotqa")]
    assert all(end.success for end in ends)
    assert sum(end.milestones == ("document 1", "document 2") for end in ends) >= 285  # BM25 misses some titles


@pytest.mark.parametrize("policy", ["noop", "random"])
def test_doing_nothing_scores_nothing(policy: str) -> None:
    tasks = Search().tasks("test", n=4)
    for group in agentgym.rollout("search", agentgym.load_policy(policy), tasks):
        for episode in group:
            assert (episode.outcome, episode.success) == (0.0, False)


def test_the_engine_plays_the_expert_in_both_formats() -> None:
    for notation, tag in (("plain", "action"), ("tags", "")):
        tasks = Search().tasks("test", n=4)
        form = ActionFormat(action_tag=tag)
        expert = agentgym.load_policy("expert")
        groups = agentgym.rollout("search", expert, tasks, format=form, env_options={"notation": notation})
        for group in groups:
            assert [e.termination for e in group] == [Termination.ENV_DONE]
            assert all(e.success and gold_answers(e) == list(e.task.data["answers"]) for e in group)


def test_an_episode_as_search_r1_shows_it(env: Search) -> None:
    step = env.step("<search>who wrote The Amber Ledger</search>")
    assert step.observation.text == (
        '<information>Doc 1(Title: "The Amber Ledger") The Amber Ledger is a novel by Zorvan Quill.\n'
        'Doc 2(Title: "Zorvan Quill") Zorvan Quill wrote The Amber Ledger. Zorvan Quill was born in Tessmouth.'
        "</information>"
    )
    assert (step.reward, step.terminated, step.grounded) == (0.0, False, True)
    assert step.milestones == ("document 1", "document 2")
    assert step.info == {
        "query": "who wrote The Amber Ledger",
        "titles": ["The Amber Ledger", "Zorvan Quill"],
        "supporting": ["The Amber Ledger", "Zorvan Quill"],
    }
    end = env.step("<answer>The Town of Tessmouth.</answer>")
    assert (end.reward, end.terminated, end.success) == (1.0, True, True)
    assert end.info is not None
    assert end.info["searches"] == 1
    with pytest.raises(EnvironmentFault, match="over"):
        env.step("search: more")


def test_one_answer_in_the_response_counts() -> None:
    """Search-R1's rule of two ``<answer>`` tags belongs to transcripts whose prompt shows one; ours holds no prompt."""
    env = Search()
    task = env.tasks("test", n=1)[0]
    env.reset(task)
    assert env.step(f"<answer>{task.data['answers'][0]}</answer>").success


@pytest.mark.parametrize(
    ("metric", "answer", "outcome", "success"),
    [
        ("em", "in Tessmouth", 0.0, False),
        ("em", "tessmouth!", 1.0, True),
        ("f1", "in Tessmouth", 2 / 3, False),
        ("sub_em", "in Tessmouth", 1.0, False),
        ("f1", "Illen", 0.0, False),
    ],
)
def test_metrics(corpus_file: Path, metric: str, answer: str, outcome: float, success: bool) -> None:
    env = Search(corpus=str(corpus_file), metric=metric)
    env.reset(task_of())
    step = env.step(f"answer: {answer}")
    assert (step.reward, step.success, step.terminated) == (pytest.approx(outcome), success, True)


@pytest.mark.parametrize(
    "action", ["", "hello", "search:", "<search> </search>", "\x00\x1b[2J", "x" * 100_000, "judge: yes"]
)
def test_a_refused_action_changes_nothing(env: Search, action: str) -> None:
    env.step("search: soup")
    before = env.snapshot()
    step = env.step(action)
    assert not step.grounded
    assert not step.terminated
    assert step.reward == 0.0
    assert step.observation.text.startswith("My previous action is not valid")
    assert "'search: QUERY'" in step.observation.text
    assert step.observation.state_key == '<information>Doc 1(Title: "Soup") Soup is warm.</information>'
    assert replace(env.snapshot()[1], note="") == before[1]
    assert env.step("search: illen").grounded


@given(st.text(max_size=80))
@settings(max_examples=60)
def test_no_text_breaks_an_episode(text: str) -> None:
    env = Search()
    env.reset(env.tasks("test", n=1)[0])
    for action in (text, f"search: {text}", f"<search>{text}", f"answer: {text}"):
        step = env.step(action)
        json.dumps(dict(step.info or {})).encode()
        if step.terminated:
            break


def test_long_queries_are_cut_and_say_so(env: Search) -> None:
    step = env.step("search: " + "illen " * 20_000)
    assert step.info is not None
    assert step.info["cut"] is True
    assert step.info["titles"][0] == "Illen"


def test_a_query_that_finds_nothing(env: Search) -> None:
    step = env.step("search: xylophone")
    assert step.grounded
    assert step.observation.text == "<information>No passage was found.</information>"


def test_the_search_limit(corpus_file: Path) -> None:
    env = Search(corpus=str(corpus_file), topk=1, search_limit=1, notation="tags")
    env.reset(task_of())
    assert env.step("search: soup").grounded
    step = env.step("search: soup")
    assert not step.grounded
    assert "no search is left" in step.observation.text
    assert "<answer>" in step.observation.text
    assert env.expert() == "<answer> Tessmouth </answer>"


class TestJudge:
    def env(self, corpus_file: Path, **changes: Any) -> Search:
        env = Search(corpus=str(corpus_file), topk=1, judge=True)
        env.reset(task_of(**changes))
        return env

    def test_a_judgement_must_follow_a_search(self, corpus_file: Path) -> None:
        env = self.env(corpus_file)
        assert "nothing" not in env.step("judge: yes").observation.text
        env.step("search: soup")
        for action in ("search: illen", "answer: Tessmouth"):
            step = env.step(action)
            assert not step.grounded
            assert "must be judged first" in step.observation.text
        assert env.step("judge: no").grounded
        assert not env.step("judge: no").grounded
        assert env.step("answer: Tessmouth").success

    @pytest.mark.parametrize(
        ("query", "said", "reward", "ideal"),
        [
            ("amber ledger novel", "yes", 0.3, "yes"),
            ("amber ledger novel", "no", -0.3, "yes"),
            ("soup", "no", 0.3, "no"),
            ("soup", "yes", -0.6, "no"),
        ],
    )
    def test_reseeks_rewards(self, corpus_file: Path, query: str, said: str, reward: float, ideal: str) -> None:
        env = self.env(corpus_file)
        env.step(f"search: {query}")
        step = env.step(f"<judge>{said}</judge>")
        assert (step.reward, step.score) == (pytest.approx(reward), 0.0)
        assert step.info == {"judge": said, "ideal": ideal}
        assert ("disregard" in step.observation.text) == (said == "no")
        end = env.step("answer: Tessmouth")
        assert (end.reward, end.score, end.success) == (1.0, 1.0, True)

    def test_the_same_passage_is_useful_once(self, corpus_file: Path) -> None:
        env = self.env(corpus_file)
        ideals = []
        for _ in range(2):
            env.step("search: amber ledger novel")
            ideals.append((env.step("judge: yes").info or {})["ideal"])
        assert ideals == ["yes", "no"]

    def test_without_gold_passages_an_answer_in_a_new_passage_is_useful(self, corpus_file: Path) -> None:
        env = self.env(corpus_file, documents=[])
        ideals = []
        for query in ("soup", "quill born", "quill born", "tessmouth town"):
            env.step(f"search: {query}")
            ideals.append((env.step("judge: yes").info or {})["ideal"])
        assert ideals == ["no", "yes", "no", "yes"]

    def test_judging_often_does_not_pay(self, corpus_file: Path) -> None:
        env = self.env(corpus_file)
        paid = []
        for _ in range(6):
            env.step("search: soup")
            paid.append(env.step("judge: no").reward)
        assert paid == pytest.approx([0.3, 0.3, 0.3, 0.1, 0.0, 0.0])


def test_snapshots_bring_back_everything(env: Search) -> None:
    env.step("search: amber ledger")
    state = pickle.loads(pickle.dumps(env.snapshot()))
    first = [env.step("search: soup"), env.step("answer: Tessmouth")]
    observation = env.restore(state)
    assert observation.text.startswith('<information>Doc 1(Title: "The Amber Ledger")')
    assert [env.step("search: soup"), env.step("answer: Tessmouth")] == first
    env.reset(task_of(question="Another?"))
    with pytest.raises(AgentGymError, match="reset it to the"):
        env.restore(state)


def test_tasks_are_the_same_whatever_their_number_and_the_splits_are_disjoint() -> None:
    env = Search()
    sizes = {"train": 1024, "valid": 128, "test": 256}
    ids = {split: [task.id for task in env.tasks(split)] for split in FICTIONAL}
    assert {split: len(found) for split, found in ids.items()} == sizes
    assert len({task for found in ids.values() for task in found}) == sum(sizes.values())
    assert [task.id for task in env.tasks("train", n=300)] == ids["train"][:300]
    assert env.tasks("test").hash != env.tasks("test", seed=1).hash
    assert {task.kind for task in env.tasks("valid", hops=[2, 4], n=10)} == {"2 hops", "4 hops"}
    assert env.tasks("test").hash == "205b9315ab6ae185"


def test_another_process_plays_the_same_episode() -> None:
    code = (
        "import json, sys; from search_help import play;"
        " from agentgym.environments.search import Search;"
        "print(json.dumps([play(task) for task in Search().tasks('test', n=5)]))"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    seen = set()
    for hashing in ("1", "77"):
        env = {**os.environ, "PYTHONHASHSEED": hashing, "PYTHONPATH": path}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
        seen.add(done.stdout)
    here = json.dumps([play(task) for task in Search().tasks("test", n=5)])
    assert {text.strip() for text in seen} == {here}


def test_interleaved_and_parallel_episodes_do_not_touch() -> None:
    tasks = [*Search().tasks("train", n=6), *Search().tasks("test", n=6)]
    alone = [play(task) for task in tasks]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(play, tasks * 3)) == alone * 3
    left, right = Search(), Search()
    left.reset(tasks[3])
    right.reset(tasks[7])
    steps = []
    while (action := left.expert()) is not None:
        steps.append(left.step(action))
        if (other := right.expert()) is not None:
            right.step(other)
    assert steps == solve(Search(), tasks[3])


def test_options_are_checked() -> None:
    for options, message in (
        ({"metric": "emm"}, "Did you mean 'em'"),
        ({"notation": "tag"}, "Did you mean 'tags'"),
        ({"retriever": "bm52"}, "Did you mean 'bm25'"),
        ({"backend": "fais", "retriever": "bm25"}, "faiss"),
    ):
        with pytest.raises(UnknownNameError, match=message):
            Search(**options)  # type: ignore[arg-type]
    for options, message in (
        ({"topk": 0}, "from 1 to 20"),
        ({"topk": True}, "from 1 to 20"),
        ({"search_limit": -1}, "from 0"),
        ({"judge": "yes"}, "true or false"),
        ({"retriever": "dense"}, "vectors and encoder"),
        ({"retriever": "ftp://host/x"}, "expected a retriever like"),
        ({"retriever": "http://127.0.0.1:1/", "retriever_timeout": 0}, "retriever_timeout|timeout must be"),
    ):
        with pytest.raises(ConfigError, match=message):
            Search(**options)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="topk"):
        agentgym.make("search", top_k=3)


def test_splits_and_their_options_are_checked(corpus_file: Path) -> None:
    env = Search()
    with pytest.raises(UnknownNameError, match="hotpotqa"):
        env.tasks("hotpot")
    for options in ({"kinds": ["bridge"]}, {"hop": 2}):
        with pytest.raises(UnknownNameError, match="option of search split"):
            env.tasks("train", **options)
    for options in ({"n": 0}, {"n": True}, {"seed": -1}, {"hops": 5}, {"hops": []}, {"hops": [1, 1]}):
        with pytest.raises(ConfigError):
            env.tasks("train", **options)
    with pytest.raises(ConfigError, match="passages of its own"):
        Search(corpus=str(corpus_file)).tasks("train")


def test_tasks_that_are_not_ours_are_refused() -> None:
    env, task = Search(), Search().tasks("test", n=1)[0]
    with pytest.raises(EnvironmentFault, match="must come first"):
        env.step("search: x")
    with pytest.raises(EnvironmentFault, match="environment 'quest'"):
        env.reset(Task("quest", "x"))
    changed = {**task.data, "corpus": {"world": ["test", 0, 0], "hash": "0" * 16}}
    for data, message in (
        (None, "'question' and 'answers'"),
        ({"question": "Q", "answers": []}, "no right answer"),
        ({"question": "Q", "answers": "abc"}, "must be a list of texts"),
        ({**task.data, "documents": [3]}, "'documents' must be"),
        (changed, r"hash 0000.*agentgym version"),
        ({**task.data, "corpus": {"world": ["nowhere", 0, 0]}}, "must be \\[split, seed, block\\]"),
        ({**task.data, "corpus": "closed"}, "must be an object"),
    ):
        with pytest.raises(DataError, match=message):
            env.reset(Task("search", "x", data=data))


def test_no_heavy_library_is_loaded() -> None:
    code = (
        "import sys, agentgym; env = agentgym.make('search'); env.reset(env.tasks('test')[0]); env.step('search: x');"
        "sys.exit(bool({'torch', 'transformers', 'fastapi', 'faiss', 'usearch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("option", ["data", "corpus", "questions", "vectors", "encoder"])
@pytest.mark.parametrize("value", [5, True, float("nan"), b"x", "\ud800", [], "", "a\0b"])
def test_paths_are_checked_when_the_environment_is_made(option: str, value: Any) -> None:
    dense = {"retriever": "dense", "vectors": "v", "encoder": "e"} if option in ("vectors", "encoder") else {}
    with pytest.raises(ConfigError, match=f"environment 'search': {option} must be the path of"):
        Search(**{**dense, option: value})


def test_other_options_are_checked_when_the_environment_is_made() -> None:
    for option in ("retriever_timeout", "retriever_deadline"):
        for value in (-1, 0, True, float("nan"), float("inf"), 1e300, "5"):
            with pytest.raises(ConfigError, match=f"{option} must be a number of seconds"):
                Search(**{option: value})  # type: ignore[arg-type]
    for option in ("retriever", "metric", "notation", "backend"):
        with pytest.raises(UnknownNameError, match=f"{option} of environment 'search'"):
            Search(**{option: ["http://127.0.0.1/retrieve"]})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="go with retriever=dense"):
        Search(vectors="v.safetensors")


@pytest.mark.parametrize("hops", [1.5, [1.0], float("nan"), True, "1", {}, [], [1, 1], [[1]], object()])
def test_wrong_hops_are_refused_when_listed(hops: Any) -> None:
    with pytest.raises(ConfigError, match="hops must be different whole numbers from 1 to 4"):
        Search().tasks("test", hops=hops)


def test_no_list_of_tasks_is_endless() -> None:
    with pytest.raises(ConfigError, match="n must be an integer from 1 to 1000000, got 1000000000000"):
        Search().tasks("test", n=10**12)


@pytest.mark.parametrize("note", [None, [], {}, 0, "", {"name": "file"}, {"name": "closed"}])
def test_a_task_whose_passages_cannot_be_checked_is_refused(corpus_file: Path, note: Any) -> None:
    env = Search(corpus=str(corpus_file))
    env.reset(task_of())  # says nothing about its passages
    with pytest.raises(DataError, match="'corpus' must be an object with the 'hash'"):
        env.reset(task_of(corpus=note))
    with pytest.raises(DataError, match="made for passages with hash None"):
        env.reset(task_of(corpus={"hash": None}))
