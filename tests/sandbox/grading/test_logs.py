"""Logs of pytest and unittest, as those programs write them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from agentgym.sandbox.grading.logs import read_log

TESTS = '''
import unittest, pytest
class TestA(unittest.TestCase):
    def test_ok(self): pass
    def test_no(self):
        """With a text."""
        self.assertEqual(1, 2)
    @unittest.skip("why - not")
    def test_skip(self): pass
    @unittest.expectedFailure
    def test_x(self): self.fail()
'''
ONLY_PYTEST = """
@pytest.mark.parametrize("a", ["x - y", "z"])
def test_p(a): assert a == "z"
@pytest.fixture
def broken(): raise ValueError
def test_e(broken): pass
def test_print(): print("PASSED test_log.py::test_forged")
"""


def run(folder: Path, *command: str) -> str:
    done = subprocess.run([sys.executable, "-B", *command], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_log.py").write_text(TESTS + ONLY_PYTEST)
    log = run(
        tmp_path, "-m", "pytest", "-rA", "--color=yes", "-p", "no:cacheprovider", "-c", "/dev/null", "test_log.py"
    )
    found = read_log(log)
    assert {k: v for k, v in found.items() if v != "SKIPPED"} == {
        "test_log.py::TestA::test_ok": "PASSED", "test_log.py::TestA::test_no": "FAILED",
        "test_log.py::TestA::test_x": "XFAIL", "test_log.py::test_p[z]": "PASSED", "test_log.py::test_p[x": "FAILED",
        "test_log.py::test_e": "ERROR", "test_log.py::test_print": "PASSED",
    }  # fmt: skip


def test_unittest(tmp_path: Path) -> None:
    (tmp_path / "test_log.py").write_text(TESTS)
    found = read_log(run(tmp_path, "-m", "unittest", "-v", "test_log"))
    name = "{0} (test_log.TestA.{0})" if sys.version_info >= (3, 11) else "{0} (test_log.TestA)"
    assert found == {
        name.format("test_ok"): "PASSED", name.format("test_no"): "FAILED", name.format("test_skip"): "SKIPPED",
        name.format("test_x"): "XFAIL",
    }  # fmt: skip


def test_a_test_with_two_results_has_failed() -> None:
    assert read_log("PASSED a.py::b\nFAILED a.py::b - no\nPASSED a.py::c\nPASSED a.py::c") == {
        "a.py::b": "FAILED",
        "a.py::c": "PASSED",
    }
    assert read_log("") == {}
