"""Issue texts: what a user would see, and never where the bug is."""

from __future__ import annotations

from agentgym.environments.swe.sources.issue import issue_text
from agentgym.environments.swe.sources.probing import Why

TESTS = b'''import pytest
from pocket import double


@pytest.mark.parametrize("value", [3])
def test_double_numbers(value):
    """Twice the number.

    More about it.
    """
    start = value
    assert double(
        start
    ) == 6
    assert double(4) == 8


def test_other():
    assert double("a") == "aa"
'''
FILES = {"tests/test_double.py": TESTS}
ONE = {
    "tests/test_double.py::test_double_numbers[3]": Why(
        "AssertionError", "assert 5 == 6\n +  where 5 = double(3)", "tests/test_double.py", 12
    )
}
SECRETS = ["    return x * 2", "    return x + 2"]


def text(failing: dict[str, Why], secrets: list[str] = SECRETS, docstring: str = "") -> str:
    return issue_text("pocket", "1.0", FILES, failing, secrets, docstring)


def test_what_it_says() -> None:
    assert text(ONE, docstring="Double a value.") == (
        "# double numbers: wrong result\n\n"
        "Seen with pocket 1.0.\n\n"
        "Twice the number.\n\n"
        "To reproduce (with the values `3`):\n\n"
        "```python\nstart = value\nassert double(\n    start\n) == 6\n```\n\n"
        "The last line should work. Instead:\n\n"
        "```\nAssertionError: assert 5 == 6\n +  where 5 = double(3)\n```\n\n"
        "The documentation says: Double a value.\n"
    )


def test_what_is_left_out() -> None:
    message = (
        'File "/testbed/src/pocket/core.py", line 7\n/opt/x/lib/python3.11/re.py:12: <object at 0x7f001122>\n'
        "src/pocket/core.py:3: \x1b[31mred\x1b[0m ``` end"
    )
    found = text({"tests/test_double.py::test_other": Why("ValueError", message, "tests/test_double.py", 19)})
    for secret in ("core.py", "testbed", "7f001122", "\x1b", "/opt"):
        assert secret not in found
    assert found.count("```") == 4
    assert "unexpected ValueError" in found


def test_the_changed_line_never_appears() -> None:
    secret = 'assert double("a") == "aa"'
    why = Why("AssertionError", f"{secret} failed", "tests/test_double.py", 19)
    found = text({"tests/test_double.py::test_other": why}, [secret, "x"], f"Such as {secret}")
    assert "double(" not in found
    assert "other" in found
    # a line of a few characters, such as 'pass', is everywhere and tells nothing
    assert "double(" in text({"tests/test_double.py::test_other": why}, ["a"])


def test_two_examples_at_most_the_shortest_message_first_and_none_twice() -> None:
    long = Why("ValueError", "x" * 900, "tests/test_double.py", 15)
    found = text({**ONE, "tests/test_double.py::test_other": long, "a.py::test_third_thing": long})
    assert found.startswith("# double numbers")
    assert "It also shows in: " in found
    assert "third thing" in found or "other" in found
    same = {f"t.py::Test{c}::test_x": Why("KeyError", "'a'", "tests/test_double.py", 0) for c in "AB"}
    assert text(same).count("KeyError: 'a'") == 1


def test_a_failure_without_message_or_place() -> None:
    found = text({"gone.py::test_x": Why("KeyError", "", "gone.py", 3)})
    assert "raises KeyError" in found
    assert "To reproduce" not in found


def test_long_bodies_are_cut_at_the_front() -> None:
    body = b"def test_long():\n" + b"".join(b"    x%d = 1\n" % i for i in range(100)) + b"    assert 0\n"
    found = issue_text("p", "", {"t.py": body}, {"t.py::test_long": Why("AssertionError", "assert 0", "t.py", 102)}, [])
    assert "# ...\nx77 = 1" in found
    assert "x76 = 1" not in found
    assert "assert 0\n```" in found
    assert "Seen with p." in found
