"""Tasks whose repository is in a container image: the agent's container, and a fresh one for grading."""

from __future__ import annotations

import posixpath
import secrets
import shlex
import time
from collections.abc import Mapping
from functools import lru_cache

from agentgym.environments.swe.bench import Bench
from agentgym.environments.swe.options import Options
from agentgym.environments.swe.schema import SWETask
from agentgym.environments.swe.sources import r2e
from agentgym.environments.swe.sources.repository import make_repository
from agentgym.environments.swe.sources.trees import Trees, grading_task
from agentgym.environments.swe.tasks import Loaded
from agentgym.sandbox import Limits, Sandbox, SandboxError, make
from agentgym.sandbox.edit import Editor
from agentgym.sandbox.grading import Flag, Verdict
from agentgym.sandbox.grading.canaries import GENERAL, GENERAL_TESTS, random_name
from agentgym.sandbox.grading.filtering import matches, source_change
from agentgym.sandbox.grading.logs import GOOD, read_log
from agentgym.sandbox.grading.patches import apply_patch, read_diff
from agentgym.sandbox.grading.scan import scan

_OUTPUT = 16 * 2**20
#: files of the grader that R2E-Gym's images keep in the repository: the agent does not get them
_HIDDEN = "rm -rf .git r2e_tests run_tests.sh"


def container(options: Options, row: SWETask, limits: Limits) -> Sandbox:
    """A started container of the task's image. Raises SandboxError."""
    box = make("docker", limits=limits, image=row.env.image, mounts=dict(options.image_mounts), setup=row.env.setup)
    try:
        box.start()
    except BaseException:
        box.close()
        raise
    return box


class ImageBench(Bench):
    """The agent's container: the image's repository with one new commit in place of its history."""

    def __init__(self, options: Options, row: SWETask) -> None:
        self.limits = options.limits()
        self.box = container(options, row, self.limits)
        self.editor = Editor(self.box)
        try:
            removed = self.box.run(_HIDDEN, 120)
            if removed.exit_code:
                raise SandboxError(f"the image's history cannot be removed: {removed.output[-300:].strip()}")
            make_repository(self.box)
        except BaseException:
            self.box.close()
            raise

    def variables(self, box: Sandbox) -> dict[str, str]:
        """The image has its own."""
        return {"PAGER": "cat"}


@lru_cache(maxsize=16)
def image_task(options: Options, row_json: str) -> Loaded:
    """The trees of an image task: only the files that a solution may change, or that the task's patches touch.

    Raises SandboxError, and DataError where a patch does not fit.
    """
    row = SWETask.model_validate_json(row_json)
    touched = {p for diff in (row.patch, row.test_patch) for c in read_diff(diff) for p in (c.before, c.after) if p}
    with container(options, row, options.limits()) as box:
        base = box.export(lambda path: path in touched or matches(path, row.allow_globs))
    base = apply_patch(base, row.source.patch, "source.patch")
    tested = apply_patch(base, row.test_patch, "test_patch")
    fixed = apply_patch(tested, row.patch, "patch") if row.patch.strip() else None
    found = Trees(base, tested, fixed)
    return Loaded(row, found, grading_task(row, found))


def grade(options: Options, found: Loaded, tree: Mapping[str, bytes]) -> Verdict:
    """Grade in a fresh container: the filtered changes, the hidden tests, the task's own command, its log.

    Raises SandboxError where a container fails.
    """
    start, row, task = time.monotonic(), found.row, found.graded
    tests = (*task.test_files, *task.hidden)
    change = source_change(task.base, tree, tests, task.allow, task.pythonpath, task.gold or ())
    totals = len(task.f2p), len(task.p2p)
    if not change.files:
        return Verdict(
            False, False, 0, totals[0], 0, totals[1], notes=("nothing was changed",), rejected=change.rejected
        )
    flags = scan(task.base, change.files, task.gold, equality=True)
    log, notes, canaries = _run(options, found, {**change.files, **task.hidden})
    if row.expected:
        outcomes = r2e.parse_log(log)
        passed = r2e.same(outcomes, row.expected)
    else:
        outcomes, passed = read_log(log), False
    f2p, p2p = (sum(outcomes.get(name) in GOOD for name in names) for names in (task.f2p, task.p2p))
    passed = passed or (not row.expected and (f2p, p2p) == totals)
    flags += _canary_flags(canaries, outcomes, notes)
    blocked = options.strict and bool(flags)
    return Verdict(
        passed and not blocked, passed, f2p, totals[0], p2p, totals[1], tuple(flags), blocked,
        ("read from a log, not from keyed records", *notes), {"tests": len(outcomes)}, {}, change.patch,
        change.rejected, seconds=time.monotonic() - start,
    )  # fmt: skip


def _run(options: Options, found: Loaded, files: Mapping[str, bytes | None]) -> tuple[str, list[str], list[str]]:
    """The log of the tests, notes, and the ids of the canaries that stood among them."""
    row = found.row
    limits = Limits(
        timeout=row.env.timeout, memory=options.limits().memory, pids=max(options.pids, 256), output=_OUTPUT,
        output_kill=2 * _OUTPUT,
    )  # fmt: skip
    command, canaries = row.env.test_cmd, list[str]()
    with container(options, row, limits) as box:
        if row.source.patch:
            files = {**{p: found.trees.base.get(p) for c in read_diff(row.source.patch) for p in [c.path]}, **files}
        for path, data in files.items():
            if data is None:
                box.run(f"rm -f -- {shlex.quote(path)}", 60)
            else:
                box.write(path, data)
        if command.startswith("pytest "):
            path = random_name(posixpath.dirname((found.graded.test_files or ("",))[0]), secrets.SystemRandom())
            box.write(path, GENERAL.encode())
            command += f" {shlex.quote(path)}"
            canaries = [f"{path}::{name}" for name in GENERAL_TESTS]
        result = box.run(command, limits=limits)
    notes = [f"the tests were stopped ({result.killed}) after {result.seconds:.0f} s"] if result.killed else []
    return result.raw.decode("utf-8", "replace"), notes, canaries


def _canary_flags(canaries: list[str], outcomes: Mapping[str, str], notes: list[str]) -> list[Flag]:
    flags = []
    if any(outcomes.get(name) in GOOD for name in canaries):
        flags.append(Flag("canary", "a test that cannot pass passed"))
    elif canaries and not notes and not any(outcomes.get(name) == "FAILED" for name in canaries):
        flags.append(Flag("canary", "tests that must fail are not in the log"))
    return flags
