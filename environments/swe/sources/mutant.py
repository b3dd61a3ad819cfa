"""One bug examined: is it one that tests notice, not all of them, twice the same? Then it is a task."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentgym.environments.swe.schema import Source, SWETask, TaskEnv
from agentgym.environments.swe.sources.edits import Edit, Function, is_bug
from agentgym.environments.swe.sources.hiding import split_id, without_tests
from agentgym.environments.swe.sources.issue import issue_text
from agentgym.environments.swe.sources.probing import Probe, Why, run_tests
from agentgym.environments.swe.sources.subject import Subject
from agentgym.sandbox.grading.patches import make_diff

#: the fewest processor seconds that a run of tests gets; an endless loop costs them
LEAST_SECONDS = 10.0
#: what becomes of a bug, in the order in which it is found out
VERDICTS = ("kept", "same-program", "not-covered", "survived", "timeout", "broke", "trivial", "flaky")


@dataclass(frozen=True)
class Rules:
    """What is kept. ``max_failing``: share of the passing tests that may fail at most; ``hide``: take the failing tests
    out of the tree that the agent gets; ``source``: how tasks refer to the tree (fields of Source without patch);
    ``timeout``: seconds that a grader gives one run of a task's tests; not measured, so that runs agree."""

    source: Mapping[str, Any]
    max_failing: float = 0.5
    hide: bool = True
    timeout: float = 120.0


@dataclass(frozen=True)
class Examined:
    """A bug's verdict; ``task`` only where it was kept; ``detail`` in words."""

    verdict: str
    detail: str = ""
    task: SWETask | None = None


def examine(subject: Subject, edit: Edit, rules: Rules) -> Examined:
    """Run the tests that reach the bug, then all tests; keep it where some fail, most pass and both runs agree."""
    source = subject.files[edit.path]
    if not is_bug(edit, source):
        return Examined("same-program")
    tests = subject.baseline.tests_of(edit.path, edit.lines)
    if not tests:
        return Examined("not-covered")
    broken = {**subject.files, edit.path: edit.apply(source)}
    limit = max(LEAST_SECONDS, 8 * subject.baseline.cpu)
    first = run_tests(subject.runtime, broken, subject.layout, sorted(tests), cpu=limit)
    if found := _dropped(subject, first, tests, rules):
        return found
    second = run_tests(subject.runtime, broken, subject.layout, cpu=limit)
    if found := _dropped(subject, second, frozenset(subject.baseline.passing), rules):
        return found
    passing = set(subject.baseline.passing)
    if second.failed & tests != first.failed & tests:
        return Examined("flaky", "two runs disagree")
    if second.failed & passing - tests:  # coverage missed tests that notice: they must do so again
        third = run_tests(subject.runtime, broken, subject.layout, cpu=limit)
        if not third.ended or third.failed & passing != second.failed & passing:
            return Examined("flaky", "two runs of all tests disagree")
    return Examined("kept", "", _task(subject, edit, second, broken, rules))


def _dropped(subject: Subject, run: Probe, tests: frozenset[str], rules: Rules) -> Examined | None:
    """The verdict on a run after which nothing more needs to be run."""
    if not run.ended:
        return Examined("timeout" if run.reason == "timeout" else "broke", run.reason[-200:])
    if run.errors:
        return Examined("trivial", "tests cannot be collected")
    if missing := tests - run.outcomes.keys():
        return Examined("broke", f"{len(missing)} tests did not run, such as {min(missing)}")
    failed = run.failed & set(subject.baseline.passing)
    if not failed:
        return Examined("survived", f"{len(tests)} tests pass")
    if len(failed) > rules.max_failing * len(subject.baseline.passing):
        return Examined("trivial", f"{len(failed)} of {len(subject.baseline.passing)} tests fail")
    return None


def instance_id(subject: Subject, edit: Edit) -> str:
    """A durable name that says nothing about the bug: the same tree and edit give the same one."""
    text = f"{subject.fetched.sha256}:{edit.path}:{edit.start}:{edit.end}:{edit.new.hex()}"
    return f"{subject.fetched.label}.{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def _task(subject: Subject, edit: Edit, run: Probe, broken: dict[str, bytes], rules: Rules) -> SWETask:
    passing = set(subject.baseline.passing)
    failing = sorted(run.failed & passing)
    base = without_tests(broken, failing) if rules.hide else broken
    fixed = {edit.path: subject.files[edit.path]}
    test_patch = make_diff(*_changed(base, broken))
    name = subject.fetched.name
    files = {split_id(test)[0] for test in subject.baseline.passing}
    return SWETask(
        instance_id=instance_id(subject, edit),
        repo=name,
        version=subject.layout.version or subject.fetched.version,
        patch=make_diff({edit.path: broken[edit.path]}, fixed),
        test_patch=test_patch,
        problem_statement=_issue(subject, edit, run, failing, broken),
        FAIL_TO_PASS=failing,
        PASS_TO_PASS=sorted(passing & run.passed),
        test_files=sorted(files | {path for path in broken if base.get(path) != broken[path]}),
        pythonpath=list(subject.layout.roots),
        source=Source(**rules.source, patch=make_diff(*_changed(subject.files, base))),
        env=TaskEnv(requirements=list(subject.requirements), timeout=rules.timeout),
        allow_globs=subject.layout.allow_globs,
        license=subject.layout.license,
        kind="mutation",
    )


def _changed(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Both trees with only the files that differ."""
    paths = [path for path in after if before.get(path) != after[path]]
    return {p: before[p] for p in paths if p in before}, {p: after[p] for p in paths}


def _issue(subject: Subject, edit: Edit, run: Probe, failing: list[str], broken: dict[str, bytes]) -> str:
    why = {test: run.why.get(test, Why("AssertionError", "")) for test in failing}
    old, new = subject.files[edit.path].decode(), broken[edit.path].decode()
    secrets = sorted(set(old.split("\n")) ^ set(new.split("\n")))
    document = _docstring(subject.files[edit.path], edit)
    return issue_text(subject.layout.name, subject.layout.version, subject.files, why, secrets, document)


def _docstring(source: bytes, edit: Edit) -> str:
    """The first sentence about the public function that holds the bug; "" where there is none."""
    name = edit.function.rsplit(".", 1)[-1]
    if name.startswith("_"):
        return ""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Function) and node.name == name and node.lineno <= edit.lines[0] <= (node.end_lineno or 0):
            text = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
            return text[:300]
    return ""
