"""Two releases of a package as one task: the old source with the new tests fails what the new source passes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from agentgym.environments.swe.schema import Source, SWETask, TaskEnv
from agentgym.environments.swe.sources import venvs
from agentgym.environments.swe.sources.fetch import Fetched, fetch
from agentgym.environments.swe.sources.hiding import split_id
from agentgym.environments.swe.sources.issue import issue_text
from agentgym.environments.swe.sources.layout import Layout, find_layout, is_test
from agentgym.environments.swe.sources.probing import Probe, Runtime, Why, run_tests
from agentgym.environments.swe.sources.subject import runtime_for
from agentgym.errors import AgentGymError, DataError
from agentgym.sandbox.grading.filtering import refusal
from agentgym.sandbox.grading.patches import make_diff


def release_pair(name: str, old: str, new: str, extra: Sequence[str] = (), backend: str = "auto") -> SWETask:
    """The task between two releases of an sdist.

    Base: the old release. Hidden tests: the test files of the new one. Fix: the new one's source, other files left out.
    Raises AgentGymError that says why there is no task: no test tells them apart, tests fail on both, no tests.
    """
    before, after = fetch(f"{name}=={old}"), fetch(f"{name}=={new}")
    old_layout = find_layout(before.tree.files, before.label, before.name, old)
    layout = find_layout(after.tree.files, after.label, after.name, new)
    fixed = _source(after.tree.files, layout)
    base, tests = dict(before.tree.files), _tests(after.tree.files)
    tested = {**base, **tests}
    gone = {path for path in _source(base, old_layout) if path not in fixed}
    solved = {**{path: data for path, data in tested.items() if path not in gone}, **fixed}
    runtime = runtime_for([*layout.requires, *extra], backend)
    label = f"{name} {old} -> {new}"
    fails, passes = _runs(runtime, layout, tested, solved, label)
    f2p = sorted(passes.passed - fails.passed)
    if not f2p:
        raise AgentGymError(f"{label}: no test of {new} fails on {old}, so nothing could be solved")
    p2p = sorted(passes.passed & fails.passed)
    return _task(before, layout, label, (base, tested, solved), f2p, p2p, fails, runtime)


def _source(files: Mapping[str, bytes], layout: Layout) -> dict[str, bytes]:
    """What a solution may change: Python files of the package."""
    allow = tuple(layout.allow_globs)
    return {path: data for path, data in files.items() if path.endswith(".py") and not refusal(path, (), allow, ())}


def _tests(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {path: data for path, data in files.items() if is_test(path)}


def _runs(
    runtime: Runtime, layout: Layout, tested: dict[str, bytes], solved: dict[str, bytes], label: str
) -> tuple[Probe, Probe]:
    """All tests on both trees, twice; tests whose outcome changes count as neither passed nor failed."""
    out = []
    for tree in (tested, solved):
        runs = [run_tests(runtime, tree, layout) for _ in range(2)]
        for run in runs:
            if not run.ended:
                raise AgentGymError(f"{label}: its tests did not end: {run.reason}")
        stable = {test: result for test, result in runs[0].outcomes.items() if runs[1].outcomes.get(test) == result}
        out.append(Probe(True, "", runs[1].seconds, runs[1].cpu, stable, runs[0].why, runs[0].errors))
    fails, passes = out
    if not passes.passed:
        detail = next(iter(passes.errors.items()), ("", ""))
        raise AgentGymError(f"{label}: no test of the new release passes on it. {detail[0]} {detail[1][-200:]}".strip())
    return fails, passes


def _task(
    before: Fetched,
    layout: Layout,
    label: str,
    trees: tuple[dict[str, bytes], dict[str, bytes], dict[str, bytes]],
    f2p: list[str],
    p2p: list[str],
    fails: Probe,
    runtime: Runtime,
) -> SWETask:
    base, tested, solved = trees
    patch = make_diff(tested, solved)
    for what, text in (("source", patch), ("tests", make_diff(base, tested))):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise DataError(f"{label}: the {what} differ in files that are not UTF-8; no task can hold that") from None
    digest = hashlib.sha256(patch.encode()).hexdigest()
    why = {test: fails.why.get(test, Why(*_collection(test, fails))) for test in f2p}
    secrets = [line[1:] for line in patch.split("\n") if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    return SWETask(
        instance_id=f"{before.label}-to-{layout.version}.{digest[:10]}",
        repo=before.name,
        version=before.version,
        patch=patch,
        test_patch=make_diff(base, tested),
        problem_statement=issue_text(layout.name, before.version, tested, why, secrets),
        FAIL_TO_PASS=f2p,
        PASS_TO_PASS=p2p,
        test_files=sorted({split_id(test)[0] for test in (*f2p, *p2p)}),
        pythonpath=list(layout.roots),
        source=Source(kind="sdist", name=layout.name, version=before.version, sha256=before.sha256),
        env=TaskEnv(requirements=venvs.frozen(runtime.place), timeout=120.0 if fails.cpu < 12 else 900.0),
        allow_globs=layout.allow_globs,
        license=layout.license,
        kind="pair",
    )


def _collection(test: str, run: Probe) -> tuple[str, str]:
    """What is said of a test that could not even be collected on the old source."""
    for text in (run.errors.get(split_id(test)[0], ""),):
        last = [line.removeprefix("E").strip() for line in text.splitlines() if line.startswith("E ")]
        if last:
            kind, _, message = last[-1].partition(":")
            return kind.strip() or "Error", message.strip()
    return "AssertionError", ""
