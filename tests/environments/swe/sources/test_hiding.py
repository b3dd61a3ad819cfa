"""Tests taken out of a tree: exactly the named functions."""

from __future__ import annotations

from agentgym.environments.swe.sources.hiding import split_id, without_tests
from agentgym.sandbox.grading.patches import apply_patch, make_diff

TESTS = b"""import pytest

# about one
@pytest.mark.parametrize("x", [1,
                               2])
def test_one(x):
    assert x


def test_two():
    def test_three():
        pass

    test_three()


class TestA:
    def test_two(self):
        pass

    def test_four(self):
        pass


class TestB(TestA):
    def test_five(self):
        pass
"""
BASE = b"""class Mixin:
    def test_shared(self):
        pass

    def helper(self):
        pass
"""
FILES = {"tests/test_a.py": TESTS, "tests/__init__.py": BASE, "p.py": b"def test_shared(self): pass\n"}


def test_ids() -> None:
    assert split_id("t.py::A::test_x[a::b[0]]") == ("t.py", "A", "test_x")
    assert split_id("t.py::test_x[1-2]") == ("t.py", "", "test_x")
    assert split_id("t.py::A::test_x") == ("t.py", "A", "test_x")
    assert split_id("t.py") == ("t.py", "", "")


def hidden(*tests: str) -> str:
    return without_tests(FILES, tests)["tests/test_a.py"].decode()


def test_a_function_with_its_decorators_and_all_its_parameters() -> None:
    left = hidden("tests/test_a.py::test_one[2]")
    assert "def test_one" not in left
    assert "parametrize" not in left
    assert "# about one" in left
    assert left.count("def test_two") == 2


def test_functions_of_one_name_are_told_apart() -> None:
    left = hidden("tests/test_a.py::TestA::test_two")
    assert "def test_two():" in left
    assert "def test_two(self)" not in left
    left = hidden("tests/test_a.py::test_two")
    assert "def test_two():" not in left
    assert "def test_three" not in left
    assert "def test_two(self)" in left


def test_an_emptied_class_keeps_pass() -> None:
    left = hidden("tests/test_a.py::TestA::test_two", "tests/test_a.py::TestA::test_four")
    compile(left, "t", "exec")
    assert "class TestA:\n\n    pass\n" in left


def test_an_inherited_test_is_taken_out_where_it_is_defined() -> None:
    out = without_tests(FILES, ["tests/test_a.py::TestB::test_four", "tests/test_a.py::TestB::test_shared"])
    assert b"test_four" not in out["tests/test_a.py"]
    assert b"test_shared" not in out["tests/__init__.py"]
    assert b"helper" in out["tests/__init__.py"]
    assert out["p.py"] == FILES["p.py"]


def test_what_cannot_be_found_stays() -> None:
    tests = [
        "tests/test_a.py::test_nothing",
        "other.py::test_one",
        "tests/test_a.py",
        "tests/test_a.py::Nobody::test_x",
    ]
    assert without_tests(FILES, tests) == FILES
    broken = {"t.py": b"def test_a(:\n"}
    assert without_tests(broken, ["t.py::test_a"]) == broken


def test_the_way_back_is_a_diff() -> None:
    tests = ["tests/test_a.py::TestA::test_two", "tests/test_a.py::test_one[1]", "tests/test_a.py::TestB::test_shared"]
    out = without_tests(FILES, tests)
    assert apply_patch(out, make_diff(out, FILES)) == FILES
