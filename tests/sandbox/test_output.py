"""Output: bounded, and safe to show."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.sandbox.output import Capture, clean, escape


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x\x1b]8;;http://a\x1b\\y", "xy"),
        ("\x1b(B\x1b=\x1b7a", "a"),
        ("\x1b[31", "\\x1b[31"),
        ("50%\r100%\r\n", "50%\n100%\n"),
        ("a\x00b\x08c\x7f\x9b", "a\\x00b\\x08c\\x7f\\x9b"),
        ("\u202eabc\u2066\u200b\ufeff\u061c", "\\u202eabc\\u2066\\u200b\\ufeff\\u061c"),
        ("\u2028\u2029\x85", "\\u2028\\u2029\\x85"),
        ("\U000e0041\ue000\ud800", "\\U000e0041\\ue000\\ud800"),
        ("naïve 漢字 🙂 é", "naïve 漢字 🙂 é"),
    ],
)
def test_clean(raw: str, shown: str) -> None:
    assert clean(raw) == shown


def test_escape_keeps_terminal_sequences_visible() -> None:
    assert escape("\x1b[31mred\r\n") == "\\x1b[31mred\\x0d\n" or escape("\x1b[31mred\r\n") == "\\x1b[31mred\\r\n"


@given(st.text(st.characters()))
def test_nothing_hidden_is_left(text: str) -> None:
    for shown in (clean(text), escape(text)):
        for character in shown:
            assert character in "\n\t" or unicodedata.category(character) not in (
                "Cc",
                "Cf",
                "Cs",
                "Zl",
                "Zp",
                "Cn",
                "Co",
            )
        assert clean(shown) == shown
        shown.encode()


def test_clean_takes_linear_time() -> None:
    for piece in ("\x1b]", "\x1b[", "\x1b[1;", "\x1b(", "\x1b\x1b", "\x1bP\x07"):
        clean(piece * 40_000)


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 60))
def test_capture_keeps_head_and_tail(parts: list[bytes], limit: int) -> None:
    whole = b"".join(parts)
    capture = Capture(limit)
    for part in parts:
        capture.add(part)
    assert capture.total == len(whole)
    if len(whole) <= limit:
        assert capture.raw == whole
        assert capture.left_out == 0
        assert capture.text() == clean(whole.decode("utf-8", "replace"))
    else:
        head = limit - limit // 2
        assert capture.raw == whole[:head] + whole[len(whole) - limit // 2 :]
        assert capture.left_out == len(whole) - limit
        assert "bytes left out" in capture.text()


def test_the_cut_splits_no_character() -> None:
    capture = Capture(10)
    capture.add("ü".encode() * 50)
    assert capture.text() == "üü\n[... 92 bytes left out ...]\nüü"


def test_capture_stays_small() -> None:
    capture = Capture(1000)
    for _ in range(1000):
        capture.add(bytes(997))
    assert len(capture._head) + len(capture._tail) <= 1000 + 1000
    assert capture.total == 997_000
