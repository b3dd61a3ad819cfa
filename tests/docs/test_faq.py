"""docs/faq.md: each message that it quotes is one that the code still gives, word for word."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
MESSAGES = re.findall(r"^```text\n(.+?)\n```$", TEXT, re.M | re.S)
GAP = "\0"  # what the code fills in, and what the page writes as <...>


def literal(node: ast.AST) -> str | None:
    """The text of a string or f-string; whatever it formats is a gap."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else GAP for part in node.values)
    return None


@functools.cache
def texts() -> tuple[str, ...]:
    """Every string in the code."""
    found = []
    for folder in ("agentgym", "credit", "environments", "trainers", "sandbox", "leaderboards"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            found += [literal(node) or "" for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    return tuple(text for text in found if len(text) > 10)


def occurs(message: str) -> bool:
    wanted = re.sub(r"<[^<>]+>", GAP, message)
    return any(wanted in text for text in texts())


def test_the_page_has_messages_with_words_of_their_own() -> None:
    assert len(MESSAGES) > 30
    assert len(set(MESSAGES)) == len(MESSAGES)
    for message in MESSAGES:
        assert "\n" not in message
        assert len(re.sub(r"<[^<>]+>", "", message)) >= 9


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message[:40])
def test_the_message_is_still_in_the_code(message: str) -> None:
    assert occurs(message), f"no string of the code holds {message!r}; the page must follow the code"


def test_a_message_that_is_not_in_the_code_is_noticed() -> None:
    assert not occurs(MESSAGES[0] + " of another kind")
