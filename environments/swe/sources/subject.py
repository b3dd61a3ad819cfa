"""A package made ready for mutation: its tree, its tests' environment, what passes unharmed, and the bugs to try."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.environments.swe.sources import edits as edits_
from agentgym.environments.swe.sources import venvs
from agentgym.environments.swe.sources.fetch import Fetched, fetch
from agentgym.environments.swe.sources.layout import Layout, find_layout
from agentgym.environments.swe.sources.probing import Baseline, Runtime, baseline
from agentgym.errors import AgentGymError, DataError


@dataclass(frozen=True)
class Subject:
    """Everything that examining one bug needs. ``skipped``: source files that are not mutated, with the reason."""

    fetched: Fetched
    layout: Layout
    requirements: tuple[str, ...]
    runtime: Runtime
    baseline: Baseline
    edits: tuple[edits_.Edit, ...]
    skipped: tuple[str, ...]
    seed: int

    @property
    def files(self) -> dict[str, bytes]:
        """The unharmed tree."""
        return self.fetched.tree.files

    def digest(self) -> str:
        """Identifies the list of bugs to try: a resumed run must have the same."""
        keys = [f"{e.path}:{e.start}:{e.end}:{e.new.hex()}" for e in self.edits]
        return hashlib.sha256("\n".join([self.fetched.sha256, *keys]).encode()).hexdigest()


def runtime_for(requirements: Sequence[str], backend: str = "auto", cover: bool = False) -> Runtime:
    """An environment with ``requirements`` (pytest among them, or ours) and, with ``cover``, coverage beside it."""
    wanted = list(requirements)
    if not any(r.lower().startswith("pytest") and not r.lower().startswith("pytest-") for r in wanted):
        wanted.append(venvs.PYTEST)
    coverage = venvs.environment([venvs.COVERAGE]) if cover else None
    return Runtime(venvs.environment(wanted), coverage, backend)


def prepare(what: str, seed: int, extra: Sequence[str] = (), backend: str = "auto") -> Subject:
    """Fetch, look, install what the tests need, run them unharmed, list the bugs in the order in which to try them.

    ``what`` is NAME==VERSION, an archive or a folder; ``extra`` are packages that the tests need. Raises AgentGymError
    that says what is in the way: no tests, compiled code, tests that cannot be collected, nothing to mutate.
    """
    fetched = fetch(what)
    layout = find_layout(fetched.tree.files, fetched.label, fetched.name, fetched.version)
    runtime = runtime_for([*layout.requires, *extra], backend, cover=True)
    found: list[edits_.Edit] = []
    skipped: list[str] = []
    for path in layout.sources:
        try:
            found += edits_.sites(path, fetched.tree.files[path], seed)
        except DataError as error:
            skipped.append(str(error))
    if not found:
        raise AgentGymError(f"{fetched.label}: found no place for a bug. {' '.join(skipped[:3])}")
    base = baseline(runtime, fetched.tree.files, layout, fetched.label)
    requirements = tuple(venvs.frozen(runtime.place))
    ordered = tuple(edits_.ordered(found, seed))
    return Subject(fetched, layout, requirements, runtime, base, ordered, tuple(skipped), seed)


def source_of(subject: Subject, out: Path) -> dict[str, Any]:
    """How tasks in the file ``out`` refer to the tree: fields of a Source. AgentGymError for a folder elsewhere."""
    fetched = subject.fetched
    if fetched.folder is None:
        return {"kind": "sdist", "name": subject.layout.name, "version": fetched.version, "sha256": fetched.sha256}
    try:
        relative = fetched.folder.relative_to(out.resolve().parent).as_posix()
    except ValueError:
        relative = ""
    if relative in ("", "."):
        raise AgentGymError(
            f"{out}: tasks made of a folder refer to it, so the folder must lie below the tasks file's own; "
            f"{fetched.folder} does not. Write the file beside the folder, or give an archive."
        )
    return {"kind": "inline", "folder": relative, "sha256": fetched.sha256}
