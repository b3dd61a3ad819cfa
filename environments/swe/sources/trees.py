"""From a task to trees: what the agent gets, what the grader lays over it, what the known fix makes of it."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agentgym.environments.swe.schema import Source, SWETask
from agentgym.environments.swe.sources import venvs
from agentgym.environments.swe.sources.archive import read_archive, read_folder, tree_hash
from agentgym.environments.swe.sources.fetch import fetch_sdist
from agentgym.environments.swe.sources.hiding import split_id
from agentgym.errors import AgentGymError, DataError
from agentgym.sandbox.grading import Grader, GradingTask
from agentgym.sandbox.grading.execution import Host
from agentgym.sandbox.grading.interpreter import Interpreter
from agentgym.sandbox.grading.patches import apply_patch


@dataclass(frozen=True)
class Trees:
    """``base``: what the agent gets; ``tested``: base + hidden tests; ``fixed``: tested + known fix (None: unknown)."""

    base: dict[str, bytes]
    tested: dict[str, bytes]
    fixed: dict[str, bytes] | None


def source_tree(source: Source, where: Path) -> dict[str, bytes]:
    """The tree of a source, its patch applied. ``where``: the folder of the tasks file.

    Raises DataError: not there, another hash, a patch that does not fit; AgentGymError where pip or git fail.
    """
    tree = _plain(source.model_copy(update={"patch": ""}).model_dump_json(), str(where))
    return apply_patch(tree, source.patch, "source.patch")


@lru_cache(maxsize=8)
def _plain(source_json: str, where: str) -> Mapping[str, bytes]:
    """A source without its patch; the same few serve whole files of tasks."""
    source = Source.model_validate_json(source_json)
    if source.kind == "inline" and source.files:
        return {path: text.encode() for path, text in source.files.items()}
    if source.kind == "inline":
        return _folder(source, Path(where))
    if source.kind == "sdist":
        return fetch_sdist(source.name, source.version, source.sha256).tree.files
    if source.kind == "git":
        return _commit(source.name, source.version)
    raise DataError("the tree of an image task is in its image; it is read where the image runs")


def _folder(source: Source, where: Path) -> dict[str, bytes]:
    place = (where / source.folder).resolve()
    if not place.is_relative_to(where.resolve()):
        raise DataError(f"source.folder {source.folder!r} lies outside the folder of the tasks file, {where}")
    files = read_folder(place).files
    if source.sha256 and tree_hash(files) != source.sha256:
        raise DataError(f"{place}: its files are not those that the task was made of (hash {tree_hash(files)[:12]}...)")
    return files


def _commit(repository: str, commit: str) -> dict[str, bytes]:
    """One commit's files; the history stays behind."""
    if repository.startswith("-") or commit.startswith("-"):
        raise DataError(f"source: {repository!r} at {commit!r} is no repository and commit")
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "tree.tar")
        for command in (
            ["git", "clone", "--quiet", "--bare", "--", repository, f"{folder}/copy"],
            ["git", "-C", f"{folder}/copy", "archive", "--format=tar", "--prefix=tree/", "-o", str(archive), commit],
        ):
            clean = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GIT_TERMINAL_PROMPT": "0", "HOME": folder}
            try:
                subprocess.run(
                    command, check=True, capture_output=True, timeout=600, stdin=subprocess.DEVNULL, env=clean
                )
            except (OSError, subprocess.SubprocessError) as error:
                said = getattr(error, "stderr", b"") or b""
                text = said.decode("utf-8", "replace").strip()[-300:] or str(error)
                raise AgentGymError(f"{repository} at {commit}: {text}") from None
        return read_archive(archive).files


def trees(task: SWETask, where: Path) -> Trees:
    """The three trees of a task. Raises DataError and AgentGymError as :func:`source_tree` does."""
    base = source_tree(task.source, where)
    tested = apply_patch(base, task.test_patch, "test_patch")
    return Trees(base, tested, apply_patch(tested, task.patch, "patch") if task.patch.strip() else None)


def grading_task(task: SWETask, found: Trees) -> GradingTask:
    """What the grader needs of a task with FAIL_TO_PASS."""
    paths = found.tested.keys() | found.base.keys()
    hidden = {path: found.tested.get(path) for path in paths if found.tested.get(path) != found.base.get(path)}
    hidden |= {path: found.tested[path] for path in task.test_files if path in found.tested}
    gold = None
    if found.fixed is not None:
        changed = found.fixed.keys() | found.tested.keys()
        gold = {path: found.fixed.get(path) for path in changed if found.fixed.get(path) != found.tested.get(path)}
    return GradingTask(
        task.instance_id, found.base, hidden, tuple(task.FAIL_TO_PASS), tuple(task.PASS_TO_PASS), gold,
        tuple(task.allow_globs), tuple(task.pythonpath), task.env.timeout,
    )  # fmt: skip


class EnvironmentHost(Host):
    """A grader's host that runs tests in an environment of their own requirements."""

    def __init__(self, host: Host, tools: Interpreter) -> None:
        super().__init__(host.backend, host.options, host.limits)
        object.__setattr__(self, "_tools", tools)

    __slots__ = ("_tools",)

    @property
    def interpreter(self) -> Interpreter:
        """The environment's Python and pytest."""
        tools: Interpreter = self._tools  # type: ignore[attr-defined]
        return tools


def grader_for(task: SWETask, grader: Grader) -> Grader:
    """``grader``, or one that runs tests in an environment with the task's requirements, made at the first call.

    Raises AgentGymError where pip cannot provide them.
    """
    if not task.env.requirements and not task.python:
        return grader
    place = venvs.environment(task.env.requirements or [venvs.PYTEST], task.python)
    pytest = next((r.split("==")[1] for r in task.env.requirements if r.lower().startswith("pytest==")), "")
    isolated = grader.host.backend != "unsafe-local"
    tools = Interpreter(str(place / "bin" / "python"), "", venvs.mounts(place) if isolated else {}, pytest)
    other = Grader(grader.host.backend, strict=grader.strict, second_run=grader.second_run,
                   limits=grader.host.limits, options=grader.host.options)  # fmt: skip
    other.host = EnvironmentHost(grader.host, tools)
    return other


def files_of(tests: list[str]) -> set[str]:
    """The files that node ids name."""
    return {split_id(test)[0] for test in tests}
