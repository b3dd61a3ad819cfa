"""From a small package to proved tasks, in the sandbox."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentgym.environments.swe.schema import read_tasks
from agentgym.environments.swe.sources import campaign, mutant, subject, validate
from agentgym.environments.swe.sources.edits import Edit
from agentgym.environments.swe.sources.mutant import Rules, examine
from agentgym.errors import AgentGymError
from agentgym.sandbox.grading import Grader

CODE = '''"""Counting."""


def total(values, start=0):
    """The sum of ``values`` and ``start``."""
    for value in values:
        if value is None:
            continue
        start += value
    return start


def countdown(n):
    """From n to 1."""
    out = []
    while n > 0:
        out.append(n)
        n -= 1
    return out


def never_called(a, b):
    return a + b
'''
TESTS = '''import pytest
from counting.core import countdown, total


def test_total():
    """Numbers are added."""
    assert total([1, 2, 3]) == 6


def test_total_start():
    assert total([1], 5) == 6


def test_total_none():
    assert total([1, None, 2]) == 3


@pytest.mark.parametrize("n", [0, 2])
def test_countdown(n):
    assert countdown(n) == [2, 1][2 - n:]


def test_import():
    assert total is not countdown


def test_fails_anyway():
    assert False
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "src" / "counting").mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / "src" / "counting" / "__init__.py").write_text("")
    (folder / "src" / "counting" / "core.py").write_text(CODE)
    (folder / "tests" / "test_core.py").write_text(TESTS)
    return folder


def edit_of(made: subject.Subject, old: str, new: str, kind: str = "operator") -> Edit:
    at = CODE.index(old)
    line = CODE[:at].count("\n") + 1
    return Edit("src/counting/core.py", at, at + len(old), new.encode(), kind, "f", (line, line))


def test_a_package_becomes_proved_tasks(tree: Path, own_environment: str, grader: Grader) -> None:
    made = subject.prepare(str(tree), 0, backend=own_environment)
    assert made.layout.roots == ("src",)
    assert len(made.baseline.passing) == 6  # the test that fails anyway counts for nothing
    out = tree.parent / "tasks.jsonl"
    rules = Rules(subject.source_of(made, out))
    done = campaign.run(made, rules, out, 3, 2)
    tasks = read_tasks(out)
    assert tasks == done.tasks
    assert len(tasks) == 3
    proofs = validate.prove_all(tasks, out.parent, grader, 2)
    assert [proof.problems for proof in proofs] == [[], [], []]
    for task in tasks:
        assert task.source.folder == "tree"
        shown = validate.trees(task, out.parent).base["tests/test_core.py"].decode()
        assert not any(f"def {test.split('::')[1].split('[')[0]}(" in shown for test in task.FAIL_TO_PASS)
        assert "+    return a + b" not in task.patch  # in never_called
        assert "core.py" not in task.problem_statement


def test_verdicts(tree: Path, own_environment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutant, "LEAST_SECONDS", 3.0)
    made = subject.prepare(str(tree), 0, backend=own_environment)
    rules = Rules(subject.source_of(made, tree.parent / "t.jsonl"))

    def verdict(old: str, new: str) -> str:
        return examine(made, edit_of(made, old, new), rules).verdict

    assert verdict("return a + b", "return a - b") == "not-covered"
    assert verdict("return start", "return (start)") == "same-program"
    assert verdict("while n > 0", "while n > -0") == "survived"
    assert verdict("        n -= 1\n", "        pass\n") == "timeout"
    assert verdict("return out", "exit(3)") in ("broke", "trivial", "kept")
    assert verdict("start += value", "import os; os._exit(0)") == "broke"
    kept = examine(made, edit_of(made, "start += value", "start -= value"), rules)
    assert kept.verdict == "kept"
    assert kept.task is not None
    noticed = [test.removeprefix("tests/test_core.py::") for test in kept.task.FAIL_TO_PASS]
    assert noticed == ["test_total", "test_total_none", "test_total_start"]
    assert "Numbers are added." in kept.task.problem_statement
    assert "-=" not in kept.task.problem_statement
    assert (
        examine(made, edit_of(made, "start += value", "start -= value"), Rules(rules.source, 0.2)).verdict == "trivial"
    )


def test_nothing_to_work_with(tree: Path, own_environment: str) -> None:
    test = tree / "tests" / "test_core.py"
    for text, said in (
        ("def test_a(): assert 0\n", "none of its tests passes"),
        ("import nothing_like_this\n", "--with NAME"),
        ("def test_a(): pass\n", "run no line of"),
        ("import os; os._exit(3)\n", "did not end"),
    ):
        test.write_text(text)
        with pytest.raises(AgentGymError, match=r"^tree: ") as caught:
            subject.prepare(str(tree), 0, backend=own_environment)
        assert said in str(caught.value)
    (tree / "src" / "counting" / "core.py").write_text("X = 1\n")
    with pytest.raises(AgentGymError, match="no place for a bug"):
        subject.prepare(str(tree), 0, backend=own_environment)


def test_a_folder_elsewhere_is_refused(tree: Path, own_environment: str, tmp_path: Path) -> None:
    made = subject.prepare(str(tree), 0, backend=own_environment)
    for out in (tmp_path / "other" / "t.jsonl", tree / "t.jsonl"):
        with pytest.raises(AgentGymError, match="must lie below"):
            subject.source_of(made, out)


def test_killed_and_resumed(tree: Path, backend: str, tmp_path: Path) -> None:
    """kill -9 while bugs are examined; the next run goes on and ends with the bytes of a run that was left alone."""
    script = Path(__file__).with_name("mutate_here.py")

    def verdicts(out: str) -> dict[int, str]:
        rows = (tmp_path / f"{out}.log").read_text().split("\n")[1:-1]
        return {row["bug"]: row["verdict"] + row["detail"] for row in map(json.loads, rows)}

    def command(out: str, jobs: int) -> list[str]:
        mode = ["--unsafe-local"] if backend == "unsafe-local" else []
        return [sys.executable, str(script), "swe", "mutate", str(tree), "--out", str(tmp_path / out), "--n", "3",
                "--jobs", str(jobs), *mode]  # fmt: skip

    log = tmp_path / "a.jsonl.log"
    first = subprocess.Popen(command("a.jsonl", 2), stderr=subprocess.DEVNULL, start_new_session=True)
    end = time.monotonic() + 200
    while time.monotonic() < end and first.poll() is None and not (log.exists() and log.read_bytes().count(b"\n") > 1):
        time.sleep(0.02)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert log.read_bytes().count(b"\n") > 1
    for out, jobs in (("a.jsonl", 2), ("b.jsonl", 1)):
        done = subprocess.run(command(out, jobs), capture_output=True, text=True, timeout=250)
        assert done.returncode == 0, done.stderr
    first_of, alone = verdicts("a.jsonl"), verdicts("b.jsonl")
    assert {bug: first_of[bug] for bug in alone} == alone
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert len(read_tasks(tmp_path / "a.jsonl")) == 3
