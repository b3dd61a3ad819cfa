"""Notations of actions, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.environments.search.actions import MOST, NOTATIONS, clean, parse, write
from agentgym.parsing import ActionFormat


@pytest.mark.parametrize(
    ("action", "kind", "text"),
    [
        ("search: who wrote it", "search", "who wrote it"),
        ("  Search :".replace(" :", ":") + "x", "search", "x"),
        ("answer: 12: 30", "answer", "12: 30"),
        ("search[capital of [x]]", "search", "capital of [x]"),
        ("finish[Rome]", "answer", "Rome"),
        ("answer[Rome", "answer", "Rome"),
        ("<search> capital </search>", "search", "capital"),
        ("I need more. <search>capital</search> and so on", "search", "capital"),
        ("<answer>Rome", "answer", "Rome"),  # the stop string was left out
        ("<ANSWER>Rome</ANSWER>", "answer", "Rome"),
        ("<judge>Yes.</judge>", "judge", "yes"),
        ("judge: no", "judge", "no"),
        ("search: a\x00b\n\t c\u2028d\ud800", "search", "a b c d"),
    ],
)
def test_what_is_read(action: str, kind: str, text: str) -> None:
    read = parse(action)
    assert (read.kind, read.text, read.problem) == (kind, text, "")


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        ("", "neither"),
        ("Rome", "neither"),
        ("research: x", "neither"),
        ("search:", "query is empty"),
        ("<answer> \n </answer>", "answer is empty"),
        ("<search>\x00\x07</search>", "query is empty"),
        ("<search>a</search><search>b</search>", "more than one"),
        ("<search>a</search><answer>b</answer>", "more than one"),
        ("judge: perhaps", "yes or no"),
        ("x" * 100_000, "neither"),
        ("<search>" * 12_500, "more than one"),
    ],
)
def test_what_is_refused(action: str, problem: str) -> None:
    read = parse(action)
    assert not read.kind
    assert problem in read.problem


def test_long_texts_are_cut_and_say_so() -> None:
    read = parse("search: " + "word " * 20_000)
    assert (read.kind, len(read.text), read.cut) == ("search", MOST, True)
    assert parse("<answer>" + "y" * 100_000 + "</answer>").cut
    assert not parse("search: short").cut


@given(st.sampled_from(["search", "answer"]), st.text(min_size=1, max_size=200), st.sampled_from(NOTATIONS))
def test_what_is_written_is_read(kind: str, text: str, notation: str) -> None:
    wanted = clean(text)
    if not wanted or "<" in wanted or "[" in wanted[:1]:
        return
    read = parse(write(kind, wanted, notation))
    assert (read.kind, read.text) == (kind, wanted)


@given(st.text(max_size=300))
def test_nothing_raises(action: str) -> None:
    read = parse(action)
    assert bool(read.kind) != bool(read.problem)


def test_search_r1_responses_reach_the_environment_through_an_empty_action_tag() -> None:
    layout = ActionFormat(action_tag="")
    parsed = layout.parse("<think>I must look <search>not this</search></think>\n<search> author of X </search>")
    assert parsed.valid
    assert parse(parsed.action or "").text == "author of X"
