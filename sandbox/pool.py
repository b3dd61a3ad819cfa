"""This process's keeper and its runners: started when first needed, shared by all its sandboxes and threads."""

from __future__ import annotations

import array
import atexit
import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from agentgym.sandbox import leftovers
from agentgym.sandbox.base import SandboxError
from agentgym.sandbox.cgroups import Group
from agentgym.sandbox.workspace import remove_tree

_SCRIPT = Path(__file__).with_name("keeper.py")
#: seconds for the keeper to answer: it only ever makes a mount or forks
_PATIENCE = 30.0
_PACKET = 2**20


def _receive(source: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """One message; raises EOFError where the other side is gone. Descriptors come close-on-exec."""
    fds = array.array("i")
    data, ancillary, _, _ = source.recvmsg(_PACKET, socket.CMSG_SPACE(8 * fds.itemsize), socket.MSG_CMSG_CLOEXEC)
    for level, kind, body in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(body[: len(body) - len(body) % fds.itemsize])
    if not data:
        raise EOFError
    return json.loads(data), list(fds)


class Runner:
    """One runner and its cgroup. Used by one command at a time."""

    def __init__(self, connection: socket.socket, group: Group) -> None:
        self.connection = connection
        self.group = group

    @property
    def alive(self) -> bool:
        """Whether an idle runner still listens."""
        poller = select.poll()
        poller.register(self.connection, select.POLLIN)
        return not poller.poll(0)

    def send(self, message: dict[str, Any], fds: list[int]) -> None:
        """Ask for a run. Raises SandboxError where the runner is gone."""
        try:
            socket.send_fds(self.connection, [json.dumps(message).encode()], fds)
        except OSError as error:
            raise SandboxError(f"the sandbox's runner is gone ({error.strerror}); run again") from error

    def kill(self) -> None:
        """Kill the running command. The answer still comes."""
        with contextlib.suppress(OSError):
            self.connection.send(json.dumps({"op": "kill"}).encode())

    def answer(self, wait: float) -> dict[str, Any] | None:
        """How the command ended; None where it has not after ``wait`` seconds. Raises SandboxError."""
        self.connection.settimeout(wait or 1e-9)
        try:
            return _receive(self.connection)[0]
        except (TimeoutError, BlockingIOError):
            return None
        except (EOFError, OSError) as error:
            raise SandboxError(
                "the sandbox's runner ended in the middle of a command; was it killed for memory? Run again"
            ) from error

    def close(self) -> None:
        """End the runner, with all that it runs."""
        self.connection.close()
        self.group.remove()


class Pool:
    """The keeper, and idle runners. ``private``: it has mounts of its own, so workspaces have a size."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.run = leftovers.current()
        self._lock = threading.Lock()
        self._count = 0
        self._idle: list[Runner] = []
        self._all: set[Runner] = set()
        self.base = os.path.join(self.run.folder, f"agentgym-{self.run.id}")
        why = self._launch("private")
        self.private = not why
        self.why = why
        if why:
            self.base = os.path.join(tempfile.gettempdir(), f"agentgym-{self.run.id}")
            if plain := self._launch("plain"):
                raise SandboxError(f"the sandboxes' keeper does not start: {plain}")

    def _launch(self, kind: str) -> str:
        """Start a keeper; "" or why it cannot work."""
        self.run.note("folder", self.base)
        os.makedirs(self.base, 0o700 if kind == "private" else 0o711, exist_ok=True)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-I", "-S", str(_SCRIPT), str(theirs.fileno()), self.base, kind]
        self._process = subprocess.Popen(
            command,
            env={"PATH": os.defpath, leftovers.MARKER: self.run.id},
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C is for the owner, which then closes what it has
        )
        theirs.close()
        ours.settimeout(_PATIENCE)
        self._control = ours
        try:
            answer, _ = _receive(ours)
        except (EOFError, OSError) as error:
            answer = {"error": f"{sys.executable} does not run {_SCRIPT.name} ({error or 'it ended'})"}
        if "error" in answer:
            ours.close()
            self._process.wait()
            with contextlib.suppress(OSError):
                os.rmdir(self.base)
        return str(answer.get("error", ""))

    def _ask(self, message: dict[str, Any], fds: list[int]) -> list[int]:
        """A request to the keeper; returns the descriptors of its answer. Raises SandboxError."""
        with self._lock:
            try:
                socket.send_fds(self._control, [json.dumps(message).encode()], fds)
                answer, received = _receive(self._control)
            except (EOFError, OSError) as error:
                self._control.close()
                raise SandboxError("the sandboxes' keeper is gone; make the sandbox again") from error
        if "error" in answer:
            raise SandboxError(f"the sandboxes' keeper: {answer['error']}")
        return received

    @property
    def alive(self) -> bool:
        """Whether the keeper still runs."""
        return self._process.poll() is None and self._control.fileno() >= 0

    def name(self) -> str:
        """A name that this process has not used."""
        with self._lock:
            self._count += 1
            return str(self._count)

    def open(self, name: str, size: int, inodes: int, uid: int, files: dict[str, str]) -> int:
        """A descriptor of a new workspace ``BASE/name``."""
        options = {"name": name, "size": size, "inodes": inodes, "uid": uid, "files": files}
        return self._ask({"op": "open", "with": options}, [])[0]

    def forget(self, name: str) -> None:
        """Remove a workspace."""
        with contextlib.suppress(SandboxError):
            self._ask({"op": "close", "name": name}, [])
        if not self.private:
            for suffix in ("", ".etc"):
                remove_tree(os.path.join(self.base, name + suffix))

    def take(self) -> Runner:
        """An idle runner, or a new one."""
        while True:
            with self._lock:
                runner = self._idle.pop() if self._idle else None
            if runner is None:
                break
            if runner.alive:
                return runner
            self.drop(runner)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._ask({"op": "runner"}, [theirs.fileno()])
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        runner = Runner(ours, Group(f"agentgym-{self.run.id}-{self.name()}", self.run.note))
        with self._lock:
            self._all.add(runner)
        return runner

    def give_back(self, runner: Runner) -> None:
        """The command has ended, and nothing of it is left."""
        with self._lock:
            self._idle.append(runner)

    def drop(self, runner: Runner) -> None:
        """End a runner, with what it runs."""
        with self._lock:
            self._all.discard(runner)
        runner.close()

    def close(self) -> None:
        """End the runners, with what they run, and the keeper; its mounts go with it."""
        with self._lock:
            runners = list(self._all)
            self._idle.clear()
        for runner in runners:
            self.drop(runner)
        self._control.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        remove_tree(self.base)

    def abandon(self) -> None:
        """Give up the parent's connections in a forked child, so that they end with the parent."""
        with contextlib.suppress(OSError):
            self._control.close()
        for runner in self._all:
            runner.connection.close()
        self._process.returncode = 0  # not our child


_pool: Pool | None = None
_pool_lock = threading.Lock()


def pool() -> Pool:
    """The pool of this process. The first call also removes what dead runs left. Raises SandboxError."""
    global _pool
    with _pool_lock:
        if _pool is not None and not _pool.alive:
            _pool.close()
            _pool = None
        if _pool is None:
            leftovers.reap_once()
            _pool = Pool()
        return _pool


def shut_down() -> None:
    """Close the pool. Called at exit; a later sandbox makes a new one."""
    global _pool
    with _pool_lock:
        if _pool is not None and _pool.pid == os.getpid():
            _pool.close()
        _pool = None


def _after_fork() -> None:
    global _pool, _pool_lock
    _pool_lock = threading.Lock()
    if _pool is not None:
        _pool.abandon()
        _pool = None


os.register_at_fork(after_in_child=_after_fork)
atexit.register(shut_down)
