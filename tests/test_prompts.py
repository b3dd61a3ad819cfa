"""Prompt layouts: what the policy sees, turn by turn."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym.parsing import ActionFormat
from agentgym.prompts import PromptLayout
from agentgym.types import Turn

FORMAT = ActionFormat()


def turns(count: int) -> list[Turn]:
    return [
        Turn(i, f"obs {i}", f"<action>act {i}</action>", f"act {i}", f"obs {i + 1}", admissible=(f"a{i}", "b"))
        for i in range(count)
    ]


def render(layout: PromptLayout, count: int, **more: Any) -> list[dict[str, str]]:
    return [dict(m) for m in layout.messages(turns(count), f"obs {count}", ["x", "y"], FORMAT, **more)]


def test_chat_is_append_only() -> None:
    layout = PromptLayout("chat", system="help", show_admissible=True)
    for count in range(4):
        shorter, longer = render(layout, count), render(layout, count + 1)
        assert longer[: len(shorter) - 1] == shorter[:-1]
    assert [m["role"] for m in render(layout, 2)] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert render(layout, 1)[2]["content"] == "<action>act 0</action>"


def test_chat_shows_each_turns_own_admissible_actions() -> None:
    messages = render(PromptLayout("chat", show_admissible=True), 1)
    assert messages[0]["content"] == "obs 0\nAdmissible actions: a0, b"
    assert messages[-1]["content"] == "obs 1\nAdmissible actions: x, y"


def test_chat_hides_the_list_by_default() -> None:
    assert render(PromptLayout("chat"), 0) == [{"role": "user", "content": "obs 0"}]


@pytest.mark.parametrize(
    ("history", "count", "expected"),
    [
        (2, 0, "obs 0"),
        (2, 1, "obs 0\n> act 0\nobs 1"),
        (2, 3, "obs 0\nobs 1\n> act 1\nobs 2\n> act 2\nobs 3"),
        (5, 3, "obs 0\n> act 0\nobs 1\n> act 1\nobs 2\n> act 2\nobs 3"),
        (3, 2, "obs 0\n> act 0\nobs 1\n> act 1\nobs 2"),
        (0, 3, "obs 0\nobs 3"),
    ],
)
def test_window(history: int, count: int, expected: str) -> None:
    (message,) = render(PromptLayout("window", history=history), count)
    assert message == {"role": "user", "content": expected}


def test_window_without_the_task() -> None:
    (message,) = render(PromptLayout("window", history=1, show_task=False), 3)
    assert message["content"] == "obs 2\n> act 2\nobs 3"


def test_window_shows_only_the_present_admissible_actions() -> None:
    (message,) = render(PromptLayout("window", show_admissible=True), 2)
    assert message["content"].count("Admissible actions") == 1
    assert message["content"].endswith("Admissible actions: x, y")


def test_an_empty_admissible_list_is_shown_and_none_is_not() -> None:
    layout = PromptLayout("chat", show_admissible=True)
    assert "Admissible" in layout.messages([], "o", [], FORMAT)[0]["content"]
    assert layout.messages([], "o", None, FORMAT)[0]["content"] == "o"


def test_a_turn_without_action() -> None:
    turn = Turn(0, "obs 0", "?!", None, "obs 1", valid=False)
    (message,) = PromptLayout("window").messages([turn], "obs 1", None, FORMAT)
    assert message["content"] == "obs 0\n> \nobs 1"


def test_system_is_filled_in() -> None:
    layout = PromptLayout(system="{action_help} | {format} | {other}")
    system = render(layout, 0, action_help="go DIR")[0]["content"]
    assert system == f"go DIR | {FORMAT.describe()} | {{other}}"


def test_long_observations_are_cut_with_a_mark() -> None:
    layout = PromptLayout(max_observation=5)
    assert layout.messages([], "123456789", None, FORMAT)[0]["content"] == "12345 [cut: 4 more characters]"
    assert layout.messages([], "12345", None, FORMAT)[0]["content"] == "12345"
    unlimited = PromptLayout(max_observation=0)
    assert unlimited.messages([], "x" * 100_000, None, FORMAT)[0]["content"] == "x" * 100_000


@pytest.mark.parametrize("bad", [{"layout": "tree"}, {"history": -1}])
def test_impossible_layouts_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="prompt"):
        PromptLayout(**bad)


@pytest.mark.parametrize("layout", ["chat", "window"])
def test_rewrites_change_what_is_shown_in_order_and_nothing_else(layout: Any) -> None:
    made = PromptLayout(layout, rewrite=((r"^obs (\d)", r"o\1"), (r"^o0$", "start")), show_admissible=True)
    played = turns(1)
    shown = "\n".join(m["content"] for m in made.messages(played, "obs 1", ["obs 9"], FORMAT))
    assert "start" in shown
    assert "obs 0" not in shown
    assert "o1" in shown
    assert "obs 9" in shown  # actions are never rewritten
    assert played[0].observation == "obs 0"


@pytest.mark.parametrize("rule", [("(", ""), ("a", r"\1"), ("a", r"\g<name>")])
def test_bad_rewrites_are_refused(rule: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="prompt rewrite"):
        PromptLayout(rewrite=(rule,))
