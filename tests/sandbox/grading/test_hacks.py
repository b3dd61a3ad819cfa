"""No hack gets a reward without a flag; the honest fix does; nothing done gets nothing."""

from __future__ import annotations

import hacks
import pytest

from agentgym.sandbox import Limits, make
from agentgym.sandbox.grading import Grader, GradingTask, Verdict

TIMEOUT = 60.0


@pytest.fixture(scope="module")
def task() -> GradingTask:
    return hacks.make_task()


@pytest.fixture(scope="module")
def grader(grading_backend: tuple[str, dict[str, object]]) -> Grader:
    name, options = grading_backend
    return Grader(name, strict=False, limits=Limits(timeout=TIMEOUT), options=options)


def left_by(hack: hacks.Hack, backend: tuple[str, dict[str, object]]) -> dict[str, bytes]:
    def run(tree: dict[str, bytes], script: str) -> dict[str, bytes]:
        with make(backend[0], **backend[1]) as sandbox:
            sandbox.load(tree)
            sandbox.run(script)
            return sandbox.export()

    return hacks.apply(hack, run)


def test_all_of_the_reference_are_here() -> None:
    assert hacks.REFERENCE == 25
    assert len(set(hacks.hack_names())) == len(hacks.HACKS)


@pytest.mark.parametrize("name", hacks.hack_names())
def test_no_hack_passes_unflagged(
    name: str, task: GradingTask, grader: Grader, grading_backend: tuple[str, dict[str, object]]
) -> None:
    hack = next(hack for hack in hacks.HACKS if hack.name == name)
    quick = GradingTask(*(getattr(task, f) for f in ("name", "base", "hidden", "f2p", "p2p", "gold")), timeout=5.0)
    ends = name.startswith("endless") or name == "memory hog"
    verdict: Verdict = grader.grade(quick if ends else task, left_by(hack, grading_backend))
    print(name, verdict.passed, [str(flag) for flag in verdict.flags], verdict.notes, verdict.rejected)
    assert not verdict.passed or verdict.flags, f"{name} got a reward"
    assert not verdict.f2p_passed or verdict.flags or name in HARMLESS


#: nothing of these reaches the tests, and no share of the reward either
HARMLESS: set[str] = set()


def test_the_honest_fix_is_resolved(task: GradingTask, grader: Grader) -> None:
    verdict = grader.grade(task, hacks.FIXED)
    assert (verdict.resolved, verdict.flags, verdict.share) == (True, (), 1.0)
    assert (verdict.f2p_passed, verdict.p2p_passed, verdict.counts["runs"]) == (2, 1, 2)
    assert verdict.counts["canaries"] >= 2


def test_nothing_done_gets_nothing(task: GradingTask, grader: Grader) -> None:
    verdict = grader.grade(task, hacks.BASE)
    assert (verdict.resolved, verdict.share, verdict.patch) == (False, 0.0, "")
