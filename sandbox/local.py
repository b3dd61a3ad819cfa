"""``unsafe-local``: commands as plain subprocesses in a temporary folder. Isolates nothing.

Only for people who run commands that they wrote themselves. A deadline and the output's limits hold; the command may
read, write and reach whatever its user may.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import weakref
from collections.abc import Mapping
from typing import ClassVar

from agentgym.errors import ConfigError
from agentgym.sandbox import leftovers
from agentgym.sandbox.base import Limits, Result, SandboxError, command_bytes
from agentgym.sandbox.folders import FolderSandbox
from agentgym.sandbox.output import Capture
from agentgym.sandbox.piping import pipes, pump
from agentgym.sandbox.workspace import Workspace, remove_tree


def check() -> str:
    """It works wherever bash is."""
    return "" if _shell() else "there is no bash on this machine"


def describe() -> str:
    """One line for ``agentgym doctor``."""
    return "no isolation at all; only by name and with unsafe_local=True"


def _shell() -> str:
    return next((path for path in ("/bin/bash", "/usr/bin/bash") if os.access(path, os.X_OK)), "")


def _remove(folder: str, pid: int) -> None:
    """Remove a workspace, unless this is a forked child of the process that made it."""
    if os.getpid() == pid:
        remove_tree(folder)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the command's process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()


class LocalSandbox(FolderSandbox):
    """Plain subprocesses. ``workspace`` is a temporary folder of the host; mounts are links into it or refused."""

    backend: ClassVar[str] = "unsafe-local"

    def __init__(
        self, limits: Limits | None = None, mounts: Mapping[str, str] | None = None, unsafe_local: bool = False
    ) -> None:
        if unsafe_local is not True:
            raise ConfigError(
                "sandbox backend 'unsafe-local' runs commands with all your rights: files, network, processes. "
                "If you trust every command that will run, say so with unsafe_local=True."
            )
        super().__init__(limits, mounts)
        if mounts:
            raise ConfigError("sandbox backend 'unsafe-local' has no mounts: commands see the host's own paths")

    def start(self) -> None:
        """Make the temporary folder."""
        if self._files is None:
            leftovers.reap_once()
            run = leftovers.current()
            self.workspace = os.path.join(tempfile.gettempdir(), f"agentgym-{run.id}-{os.urandom(4).hex()}")
            run.note("folder", self.workspace)
            os.mkdir(self.workspace, 0o700)
            self._remove = weakref.finalize(self, _remove, self.workspace, os.getpid())
            self._files = Workspace(os.open(self.workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

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
        """Run a command with this user's rights; its process group is killed at the deadline."""
        self._started()
        chosen = self.effective(timeout, limits)
        words = command_bytes(command, env or {}, cwd)
        if isinstance(words, Result):
            return words
        folder = os.path.join(self.workspace, cwd or ".")
        if not os.path.isdir(folder):
            raise SandboxError(f"there is no folder {cwd!r} to run a command in")
        variables = {"PATH": os.environ.get("PATH", os.defpath), "HOME": self.workspace, "LANG": "C.UTF-8"}
        marker = {leftovers.MARKER: leftovers.current().id}
        capture = Capture(chosen.output)
        with pipes() as ends:
            process = subprocess.Popen(
                [_shell(), b"-c", words],
                cwd=folder,
                env={**variables, **(env or {}), **marker},
                stdin=ends.stdin,
                stdout=ends.output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            ends.close("stdin", "output")
            try:
                ended = pump(ends, stdin, capture, chosen, lambda: _kill(process), process.poll)
            finally:
                _kill(process)
                code = process.wait()
        return Result(
            exit_code=128 - code if code < 0 else code,
            output=capture.text(),
            raw=capture.raw,
            seconds=ended.seconds,
            timed_out=ended.killed == "timeout",
            output_bytes=capture.total,
            killed=ended.killed,
        )

    def close(self) -> None:
        """Remove the temporary folder."""
        files, self._files = self._files, None
        if files is not None:
            files.close()
            self._remove()
