"""Action parsing: what counts as an action, and that hostile responses cost linear time."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.parsing import ActionFormat, ParsedAction

PLAIN = ActionFormat()
STRICT = ActionFormat(require_think=True)
MEGABYTE = 1_000_000


@pytest.mark.parametrize(
    ("response", "action"),
    [
        ("<action>go north</action>", "go north"),
        ("<think>hm</think><action>go north</action>", "go north"),
        ("hm</think><action>go north</action>", "go north"),  # the template opened the block
        ("<think><action>no</action></think><action>yes</action>", "yes"),
        ("<think>a</think><think>b</think><action>x</action>", "x"),
        ("text <action>\n x \n</action> text", "x"),
        ("<action>a < b</action>", "a < b"),
    ],
)
def test_valid(response: str, action: str) -> None:
    parsed = PLAIN.parse(response)
    assert (parsed.action, parsed.valid, parsed.problem) == (action, True, "")


@pytest.mark.parametrize(
    ("response", "problem", "sent"),
    [
        ("", "no <action> tag", ""),
        ("go north", "no <action> tag", "go north"),
        ("x" * 50, "no <action> tag", "x" * 30),
        ("<action>go", "never closed", "<action>go"),
        ("<action></action>", "empty", "<action></action>"),
        ("<action>a</action><action>b</action>", "more than one", "a"),
        ("<action>a<action>b</action>", "more than one", "a<action>b"),
        ("<think>for ever", "<think> is never closed", ""),
        ("<think>x <action>go</action>", "<think> is never closed", ""),
        ("<action>" + "y" * 1001 + "</action>", "1001 characters", "y" * 1000),
    ],
)
def test_invalid(response: str, problem: str, sent: str) -> None:
    parsed = PLAIN.parse(response)
    assert not parsed.valid
    assert problem in parsed.problem
    assert parsed.action == sent


@pytest.mark.parametrize("on_invalid", ["stop", "feedback"])
def test_nothing_is_sent(on_invalid: Any) -> None:
    assert ActionFormat(on_invalid=on_invalid).parse("go").action is None


def test_think_block_can_be_demanded() -> None:
    assert STRICT.parse("<action>go</action>").problem == "no <think> block"
    assert STRICT.parse("<action>go</action>").action == "go"
    assert STRICT.parse("<think></think><action>go</action>").valid


def test_without_tags_the_response_is_the_action() -> None:
    bare = ActionFormat(action_tag="", think_tag="")
    assert bare.parse("  go north\n") == ParsedAction("go north", True)
    assert not bare.parse(" \n").valid
    assert "action only" in bare.describe()


def test_tail_zero_sends_nothing_of_the_text() -> None:
    assert ActionFormat(tail=0).parse("go north").action == ""


@pytest.mark.parametrize(
    "bad",
    [
        {"action_tag": "<a>"},
        {"think_tag": "a b"},
        {"require_think": True, "think_tag": ""},
        {"on_invalid": "ignore"},
        {"tail": -1},
        {"max_action": 0},
    ],
)
def test_impossible_formats_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="ActionFormat"):
        ActionFormat(**bad)


def test_describe_names_the_tags() -> None:
    text = ActionFormat("do", "why", require_think=True).describe()
    assert "<do> </do>" in text
    assert "<why> </why>" in text


words = st.text(st.characters(exclude_characters="<>", exclude_categories=["Cs"]), min_size=1).filter(
    lambda t: t.strip()
)
formats = st.builds(ActionFormat, require_think=st.booleans(), action_tag=st.sampled_from(["action", "do", ""]))


@given(formats, words, st.text(st.characters(exclude_characters="<>"), max_size=50))
def test_render_then_parse(form: ActionFormat, action: str, thought: str) -> None:
    parsed = form.parse(form.render(action, thought))
    assert parsed == ParsedAction(action.strip(), True, thought.strip())


pieces = st.lists(
    st.sampled_from(["<think>", "</think>", "<action>", "</action>", "go", " ", "<", ">", "\x00", "é", "<act"]),
    max_size=20,
).map("".join)


@given(formats, pieces | st.text())
def test_anything_gives_an_answer(form: ActionFormat, response: str) -> None:
    parsed = form.parse(response)
    assert parsed.valid is (parsed.problem == "")
    assert parsed.action is not None
    assert len(parsed.action) <= form.max_action
    if parsed.valid:
        assert parsed.action == parsed.action.strip() != ""
        assert parsed.action in response


def _work(form: ActionFormat, response: str) -> Counter[str]:
    """How often each string method ran while parsing; each is one linear pass."""
    calls: Counter[str] = Counter()

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            calls[argument.__name__] += 1

    sys.setprofile(watch)
    try:
        form.parse(response)
    finally:
        sys.setprofile(None)
    calls.pop("setprofile", None)
    return calls


@pytest.mark.parametrize(
    "unit",
    [
        "<action>",
        "</action>",
        "<think>",
        "</think>",
        "<think></think>",
        "<action></action>",
        "<",
        " ",
        "a",
        "<action",
        "\n",
    ],
)
@pytest.mark.parametrize("form", [PLAIN, STRICT, ActionFormat(action_tag="", think_tag="")])
def test_work_does_not_grow_with_the_response(unit: str, form: ActionFormat) -> None:
    """A megabyte takes the same few passes as a short response, so time is linear."""
    small, large = _work(form, unit * 4), _work(form, unit * (MEGABYTE // len(unit)))
    assert large == small or large.total() <= 12
    assert large.total() <= 12


def test_a_megabyte_is_cut() -> None:
    parsed = PLAIN.parse("<action>" + "x" * MEGABYTE + "</action>")
    assert not parsed.valid
    assert parsed.action == "x" * PLAIN.max_action
