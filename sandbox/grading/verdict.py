"""What a grader needs to know about a task, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class GradingTask:
    """A task as the grader sees it. Trees map paths to bytes.

    ``base``         the tree that the agent was given
    ``hidden``       files of the hidden tests as they stand in full (None: not there), laid over the base
    ``gold``         the files of the known fix in full (None: deleted), or None where no fix is known
    ``f2p, p2p``     pytest ids, relative to the tree: must pass, failed before; must pass, passed before
    ``allow``        globs of files that a solution may change; ``**`` crosses folders
    ``pythonpath``   folders of the tree to import from
    ``timeout``      seconds for one run of the tests
    """

    name: str
    base: Mapping[str, bytes]
    hidden: Mapping[str, bytes | None]
    f2p: tuple[str, ...]
    p2p: tuple[str, ...] = ()
    gold: Mapping[str, bytes | None] | None = None
    allow: tuple[str, ...] = ("**/*.py",)
    pythonpath: tuple[str, ...] = (".",)
    timeout: float = 120.0

    @property
    def test_files(self) -> tuple[str, ...]:
        """Files that hold the tests to be run, sorted."""
        return tuple(sorted({name.split("::")[0] for name in (*self.f2p, *self.p2p)}))


@dataclass(frozen=True, slots=True)
class Flag:
    """Something that an honest fix has no need for. ``kind``: ``source`` (read in the diff), ``audit`` (seen while the
    tests ran), ``canary`` (a test that must fail passed), ``record`` (forged or inconsistent results)."""

    kind: str
    reason: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        at = f" ({self.file}:{self.line})" if self.file and self.line else f" ({self.file})" if self.file else ""
        return f"{self.kind}: {self.reason}{at}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The grader's answer.

    ``passed``    every test that must pass did, in every run
    ``resolved``  ``passed``, and nothing was flagged (a grader that is not strict only records flags)
    ``share``     F2P tests passed / all F2P tests; 0 where flags block
    ``patch``     the diff that was graded; ``rejected``: changed files that were left out of it, with the reason
    ``notes``     what a reader should know; ``counts``: tests by outcome of the first run, bad records, canaries
    ``messages``  test id -> first words of its failure, as the code under test gave them
    ``pytest``    version that ran; ``seconds``: wall clock of the whole grading
    """

    resolved: bool
    passed: bool
    f2p_passed: int
    f2p_total: int
    p2p_passed: int
    p2p_total: int
    flags: tuple[Flag, ...] = ()
    blocked: bool = False
    notes: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    messages: Mapping[str, str] = field(default_factory=dict)
    patch: str = ""
    rejected: Mapping[str, str] = field(default_factory=dict)
    pytest: str = ""
    seconds: float = 0.0

    @property
    def share(self) -> float:
        """In [0, 1]."""
        return 0.0 if self.blocked or not self.f2p_total else self.f2p_passed / self.f2p_total

    def to_dict(self) -> dict[str, Any]:
        """JSON-compatible; flags as texts."""
        out = asdict(self)
        out["flags"] = [str(flag) for flag in self.flags]
        out["notes"] = list(self.notes)
        return out | {"share": self.share}
