"""Bugs as position edits: what each kind does to a line, and what holds for all of them."""

from __future__ import annotations

import ast
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.environments.swe.sources import edits
from agentgym.environments.swe.sources.edits import Edit, Module
from agentgym.errors import DataError

#: statement within ``def f(self, a, b, items)`` -> kind -> what one of its bugs looks like; None: the line is gone
CASES = [
    ("return a + b", "operator", "return a - b"),
    ("return a // b", "operator", "return a / b"),
    ("return a - b", "swapped-operands", "return b - a"),
    ("total += a", "operator", "total -= a"),
    ("return a < b", "off-by-one", "return a <= b"),
    ("return a < b", "comparison", "return a > b"),
    ("return a is not None", "comparison", "return a is None"),
    ("return a not in items", "comparison", "return a in items"),
    ("return a and b", "boolean", "return a or b"),
    ("return a and b", "condition", "return a"),
    ("return a if b else 1", "condition", "return a if not b else 1"),
    ("return not a", "condition", "return a"),
    ("return True", "constant", "return False"),
    ("return 7", "constant", "return 8"),
    ("return items[a:]", "off-by-one", "return items[a + 1:]"),
    ("return items[: b + 1]", "off-by-one", "return items[: b]"),
    ("return list(range(a))", "off-by-one", "return list(range(a - 1))"),
    ("return max(a, b)", "swapped-arguments", "return max(b, a)"),
    ("return sorted(items, reverse=True)", "dropped-argument", "return sorted(items)"),
    ("return a.strip().lower()", "broken-chain", "return a.strip()"),
    ("return list(items)", "broken-chain", "return items"),
    ("return a", "wrong-variable", "return b"),
    ("self.size = a", "removed-assignment", None),
    ("items.append(a)", "removed-call", None),
    ("raise ValueError(a)", "removed-check", None),
    ("return a", "removed-return", None),
]


def source(*lines: str) -> bytes:
    body = textwrap.indent("\n".join(lines), "    ")
    return f'def f(self, a, b, items):\n    """What 1 + 1 is."""\n    total = 0\n{body}\n'.encode()


def results(text: bytes, kind: str, seeds: int = 8) -> set[str]:
    """The programs that edits of a kind make, over several seeds (they pick stand-ins)."""
    found = [e for seed in range(seeds) for e in edits.sites("m.py", text, seed) if e.kind == kind]
    return {e.apply(text).decode() for e in found}


@pytest.mark.parametrize(("line", "kind", "wanted"), CASES)
def test_kinds(line: str, kind: str, wanted: str | None) -> None:
    text = source(line)
    lines = () if wanted is None else (wanted,)
    assert source(*lines).decode().rstrip() in {made.rstrip() for made in results(text, kind)}


BRANCHES = b"""def f(a):
    if a < 0:
        a = 1
    elif a > 5:
        a = 2
    else:
        a = 3
    if a == 9:
        a = 4
    return a
"""


def test_branches_are_dropped_whole() -> None:
    made = results(BRANCHES, "dropped-branch", 1)
    lines = BRANCHES.decode().split("\n")
    assert (
        made
        == {
            "\n".join(lines[:3] + lines[5:]),  # without elif
            "\n".join(lines[:5] + lines[7:]),  # without else
            "\n".join(lines[:7] + lines[9:]),  # without the second if
        }
    )


def test_the_only_statement_of_a_block_becomes_pass() -> None:
    text = b"def f(a):\n    for x in a:\n        g(x)\n"
    assert results(text, "removed-call", 1) == {"def f(a):\n    for x in a:\n        pass\n"}


def test_break_and_continue_in_for_loops_only() -> None:
    text = b"def f(a):\n    for x in a:\n        if x:\n            break\n    while a:\n        break\n"
    assert results(text, "loop", 1) == {text.decode().replace("break", "continue", 1)}


def test_docstrings_annotations_and_f_strings_are_left_alone() -> None:
    text = b'def f(a: int = 3) -> "x":\n    """One + 1."""\n    b: list[0] = f"{a + 1}"\n    return b\n'
    assert {e.kind for e in edits.sites("m.py", text)} <= {"removed-return", "wrong-variable"}


def test_comments_and_odd_spacing_stay() -> None:
    text = b"def f(a, b):\n    return (  a   +   b  )  # why + here\n"
    assert "def f(a, b):\n    return (  a   -   b  )  # why + here\n" in results(text, "operator", 1)


def test_non_ascii_before_an_edit_does_not_move_it() -> None:
    text = 'def f(a, b):\n    return "ü€𝄞", a + b\n'.encode()
    assert 'def f(a, b):\n    return "ü€𝄞", a - b\n' in results(text, "operator", 1)


def test_windows_line_ends_stay() -> None:
    text = b"def f(a, b):\r\n    c = a\r\n    g(c)\r\n    return c + b\r\n"
    assert "def f(a, b):\r\n    c = a\r\n    return c + b\r\n" in results(text, "removed-call", 1)
    assert "def f(a, b):\r\n    c = a\r\n    g(c)\r\n    return c - b\r\n" in results(text, "operator", 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"# coding: latin-1\nx = '\xe9'\n", "not UTF-8"),
        (b"# coding: latin-1\nx = 1\n", "encoding 'latin-1'"),
        (b"def f(:\n", "not valid Python"),
        (b"x = 1\0\n", "not valid Python"),
        (b"x = 1\rx = 2\n", "carriage returns"),
        (b"\xef\xbb\xbfx = 1\n", "byte order mark"),
        (b"x = 1\n" * 200_000, "bytes of source"),
        (b"x = " + b"(" * 5000 + b")" * 5000, "not valid Python"),
    ],
)
def test_files_that_cannot_be_mutated_are_refused_by_name(text: bytes, said: str) -> None:
    with pytest.raises(DataError, match=r"m\.py") as caught:
        edits.sites("m.py", text)
    assert said in str(caught.value)


def everything() -> bytes:
    """A program with a place for every kind of bug: this project's own code."""
    with open(edits.__file__, "rb") as stream:
        return stream.read()


def test_every_edit_of_a_real_file_changes_its_span_and_parses() -> None:
    text = everything()
    found = edits.sites("m.py", text)
    assert len(found) > 200
    assert len({(e.start, e.end, e.new) for e in found}) == len(found)
    for edit in found:
        made = edit.apply(text)
        assert made[: edit.start] == text[: edit.start]
        assert made[edit.start + len(edit.new) :] == text[edit.end :]
        ast.parse(made)
        first, last = edit.lines
        assert text[: edit.start].count(b"\n") + 1 == first <= last


def test_same_program_is_no_bug() -> None:
    text = b"def f(a):\n    return (a)\n"
    at = text.index(b"(a)\n")
    assert not edits.is_bug(Edit("m.py", at, at + 3, b"a", "x", "f", (2, 2)), text)
    assert not edits.is_bug(Edit("m.py", at, at + 3, b"(", "x", "f", (2, 2)), text)
    assert edits.is_bug(Edit("m.py", at, at + 3, b"b", "x", "f", (2, 2)), text)


@given(st.integers(0, 2**32), st.permutations(range(12)))
def test_the_order_hangs_on_the_seed_alone(seed: int, order: list[int]) -> None:
    text = everything()[:4000].rsplit(b"\n\n\n", 1)[0] + b"\n"
    found = edits.sites("m.py", text)[:12]
    shuffled = [found[i] for i in order if i < len(found)]
    assert edits.ordered(shuffled, seed) == edits.ordered(found, seed)
    assert sorted(edits.ordered(found, seed)) == sorted(found)


def test_every_function_has_its_turn_before_one_has_its_second() -> None:
    text = "\n".join(f"def f{i}(a, b):\n    return a + b\n" for i in range(5)).encode()
    first = edits.ordered(edits.sites("m.py", text), 1)[:5]
    assert {e.function for e in first} == {f"f{i}" for i in range(5)}


def test_names_of_functions_and_lines() -> None:
    text = b"class A:\n    def f(self, a):\n        def g(b):\n            return b + 1\n        return g(a)\n"
    found = {e.function for e in edits.sites("m.py", text)}
    assert found == {"A.f", "A.f.g"}
    assert Module.parse("m.py", text).line_of(text.index(b"return b")) == 4
