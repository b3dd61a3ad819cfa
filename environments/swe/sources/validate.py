"""Proof of a task: the base fails what it must, the known fix passes, doing nothing earns nothing, nothing leaks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from agentgym.environments.swe.schema import SWETask
from agentgym.environments.swe.sources.layout import normal
from agentgym.environments.swe.sources.repository import history_leaks
from agentgym.environments.swe.sources.trees import Trees, files_of, grader_for, grading_task, trees
from agentgym.errors import AgentGymError
from agentgym.sandbox.grading import Grader, GradingTask
from agentgym.sandbox.grading.filtering import refusal


@dataclass
class Proof:
    """What is known of a task. ``ok``: every check passed; ``problems``: which did not, and how; ``skipped``: why the
    task could not be checked here at all (an image task without its image): neither valid nor invalid."""

    task: str
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    skipped: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.problems and not self.skipped

    @property
    def verdict(self) -> str:
        """valid, invalid or unchecked."""
        return "unchecked" if self.skipped else "valid" if self.ok else "invalid"

    def to_dict(self) -> dict[str, Any]:
        """JSON-compatible."""
        return {"verdict": self.verdict, **asdict(self)}


def prove(task: SWETask, where: Path, grader: Grader) -> Proof:
    """Check one task; ``where`` is the folder of its file. Raises nothing that a task can cause: it is a problem."""
    import time

    proof = Proof(task.instance_id)
    start = time.monotonic()
    try:
        if task.source.kind == "image" or task.env.image:
            proof.skipped = f"its tree is in the image {task.env.image}: validate it where the image runs"
        elif not task.FAIL_TO_PASS:
            proof.skipped = (
                "it has no FAIL_TO_PASS, only a map of expected results; such tasks are graded in their image"
            )
        else:
            _prove(task, where, grader, proof)
    except AgentGymError as error:
        proof.problems.append(str(error))
    proof.seconds = time.monotonic() - start
    return proof


def _prove(task: SWETask, where: Path, grader: Grader, proof: Proof) -> None:
    if not task.patch.strip():
        proof.problems.append("patch is empty: without a known fix nothing shows that the task can be solved")
        return
    found = trees(task, where)
    assert found.fixed is not None
    graded = grading_task(task, found)
    proof.problems += _static(task, found, graded)
    if not proof.problems:
        proof.problems += history_leaks(task, found.base, grader.host)
    if proof.problems:  # nothing is installed and no test is run for a task that is wrong as it stands
        return
    own = grader_for(task, grader)
    _base_fails(task, found, graded, own, proof)
    if proof.problems:
        return
    nothing = own.grade(graded, found.base)
    if nothing.resolved or nothing.share:
        proof.problems.append(f"doing nothing is rewarded: share {nothing.share:.2f}, resolved {nothing.resolved}")
    verdict = own.grade_patch(graded, task.patch)
    if not verdict.resolved:
        why = [str(flag) for flag in verdict.flags] + [f"{t}: {m[:120]}" for t, m in verdict.messages.items()][:3]
        proof.problems.append(
            f"the known fix is not accepted: F2P {verdict.f2p_passed}/{verdict.f2p_total}, P2P "
            f"{verdict.p2p_passed}/{verdict.p2p_total}; {'; '.join([*why, *verdict.notes])[:400] or 'no reason given'}"
        )
    proof.notes += verdict.notes


def _static(task: SWETask, found: Trees, graded: GradingTask) -> Iterable[str]:
    """What can be seen without running anything."""
    assert found.fixed is not None
    hidden = set(graded.hidden)
    tests = files_of(task.FAIL_TO_PASS) | files_of(task.PASS_TO_PASS)
    if missing := sorted(tests - found.tested.keys()):
        yield f"{missing[0]!r} is named by FAIL_TO_PASS or PASS_TO_PASS but is neither in the tree nor in test_patch"
    if loose := sorted(tests - set(task.test_files) - hidden) if task.test_files else []:
        yield f"{loose[0]!r} holds tests of the task but is not among its test_files"
    for path in sorted(graded.gold or ()):
        if path in tests or path in hidden:
            yield f"the known fix changes {path!r}, which holds hidden tests"
        elif why := refusal(path, tests | hidden, task.allow_globs, task.pythonpath, graded.gold or ()):
            yield f"the known fix changes {path!r}, which no solution may change: {why}"
    if odd := sorted(path for path in found.base if any(part == ".git" for part in PurePosixPath(path).parts)):
        yield f"the tree holds {odd[0]!r}: history would be handed over"
    yield from _copies(found, graded)
    package = normal(task.repo.rsplit("/", 1)[-1])
    for requirement in task.env.requirements:
        if normal(re.split(r"[\s\[<>=!~;@]", requirement, maxsplit=1)[0]) == package:
            yield f"env.requirements installs {requirement!r}, the package itself, and with it perhaps the fix"


def _copies(found: Trees, graded: GradingTask) -> Iterable[str]:
    """Files of the base that are the fixed file under another name (``build/lib``, ``*.orig``)."""
    fixed = {data: path for path, data in (graded.gold or {}).items() if data}
    for path, data in found.base.items():
        if data in fixed and path != fixed[data]:
            yield f"the tree holds the fixed {fixed[data]!r} as {path!r}"


def _base_fails(task: SWETask, found: Trees, graded: GradingTask, grader: Grader, proof: Proof) -> None:
    """F2P fail and P2P pass without the fix."""
    run = grader.outcomes(graded, found.base)
    if run.killed:
        proof.problems.append(f"the tests of the base tree were stopped ({run.killed}) after {run.seconds:.0f} s")
        return
    outcomes = run.records.tests
    if passing := [test for test in task.FAIL_TO_PASS if outcomes.get(test) == "passed"]:
        proof.problems.append(f"{len(passing)} of FAIL_TO_PASS pass without the fix, such as {passing[0]}")
    if failing := [test for test in task.PASS_TO_PASS if outcomes.get(test) != "passed"]:
        state = outcomes.get(failing[0], "not collected")
        proof.problems.append(f"{len(failing)} of PASS_TO_PASS do not pass on the base, such as {failing[0]} ({state})")
    if run.records.errors:
        proof.notes.append(f"on the base, pytest could not collect: {run.records.errors[0][:200]}")


def prove_all(
    tasks: list[SWETask], where: Path, grader: Grader, jobs: int = 1, tell: Callable[[Proof], None] | None = None
) -> list[Proof]:
    """Check tasks in parallel; the proofs in the tasks' order, ``tell`` called in it too."""
    out = []
    with ThreadPoolExecutor(jobs, thread_name_prefix="prove") as pool:
        for proof in pool.map(lambda task: prove(task, where, grader), tasks):
            out.append(proof)
            if tell is not None:
                tell(proof)
    return out
