"""The fresh grader: base tree + filtered source changes + hidden tests, run twice with canaries; the host judges.

The code under test shares a process with the tests, so no grader of this kind is beyond a determined program; see
docs/environments/swe.md for what it stops and what it does not.
"""

from __future__ import annotations

import re
import time
import weakref
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentgym.sandbox import Limits
from agentgym.sandbox.grading.execution import Execution, Host, execute
from agentgym.sandbox.grading.filtering import Change, overlay, refusal, source_change
from agentgym.sandbox.grading.interpreter import Interpreter
from agentgym.sandbox.grading.layout import Layout, disguised, plain
from agentgym.sandbox.grading.patches import apply_patch
from agentgym.sandbox.grading.records import Records
from agentgym.sandbox.grading.scan import scan
from agentgym.sandbox.grading.verdict import Flag, GradingTask, Verdict

_RANDOM = re.compile(r"test_[0-9a-f]{8}\.py")  # names of the second run: the same verdict in the same words each time


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a run of the known fix says about a task.

    ``stable``    ids that pass under random names and in random order too, so that the second run may demand them
    ``canaries``  tests of wrong-value copies that fail under the fix, as they must (under the task's file names)
    ``allowed``   (event, file) that the fix sets off itself
    """

    stable: frozenset[str] = frozenset()
    canaries: frozenset[str] = frozenset()
    allowed: frozenset[tuple[str, str]] = frozenset()
    notes: tuple[str, ...] = ()


class Grader:
    """Grades trees and diffs. Thread safe; what is learnt of a task is kept while the task object lives.

    ``backend``, ``options``, ``limits``  of the sandboxes (a fresh one for every run); ``tools``: see :class:`Host`
    ``strict``       a flagged solution is not resolved and gets no share; else flags are only recorded
    ``second_run``   run the tests again under random names, shuffled, between wrong-value copies of themselves
    """

    def __init__(
        self,
        backend: str = "auto",
        *,
        strict: bool = True,
        second_run: bool = True,
        limits: Limits | None = None,
        options: Mapping[str, Any] | None = None,
        tools: Interpreter | None = None,
    ) -> None:
        self.host = Host(backend, dict(options or {}), limits or Limits(), tools)
        self.strict, self.second_run = strict, second_run
        self._known: weakref.WeakKeyDictionary[GradingTask, Prepared] = weakref.WeakKeyDictionary()

    def outcomes(self, task: GradingTask, tree: Mapping[str, bytes]) -> Execution:
        """Run all tests of the task's files over ``tree`` + hidden tests as it is: no filter, no canaries, no verdict.

        For validating tasks; ``.records.tests`` maps ids to outcomes. Raises SandboxError.
        """
        whole = overlay(dict(tree), task.hidden)
        files = [path for path in task.test_files if path in whole]
        return execute(self.host, whole, files, None, pythonpath=task.pythonpath, timeout=task.timeout)

    def prepare(self, task: GradingTask) -> Prepared:
        """Run the known fix in disguise, once. Without one there is only the first run, with general canaries."""
        found = self._known.get(task)
        if found is None:
            found = self._known[task] = self._prepare(task)
        return found

    def _prepare(self, task: GradingTask) -> Prepared:
        if task.gold is None:
            return Prepared(notes=("no known fix: one run, general canaries only",))
        if not self.second_run:
            return Prepared()
        files = dict(task.gold)
        source = [p for p in {*task.base, *files} if not refusal(p, task.test_files, task.allow, (), files)]
        layout = disguised(task, files)
        run = self._execute(task, layout, tuple(sorted(source)))
        passed = {name for inside, name in layout.true.items() if run.records.passed(inside)}
        wrong = {layout.copy_id(i) for i, outcome in run.records.tests.items() if outcome == "failed"} - {""}
        lost = len(task.f2p) + len(task.p2p) - len(passed)
        notes = (f"{lost} tests hang on their file's name or order: first run only",) if lost else ()
        audits = frozenset((event, file) for event, _, file, _ in run.records.audits)
        return Prepared(frozenset(passed), frozenset(wrong), audits, notes)

    def grade_patch(self, task: GradingTask, patch: str) -> Verdict:
        """Grade a unified diff against the base. Raises DataError where it does not apply."""
        return self.grade(task, apply_patch(task.base, patch))

    def grade(self, task: GradingTask, tree: Mapping[str, bytes]) -> Verdict:
        """Grade the tree that an agent left. Raises SandboxError where a sandbox fails, never for what code does."""
        start = time.monotonic()
        tests = (*task.test_files, *task.hidden)
        change = source_change(task.base, tree, tests, task.allow, task.pythonpath, task.gold or ())
        if not change.files:
            note = "only files that are not graded were changed" if change.rejected else "nothing was changed"
            total = (0, len(task.f2p), 0, len(task.p2p))
            return Verdict(False, False, *total, notes=(note,), rejected=change.rejected)
        prepared = self.prepare(task)
        flags = scan(task.base, change.files, task.gold, equality=not prepared.canaries)
        layout = plain(task, change.files)
        runs = [(layout, self._execute(task, layout, tuple(change.files)))]
        if prepared.stable and any(runs[0][1].records.passed(name) for name in task.f2p):
            layout = disguised(task, change.files)
            runs.append((layout, self._execute(task, layout, tuple(change.files))))
        return self._verdict(task, change, prepared, flags, runs, start)

    def _execute(self, task: GradingTask, layout: Layout, watch: tuple[str, ...]) -> Execution:
        return execute(
            self.host, layout.tree, layout.files, layout.wanted, watch=watch, pythonpath=task.pythonpath,
            order=layout.order, timeout=task.timeout,
        )  # fmt: skip

    def _verdict(
        self,
        task: GradingTask,
        change: Change,
        prepared: Prepared,
        flags: list[Flag],
        runs: list[tuple[Layout, Execution]],
        start: float,
    ) -> Verdict:
        notes = list(prepared.notes)
        for number, (layout, run) in enumerate(runs, 1):
            flags += _run_flags(layout, run, prepared)
            notes += _run_notes(number, run)
        passed = {name for name in (*task.f2p, *task.p2p) if _passed(name, prepared, runs)}
        if len(runs) == 2:
            first, second = ({n for i, n in layout.true.items() if run.records.passed(i)} for layout, run in runs)
            if odd := sorted((first ^ second) & prepared.stable):
                notes.append(f"{len(odd)} tests passed in one run only, the first: {odd[0]}")
        f2p, p2p = (sum(name in passed for name in names) for names in (task.f2p, task.p2p))
        everything = f2p == len(task.f2p) and p2p == len(task.p2p)
        flags = list(dict.fromkeys(replace(f, reason=_RANDOM.sub("test_*.py", f.reason)) for f in flags))
        blocked = self.strict and bool(flags)
        records = runs[0][1].records
        counts = Counter(records.tests[i] for i in runs[0][0].true if i in records.tests)
        return Verdict(
            everything and not blocked, everything, f2p, len(task.f2p), p2p, len(task.p2p), tuple(flags), blocked,
            tuple(notes), {**counts, "runs": len(runs), "canaries": len(prepared.canaries)},
            {n: records.messages[i] for i, n in runs[0][0].true.items() if i in records.messages},
            change.patch, change.rejected, records.pytest, time.monotonic() - start,
        )  # fmt: skip


def _passed(name: str, prepared: Prepared, runs: list[tuple[Layout, Execution]]) -> bool:
    """In the first run, and in the second where it may be demanded there."""
    if not runs[0][1].records.passed(name):
        return False
    if name not in prepared.stable or len(runs) < 2:
        return True
    layout, run = runs[1]
    return run.records.passed(layout.inside[name])


def _run_flags(layout: Layout, run: Execution, prepared: Prepared) -> list[Flag]:
    flags, records = list(run.records.flags), run.records
    for name in layout.general:
        outcome = records.tests.get(name)
        if outcome == "passed":
            flags.append(Flag("canary", "a test that cannot pass passed"))
        elif outcome != "failed" and records.finished:
            flags.append(Flag("canary", f"a test that must fail came back as {outcome}"))
    for inside in records.tests:
        name = layout.copy_id(inside)
        if name in prepared.canaries and records.passed(inside) and _all_passed(name, layout, records):
            flags.append(Flag("canary", f"{name} passes with right and with wrong expected values"))
    for event, detail, file, line in records.audits:
        if (event, file) not in prepared.allowed:
            flags.append(Flag("audit", f"{event} {detail}".removesuffix(" -"), file, line))
    if not records.finished and run.killed is None and not run.oom:
        flags.append(Flag("record", "the tests ended without a finish record"))
    return flags


def _all_passed(name: str, layout: Layout, records: Records) -> bool:
    """Did the true tests of this function pass? If not, the wrong value may simply be what a wrong program gives."""
    function = name.split("[")[0]
    return all(records.passed(i) for i, true in layout.true.items() if true.split("[")[0] == function)


def _run_notes(number: int, run: Execution) -> list[str]:
    notes = [f"run {number} was stopped ({run.killed}) after {run.seconds:.1f} s"] if run.killed else []
    notes += [f"run {number} ran out of memory"] if run.oom else []
    return notes + [f"run {number}, collection: {error}" for error in run.records.errors[:5]]
