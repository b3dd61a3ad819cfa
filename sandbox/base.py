"""One interface for running commands apart from the host: what a backend must do, its limits, a command's result."""

from __future__ import annotations

import dataclasses
import posixpath
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from agentgym.errors import AgentGymError

KIB, MIB = 2**10, 2**20

#: the most bytes :meth:`Sandbox.read` returns unless told otherwise
READ_LIMIT = 8 * MIB


class SandboxError(AgentGymError):
    """A sandbox cannot do what it was asked: no backend, a path outside the workspace, a bound exceeded."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one command, or one sandbox, may use. Sizes in bytes; all > 0.

    Which of them a backend enforces hangs on its mode; docs/sandbox.md has the table.
    """

    timeout: float = 60.0
    """Seconds of wall clock for one command; then its whole tree is killed."""
    memory: int = 512 * MIB
    """Memory of all processes of a command together, with what they write to memory-backed folders."""
    pids: int = 64
    """Processes and threads at the same time."""
    cpus: float = 1.0
    """Cores, as a share of time."""
    file_size: int = 64 * MIB
    """The longest file a process may write."""
    workspace: int = 256 * MIB
    """All files of the workspace together."""
    tmp: int = 64 * MIB
    """All files of /tmp together; empty before every command."""
    output: int = 64 * KIB
    """Output kept of a command: the head and the tail."""
    output_kill: int = 8 * MIB
    """Output beyond which the command is killed."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise SandboxError(f"sandbox limit {field.name!r}: expected a number > 0, got {value!r}")
            if field.type == "int" and not isinstance(value, int):
                raise SandboxError(f"sandbox limit {field.name!r}: expected a whole number, got {value!r}")
        if self.output_kill < self.output:
            raise SandboxError(
                f"sandbox limit 'output_kill' ({self.output_kill}) must not be below 'output' ({self.output})"
            )


@dataclass(frozen=True, slots=True)
class Result:
    """What a command did."""

    exit_code: int
    """As a shell reports it: 128 + signal when the command was killed by one."""
    output: str
    """stdout and stderr in the order they came; control characters stripped or escaped; long ones cut in the middle."""
    raw: bytes
    """The kept bytes as they came: at most ``Limits.output``."""
    seconds: float
    """Wall clock."""
    timed_out: bool = False
    oom: bool = False
    """A process of the command ran into the memory limit and was killed. False also where a backend cannot tell."""
    output_bytes: int = 0
    """All bytes seen, kept or not."""
    killed: str | None = None
    """Why we killed it: ``timeout``, ``output``, ``memory``, ``workspace`` (too many bytes in it), or None."""


#: the longest command line: MAX_ARG_STRLEN of Linux, less its end
LONGEST = 2**17 - 1


def check_names(env: Mapping[str, str]) -> None:
    """Raises SandboxError for names of variables that are none."""
    for name in env:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise SandboxError(f"environment variable {name!r}: names are letters, digits and underscores")


def command_bytes(command: str, env: Mapping[str, str], cwd: str | None) -> bytes | Result:
    """A command line as bytes, or the Result of one that no shell can be given: NUL bytes, or too long.

    Raises SandboxError for names of variables that are none.
    """
    check_names(env)
    try:
        words = command.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # halves of surrogate pairs, which no byte stands for
        words = command.encode("utf-8", "replace")
    try:
        others = [text.encode("utf-8", "surrogateescape") for text in (*env.values(), cwd or "")]
    except UnicodeEncodeError:
        others = [b"\0"]
    if not any(b"\0" in text or len(text) > LONGEST for text in (words, *others)):
        return words
    text = f"bash: the command holds a NUL byte or is longer than {LONGEST} bytes; write a script instead\n"
    return Result(126, text, text.encode(), 0.0, output_bytes=len(text))


class Sandbox(ABC):
    """A workspace, and commands that run over it apart from the host. A context manager.

    ``run`` may be called from several threads; the runs share the workspace and nothing else. Every command is a
    new shell in ``workspace``: nothing but files survives it.
    """

    #: registry name
    backend: ClassVar[str]
    #: the workspace's path as commands see it
    workspace: str = "/testbed"

    def __init__(self, limits: Limits | None = None, mounts: Mapping[str, str] | None = None) -> None:
        self.limits = limits or Limits()
        self.mounts = dict(mounts or {})
        for source, target in self.mounts.items():
            if not posixpath.isabs(target) or ".." in target.split("/"):
                raise SandboxError(f"sandbox mount {source!r}: the path inside must be absolute, got {target!r}")

    @abstractmethod
    def start(self) -> None:
        """Make the sandbox ready, with an empty workspace. Raises SandboxError where the backend does not work."""

    @abstractmethod
    def run(
        self,
        command: str,
        timeout: float | None = None,
        limits: Limits | None = None,
        *,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        cwd: str | None = None,
    ) -> Result:
        """Run one bash command line and wait for it and all its processes.

        ``timeout`` overrides that of ``limits``, which override the sandbox's own. ``env`` adds variables; nothing of
        the host's environment is passed. ``cwd`` is a path inside; relative ones start at the workspace. A command
        that fails, is killed or cannot be executed is a Result, never an exception. Raises SandboxError where the
        sandbox is not started or broken, or there is no folder ``cwd``.
        """

    @abstractmethod
    def read(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """A regular file of the workspace.

        Raises SandboxError: "no such file or folder", "is a folder", "is not a regular file", hard links, a path
        through a link or outside, above the "limit".
        """

    @abstractmethod
    def write(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Write a whole file of the workspace; folders are made. ``mode`` None: the file's own, 0o644 for new ones.

        Raises SandboxError: path outside the workspace or through a link, no regular file, no space left (the old
        content stays).
        """

    @abstractmethod
    def load(self, tree: Mapping[str, bytes] | Path) -> None:
        """Fill the workspace from path -> content, a folder of the host, or a tar file."""

    @abstractmethod
    def export(
        self, select: Callable[[str], bool] | None = None, *, max_files: int = 20_000, max_bytes: int = 256 * MIB
    ) -> dict[str, bytes]:
        """Regular files (one link) of the workspace, path -> content, sorted; links are never followed.

        ``select`` says which paths are read; folders named ``.git`` are left out. Raises SandboxError above a bound.
        """

    def listing(self, path: str = "", depth: int = 2, limit: int = 500) -> list[str]:
        """The first ``limit`` names below a folder of the workspace, sorted, folders with a slash at the end.

        Names inside ``.git`` are left out. Raises SandboxError where there is no such folder.
        """
        folder = f"{self.workspace}/{self.relative(path)}".rstrip("/")
        find = (
            f"cd {shlex.quote(folder)} && find . -mindepth 1 -maxdepth {depth} "
            r"\( -type d -exec printf '%s/\0' {} \; -o -print0 \) | sort -z | grep -zv '/\.git/.' | head -z -n "
        )
        done = self.run(find + str(limit))
        if done.exit_code:
            raise SandboxError(f"{path or '.'}: no such folder")
        return [name.removeprefix("./") for name in done.raw.decode("utf-8", "surrogateescape").split("\0") if name]

    @abstractmethod
    def close(self) -> None:
        """Kill what runs and remove everything of this sandbox. Safe to call twice and before ``start``."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def relative(self, path: str) -> str:
        """``path``, absolute inside or relative to the workspace, as a relative path without ``.`` and doubled slashes.

        Raises SandboxError for NUL bytes, ``..``, over-long paths, and absolute paths outside the workspace.
        """
        if "\0" in path:
            raise SandboxError(f"path {path!r} holds a NUL byte")
        if len(path) > 4000:
            raise SandboxError(f"path of {len(path)} characters; the longest allowed is 4000")
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise SandboxError(f"path {path!r} holds '..'; give a path below {self.workspace}")
        if path.startswith("/"):
            root = [part for part in self.workspace.split("/") if part]
            if parts[: len(root)] != root:
                raise SandboxError(f"path {path!r} is outside the workspace {self.workspace}")
            parts = parts[len(root) :]
        return "/".join(parts)

    def effective(self, timeout: float | None, limits: Limits | None) -> Limits:
        """The limits of one command. Raises SandboxError for a timeout that is not > 0."""
        chosen = limits or self.limits
        return chosen if timeout is None else dataclasses.replace(chosen, timeout=timeout)
