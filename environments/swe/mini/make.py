"""Makes ``tasks.jsonl`` of ``tree/`` and ``bugs.yaml``: ``python -m agentgym.environments.swe.mini.make``.

Issue texts are written by hand; what fails and what passes is found by running the tests. A test holds the file to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from agentgym.environments.swe.schema import Source, SWETask, TaskEnv, task_lines
from agentgym.environments.swe.sources.archive import read_folder
from agentgym.environments.swe.sources.hiding import without_tests
from agentgym.sandbox.grading import Grader, GradingTask
from agentgym.sandbox.grading.patches import make_diff

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Bug:
    """``right`` becomes ``wrong`` in a module; ``issue`` tells what a user sees."""

    name: str
    split: str
    module: str
    right: str
    wrong: str
    title: str
    issue: str


def bugs() -> list[Bug]:
    """Those of ``bugs.yaml``, in its order."""
    return [Bug(**row) for row in yaml.safe_load((HERE / "bugs.yaml").read_text(encoding="utf-8"))]


def made(bug: Bug, tree: dict[str, bytes], passing: set[str], grader: Grader) -> SWETask:
    """The task of a bug. ``passing``: all tests of the package."""
    path = f"pocket/{bug.module}.py"
    assert tree[path].decode().count(bug.right) == 1, f"{bug.name}: {bug.right!r} is not in {path} exactly once"
    broken = {**tree, path: tree[path].decode().replace(bug.right, bug.wrong).encode()}
    outcomes = run(broken, grader)
    failing = sorted(name for name in passing if outcomes.get(name) == "failed")
    assert failing, f"{bug.name}: nothing fails"
    base = without_tests(broken, failing)
    files = sorted({name.split("::")[0] for name in passing})
    return SWETask(
        instance_id=f"pocket-{bug.name}", repo="pocket", version="0.3.0",
        problem_statement=f"{bug.title}\n\n{bug.issue}\n",
        patch=make_diff({path: broken[path]}, {path: tree[path]}), test_patch=make_diff(base, broken),
        FAIL_TO_PASS=failing, PASS_TO_PASS=sorted(name for name in passing if outcomes.get(name) == "passed"),
        test_files=files, source=Source(kind="inline", folder="tree", patch=make_diff(tree, base)),
        env=TaskEnv(timeout=60), license="Apache-2.0", kind=bug.module, split=bug.split,
    )  # fmt: skip


def run(tree: dict[str, bytes], grader: Grader) -> dict[str, str]:
    """Test id -> outcome."""
    files = sorted(path for path in tree if path.startswith("tests/test_"))
    every = GradingTask("mini", tree, {}, tuple(files))
    return grader.outcomes(every, tree).records.tests


def tasks() -> Iterator[SWETask]:
    """All of them, in the order of the list."""
    tree, grader = dict(read_folder(HERE / "tree").files), Grader()
    passing = {name for name, outcome in run(tree, grader).items() if outcome == "passed"}
    yield from (made(bug, tree, passing, grader) for bug in bugs())


if __name__ == "__main__":
    (HERE / "tasks.jsonl").write_text("".join(task_lines(tasks())), encoding="utf-8")
