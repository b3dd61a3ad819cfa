"""Fictional worlds: every question is solved from the words of the passages alone, by a reader of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import lru_cache

import pytest

from agentgym.environments.search import worlds
from agentgym.environments.search.bm25 import INDICES
from agentgym.environments.search.names import SPLITS, split_of
from agentgym.environments.search.phrasing import RELATIONS
from agentgym.environments.search.worlds import SIZES, World, check, make_world

KEYS = [("train", 0, 0), ("train", 0, 1), ("valid", 0, 0), ("test", 0, 0), ("test", 12345, 7)]
CAPITALS = re.compile(r"[A-Z][a-z]+")


def pattern(template: str) -> re.Pattern[str]:
    """A template as a pattern: {s}, {o}, {x} are groups."""
    escaped = re.escape(template)
    return re.compile(re.sub(r"\\\{(.)\\\}", r"(?P<\1>.+)", escaped), re.IGNORECASE)


@lru_cache(maxsize=1)
def patterns() -> tuple[list[tuple[str, re.Pattern[str]]], ...]:
    def of(field: str) -> list[tuple[str, re.Pattern[str]]]:
        return [(name, pattern(text)) for name, relation in RELATIONS.items() for text in getattr(relation, field)]

    return of("facts"), of("phrases"), of("questions")


def read_facts(world: World) -> dict[tuple[str, str], set[str]]:
    """(name, relation) -> objects, from the sentences of the passages; kinds of names are not looked at."""
    known = set(world.kinds) | set(world.rivers)
    facts: dict[tuple[str, str], set[str]] = {}
    for _, text in world.corpus:
        for sentence in re.split(r"(?<=\.) ", text):
            for relation, form in patterns()[0]:
                found = form.fullmatch(sentence)
                if found and found["s"] in world.kinds and (found["o"] in known or found["o"].isdigit()):
                    facts.setdefault((found["s"], relation), set()).add(found["o"])
    return facts


def solve(text: str, facts: dict[tuple[str, str], set[str]], world: World, whole: bool = True) -> set[str]:
    """All answers that a reading of the question gives."""
    bare = text.removeprefix("the ")
    if not whole and bare in world.kinds:
        return {bare}
    answers: set[str] = set()
    for relation, form in patterns()[2 if whole else 1]:
        found = form.fullmatch(text)
        if found:
            for subject in solve(found["x"], facts, world, False):
                answers |= facts.get((subject, relation), set())
    return answers


@pytest.mark.parametrize("key", KEYS)
def test_the_passages_and_nothing_else_answer_every_question_in_one_way(key: tuple[str, int, int]) -> None:
    world = make_world(*key)
    facts = read_facts(world)
    assert {pair: next(iter(objects)) for pair, objects in facts.items()} == world.facts
    assert all(len(objects) == 1 for objects in facts.values())
    for questions in world.questions.values():
        for question in questions:
            assert solve(question.text, facts, world) == {question.answer}, question


@pytest.mark.parametrize("key", KEYS)
def test_questions_need_as_many_passages_as_they_say(key: tuple[str, int, int]) -> None:
    world = make_world(*key)
    texts = dict(world.corpus)
    for hops, questions in world.questions.items():
        assert len({question.text for question in questions}) == len(questions) == worlds.QUESTIONS
        for question in questions:
            assert len(question.titles) == len(question.relations) == hops
            assert question.answer in texts[question.titles[-1]]
            assert question.answer not in question.text
            assert not any(title in question.text for title in question.titles[1:])
            assert not any(question.answer in texts[title] for title in question.titles[:-1])


def test_splits_share_no_word_of_a_name() -> None:
    words: dict[str, set[str]] = {split: set() for split in SPLITS}
    for split, seed, block in KEYS:
        world = make_world(split, seed, block)
        common = {word for form in _forms() for word in form.split()}
        invented = {word for name in [*world.kinds, *world.rivers] for word in name.split()} - common
        assert {split_of(word) for word in invented} == {split}
        assert len(invented) > 400
        words[split] |= invented
    assert not words["train"] & words["valid"]
    assert not words["train"] & words["test"]
    assert not words["valid"] & words["test"]


def _forms() -> tuple[str, ...]:
    from agentgym.environments.search import names

    return (*names.WORK_FORMS, *names.EVENT_FORMS, *names.GUILD_FORMS)


@pytest.mark.parametrize("key", KEYS)
def test_facts_are_consistent(key: tuple[str, int, int]) -> None:
    facts, names = make_world(*key).facts, make_world(*key).names
    assert {kind: len(found) for kind, found in names.items()} == SIZES
    for region in names["region"]:
        assert facts[facts[region, "capital"], "region"] == region
    for person in names["person"]:
        if (person, "mentor") in facts:
            assert int(facts[facts[person, "mentor"], "born"]) <= int(facts[person, "born"])
    for work in names["work"]:
        assert int(facts[work, "published"]) - int(facts[facts[work, "author"], "born"]) >= 18


def test_no_answer_can_be_guessed() -> None:
    world = make_world("test", 0, 0)
    answers = [question.answer for asked in world.questions.values() for question in asked]
    most = max(answers.count(answer) for answer in answers)
    assert most / len(answers) < 0.05
    assert all(answer.isdigit() or answer in world.kinds or answer in world.rivers for answer in answers)


def test_rumours_claim_no_fact() -> None:
    world = make_world("valid", 0, 0)
    rumours = [(title, text) for title, text in world.corpus if title not in world.kinds]
    assert len(rumours) == worlds.RUMOURS
    claims = {relation: pattern(r.rumour) for relation, r in RELATIONS.items()}
    for _, text in rumours:
        for claim in re.findall(r"(?:has it that|wrongly, that|claimed that) (.+?)(?:, but|\.|; no)", text):
            read = [(r, found) for r, form in claims.items() if (found := form.fullmatch(claim))]
            assert read, claim
            assert all(world.facts.get((found["s"], r)) != found["o"] for r, found in read)


def test_a_title_finds_its_passage_and_a_question_does_not_find_the_last() -> None:
    world = make_world("test", 0, 0)
    index = INDICES.get(world.corpus)
    for question in world.questions[4]:
        for title in question.titles:
            assert title in [passage.title for passage in index.search(title, 3)]
    last = [q.titles[-1] in [p.title for p in index.search(q.text, 3)] for q in world.questions[4]]
    assert sum(last) / len(last) < 0.1


def test_a_damaged_world_is_noticed() -> None:
    world = World("train", 3, 0)
    question = world.questions[2][0]
    world.facts[question.titles[0], question.relations[0]] = "Somebody Else"
    with pytest.raises(AssertionError, match="no single answer"):
        check(world)


def test_a_seed_makes_the_same_world_in_every_process() -> None:
    code = "from agentgym.environments.search.worlds import World; print(World('test', 5, 2).corpus.hash)"
    command = [sys.executable, "-c", code]
    for hashing in ("0", "7"):
        env = {"PYTHONHASHSEED": hashing}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
        assert done.stdout.strip() == World("test", 5, 2).corpus.hash
    assert World("test", 5, 3).corpus.hash != World("test", 6, 2).corpus.hash
