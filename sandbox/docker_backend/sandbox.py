"""The Docker backend: the sandbox's interface over one container."""

from __future__ import annotations

import os
import posixpath
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from agentgym.errors import ConfigError
from agentgym.sandbox import leftovers
from agentgym.sandbox.base import MIB, READ_LIMIT, Limits, Result, Sandbox, SandboxError, check_names
from agentgym.sandbox.docker_backend import container, files, image
from agentgym.sandbox.docker_backend.box import Box, Ran, keeping
from agentgym.sandbox.docker_backend.engine import Engine, engine
from agentgym.sandbox.docker_backend.launch import Shape, launch
from agentgym.sandbox.output import Capture

#: the user of commands; no account of it is needed in an image
USER = 1000
#: seconds for one file operation, and for handing a large image's workspace over to the user
FILES_S, PREPARE_S = 120.0, 600.0
_REPORT = re.compile(rb"^agentgym (\d+) (\d+)\n\Z", re.MULTILINE)
_LONGEST = 131_000  # bytes of one argument: MAX_ARG_STRLEN of Linux is 128 KiB, with what the shell adds


class DockerSandbox(Sandbox):
    """A container without network and capabilities; each command is a new process in it, one at a time.

    ``image``      None: an empty frame with this machine's /usr, read-only; else an image with bash in it, its
                   ``workspace`` as it is there. ``load`` adds to it.
    ``host``       the engine's address; None: ``DOCKER_HOST``, then the current context
    ``user``       ``uid[:gid]`` that commands run as; None: 1000:1000, who is given the image's workspace; ``root`` for
                   images that need it (it has no capabilities but CAP_KILL, yet can spoil its own container)
    ``setup``      bash line in front of every command, for example the activation of a conda environment
    ``workspace``  folder of the image that commands start in
    ``read_only``  None: True without an image, else False. True: nothing outside the workspace and /tmp can be written,
                   and the workspace is memory of at most ``Limits.workspace`` bytes, filled from the image. False: the
                   image's file system is writable, and its total size is **not** limited
    ``pull``       fetch an image that the engine does not have
    ``runtime``    another runtime that the engine knows, for example ``runsc``

    Concurrent ``run`` calls wait for each other. Raises SandboxError and ConfigError.
    """

    backend: ClassVar[str] = "docker"

    def __init__(
        self,
        limits: Limits | None = None,
        mounts: Mapping[str, str] | None = None,
        image: str | None = None,
        host: str | None = None,
        user: str | None = None,
        setup: str = "",
        workspace: str = "/testbed",
        read_only: bool | None = None,
        pull: bool = True,
        runtime: str | None = None,
    ) -> None:
        super().__init__(limits, mounts)
        if not posixpath.isabs(workspace) or posixpath.normpath(workspace) in ("/", "/tmp", "/proc", "/sys", "/dev"):
            raise ConfigError(f"Docker sandbox: workspace must be an absolute folder of its own, got {workspace!r}")
        if user is not None and not re.fullmatch(r"root|\d+(:\d+)?", user):
            raise ConfigError(f"Docker sandbox: user must be 'root', 'uid' or 'uid:gid', got {user!r}")
        if not image and (user is not None or setup or workspace != "/testbed" or read_only is False):
            raise ConfigError("Docker sandbox: user, setup, workspace and read_only=False need an image")
        number, _, group = ("0" if user == "root" else user or str(USER)).partition(":")
        self.user = f"{number}:{group or number}"
        self.workspace = posixpath.normpath(workspace)
        self.image, self.setup, self.pull = image, setup, pull
        self._shape = Shape(
            bare=image is None,
            workspace=self.workspace,
            user=self.user,
            read_only=image is None if read_only is None else read_only,
            mounts=self.mounts,
            limits=self.limits,
            runtime=runtime,
        )
        self._host = host
        self._box: Box | None = None
        self._lock = threading.Lock()
        kept = [target for target in self.mounts.values() if target.startswith("/tmp/")]
        self._kept = "/" + "".join(f"{target.split('/')[2]}/" for target in kept)

    def start(self) -> None:
        """Make and start the container; pulls the image where needed."""
        with self._lock:
            if self._box is not None:
                return
            where = engine(self._host)
            with where.errors("connect"):
                where.api.ping()
            _clear_up_once(where)
            if self.image is None:
                name = image.ensure_skeleton(where, USER)
            else:
                name = self.image
                image.ensure(where, name, self.pull)
            self._box = launch(where, name, self._shape)
            tried = self._run(self._box, self.setup or ":", self.limits, [], b"", self.workspace)
        if tried.exit_code != 0:
            what = f"its setup line {self.setup!r}" if self.setup else "a command"
            said = tried.output[-1000:].strip() or "no output"
            raise SandboxError(f"image {name!r}: {what} ends with exit code {tried.exit_code}: {said}")

    def _started(self) -> Box:
        if self._box is None:
            raise SandboxError("this sandbox is not started: use it in a 'with' block, or call start()")
        return self._box

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
        """Run a bash command line. ``limits.workspace`` and ``.tmp`` stay those of the sandbox."""
        check_names(env or {})
        chosen = self.effective(timeout, limits)
        pairs = [f"{key}={value}" for key, value in (env or {}).items()]
        line = f"{self.setup}\n{command}" if self.setup else command
        folder = posixpath.join(self.workspace, cwd or "")
        for text in (line, folder, *pairs):
            if why := _unfit(text):
                return Result(126, why, why.encode(), 0.0, output_bytes=len(why))
        with self._lock:
            return self._run(self._started(), line, chosen, pairs, stdin, folder)

    def _run(self, box: Box, line: str, limits: Limits, pairs: list[str], stdin: bytes, folder: str) -> Result:
        box.apply(limits)
        capture = Capture(limits.output)

        def sink(data: memoryview) -> bool:
            capture.add(data)
            return capture.total <= limits.output_kill

        size = str(len(stdin)) if stdin else ""
        words = ["/bin/bash", "-p", "-c", container.WRAPPER, "run", line, folder, str(max(1, limits.file_size // 1024))]
        home = [] if self.user.startswith("0:") else ["HOME=/tmp"]
        ran = box.execute(
            [*words, size, self._kept], limits.timeout, sink, user=self.user, environment=[*home, *pairs], stdin=stdin
        )
        return self._result(box, ran, capture)

    def _result(self, box: Box, ran: Ran, capture: Capture) -> Result:
        """Believe the shell around the command only where it ended by itself; else clear up, and count the kills."""
        report = _REPORT.search(ran.stderr)
        whole = report is not None and int(report[1]) == ran.code and ran.code < 128
        total = int(report[2]) if whole and report is not None else box.sweep(self.user)
        oom = box.oom_kills(total)
        killed = {"deadline": "timeout", "stopped": "output"}.get(ran.ended)
        code = 137 if ran.code is None else ran.code
        if killed is None and oom and code == 137:
            killed = "memory"
        return Result(
            exit_code=code,
            output=capture.text(),
            raw=capture.raw,
            seconds=ran.seconds,
            timed_out=killed == "timeout",
            oom=oom,
            output_bytes=capture.total,
            killed=killed,
        )

    def _script(self, script: str, words: list[str], stdin: bytes, keep: int) -> tuple[int, bytes]:
        """Exit code and output of one of our own scripts, in the workspace."""
        heard = bytearray()
        lines = ['cd -- "$0" || exit 9', files.bounded(len(stdin)), script]
        with self._lock:
            ran = self._started().execute(
                ["/bin/bash", "-p", "-c", "\n".join(lines), self.workspace, *words],
                FILES_S,
                keeping(heard, keep),
                user=self.user,
                stdin=stdin,
            )
        if ran.code is None:
            raise SandboxError(f"the container gave more than {keep} bytes, or took longer than {FILES_S:.0f} s")
        if ran.code and ran.code not in files.WHY:
            why = ran.stderr.decode("utf-8", "replace").strip() or f"exit code {ran.code}"
            raise SandboxError(f"the workspace {self.workspace} cannot be reached in the container: {why[-500:]}")
        return ran.code, bytes(heard)

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """A regular file of the workspace."""
        code, data = self._script(files.READ, [str(limit)], files.header(self.relative(path)), limit + 1)
        if code:
            raise SandboxError(f"{path}: {files.WHY[code]}")
        if len(data) > limit:
            raise SandboxError(f"{path}: longer than the limit of {limit} bytes")
        return data

    def write(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Write a file of the workspace as a whole."""
        octal = "" if mode is None else f"{mode & 0o777:o}"
        start = files.header(self.relative(path), octal, str(len(data)))
        code, _ = self._script(files.WRITE, [], start + data, 4096)
        if code:
            raise SandboxError(f"{path}: {files.WHY[code]}")

    def load(self, tree: Mapping[str, bytes] | Path) -> None:
        """Fill the workspace; what is in it stays, files of the same name are replaced."""
        code, _ = self._script(files.UNPACK, [], files.archive(tree, self.relative, self.limits.workspace), 4096)
        if code:
            raise SandboxError(f"the workspace cannot be filled: {files.WHY[code]}")

    def export(
        self, select: Callable[[str], bool] | None = None, *, max_files: int = 20_000, max_bytes: int = 256 * MIB
    ) -> dict[str, bytes]:
        """Regular files of the workspace with one link, except what its user may not read."""
        _, listing = self._script(files.LIST, [], b"", 64 * MIB)
        sizes = files.chosen(listing, select, max_files, max_bytes)
        if not sizes:
            return {}
        _, content = self._script(files.CAT, [], b"".join(path + b"\0" for path in sizes), sum(sizes.values()) + 1)
        return files.split(sizes, content)

    def close(self) -> None:
        """Remove the container. A command that runs in another thread ends with SandboxError."""
        box, self._box = self._box, None
        if box is not None:
            box.remove()


def _unfit(text: str) -> str:
    """Why a text cannot be an argument of a process; "" where it can."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "cannot be executed: it holds characters that are no text (lone surrogates)\n"
    if "\0" in text:
        return "cannot be executed: it holds a NUL byte\n"
    return "cannot be executed: argument list too long\n" if size > _LONGEST else ""


_cleared: set[tuple[int, str]] = set()


def _clear_up_once(where: Engine) -> None:
    """Remove what dead runs left, before this process's first container in an engine."""
    key = (os.getpid(), where.host)
    if key not in _cleared:
        _cleared.add(key)
        leftovers.reap(("docker",))
