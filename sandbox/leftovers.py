"""What a killed run leaves behind, and how the next one, or ``agentgym clean``, removes it.

Every process that uses sandboxes holds a lock on a file of its own in the state folder; the kernel drops the lock when
the process is gone, however it went. The file's name is the run's id, which goes into the name, label or environment
of all that the run makes; its lines, written beforehand, say which folders and cgroups those are. So whatever carries
the id of a file that nobody holds is a leftover, and what a live process owns is never touched.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import importlib
import json
import logging
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agentgym.errors import MissingDependency
from agentgym.sandbox import processes
from agentgym.sandbox.base import SandboxError
from agentgym.sandbox.workspace import remove_tree

#: variable that holds the run's id in the environment of every process we start on the host
MARKER = "AGENTGYM_SANDBOX"

#: backend -> ``module:function(dead) -> what was removed, one line each``. ``dead(id)`` is True for ids of this state
#: folder whose process is gone; ids of others are not for us to judge, and False.
HOOKS: dict[str, str] = {"docker": "agentgym.sandbox.docker_backend:remove_leftovers"}

_lock = threading.RLock()
_current: Registration | None = None


def state_folder() -> Path:
    """This user's folder for locks (0700): ``AGENTGYM_SANDBOX_STATE``, /run/agentgym for root, else the session's."""
    chosen = os.environ.get("AGENTGYM_SANDBOX_STATE")
    session = os.environ.get("XDG_RUNTIME_DIR")
    if chosen:
        folder = Path(chosen)
    elif os.geteuid() == 0 and os.access("/run", os.W_OK):
        folder = Path("/run/agentgym")
    elif session and os.access(session, os.W_OK):
        folder = Path(session, "agentgym")
    else:
        folder = Path(tempfile.gettempdir(), f"agentgym-{os.geteuid()}")
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise SandboxError(
            f"the sandboxes' state folder {folder} must be a folder of this user that nobody else writes to; "
            "remove it, or set AGENTGYM_SANDBOX_STATE to another"
        )
    return folder


def _home(folder: Path) -> str:
    """A random name of this state folder, the first part of all ids: other machines' ids never look like ours."""
    path = folder / "home"
    with contextlib.suppress(FileNotFoundError):
        return path.read_text()
    draft = folder / f".home-{os.urandom(6).hex()}"
    draft.write_text(os.urandom(5).hex())
    with contextlib.suppress(FileExistsError):
        os.link(draft, path)
    draft.unlink()
    return path.read_text()


class Registration:
    """This process in the state folder. ``id`` goes into the name of everything it makes."""

    def __init__(self) -> None:
        self.folder = state_folder()
        self.pid = os.getpid()
        self.id = f"{_home(self.folder)}-{self.pid}-{os.urandom(5).hex()}"
        draft = self.folder / f".new-{self.id}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self.fd = os.open(draft, flags, 0o600)
        fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.path = self.folder / f"{self.id}.run"
        self._noted: list[str] = []
        os.rename(draft, self.path)

    def note(self, kind: str, path: str) -> None:
        """Say, before it is made, what is about to be made: ``folder`` or ``cgroup``. The id must be in its name."""
        assert self.id in os.path.basename(path), path
        self._noted.append(path)
        os.write(self.fd, json.dumps([kind, path]).encode() + b"\n")

    def forget(self) -> None:
        """Drop the lock without removing the file: for a forked child, whose parent goes on."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def close(self) -> None:
        """This process ends. Its file stays where something that it made is still there, for the next reaper."""
        if self.fd >= 0:
            if not any(map(os.path.lexists, self._noted)):
                self.path.unlink(missing_ok=True)
            self.forget()


def current() -> Registration:
    """The registration of this process, made when it is first asked for. Raises SandboxError."""
    global _current
    with _lock:
        if _current is None or _current.pid != os.getpid():
            _current = Registration()
        return _current


def release() -> None:
    """Forget this process's registration; all that it made must be gone. Called at exit."""
    global _current
    with _lock:
        if _current is not None and _current.pid == os.getpid():
            _current.close()
        _current = None


def _after_fork() -> None:
    global _current, _lock
    _lock = threading.RLock()
    if _current is not None:
        _current.forget()
        _current = None


os.register_at_fork(after_in_child=_after_fork)


def _free(path: Path) -> int:
    """A locked descriptor of a run's file, or -1 where its process lives (or another one is clearing up)."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return -1
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_nlink:
            return fd
    except OSError:
        pass
    os.close(fd)
    return -1


def reap(hooks: Sequence[str] = ()) -> list[str]:
    """Remove what dead runs of this user left: processes, cgroups, folders, and what the named ``hooks`` know of.

    Returns one line for each thing removed, or found and not removable. Safe to call at any time, from many
    processes at once.
    """
    folder = state_folder()
    home = _home(folder)
    done: list[str] = []
    with contextlib.ExitStack() as held:
        freed: list[tuple[Path, str, int]] = []
        for path in sorted(folder.glob(f"{home}-*.run")):
            if (fd := _free(path)) >= 0:
                held.callback(os.close, fd)
                freed.append((path, path.stem, fd))
        ids = {run for _, run, _ in freed}

        def dead(run: str) -> bool:
            return run in ids or (run.startswith(f"{home}-") and not (folder / f"{run}.run").exists())

        stuck: set[str] = set()
        for _, run, fd in freed:
            for line in _clear(run, list(_records(fd))):
                done.append(line)
                if line.startswith("cannot"):
                    stuck.add(run)
        done += processes.kill_marked(MARKER, dead)
        for name in hooks:
            done += _hook(name, dead)
        for path, run, _ in freed:
            if run not in stuck:
                path.unlink(missing_ok=True)
    _old_drafts(folder)
    return done


_reaped_by = 0


def reap_once() -> None:
    """Reap at the start of a process's first sandbox. Raises SandboxError where there is no state folder."""
    global _reaped_by
    if _reaped_by != os.getpid():
        _reaped_by = os.getpid()
        for line in reap():
            logging.getLogger(__name__).info("leftover of a killed run: %s", line)


def _hook(name: str, dead: Callable[[str], bool]) -> list[str]:
    module, _, function = HOOKS[name].partition(":")
    try:
        lines = getattr(importlib.import_module(module), function)(dead)
    except (MissingDependency, ModuleNotFoundError, SandboxError):
        return []  # without its package or engine a backend has left nothing that could be removed
    return [str(line) for line in lines]


def _records(fd: int) -> Iterator[tuple[str, str]]:
    """The lines of a run's file; the last one may be torn."""
    os.lseek(fd, 0, os.SEEK_SET)
    with os.fdopen(os.dup(fd), "rb") as lines:
        for line in lines:
            try:
                kind, path = json.loads(line)
            except ValueError:
                continue
            yield str(kind), str(path)


def _clear(run: str, records: list[tuple[str, str]]) -> Iterator[str]:
    """Remove one dead run's cgroups with all in them, then its processes, then its folders."""
    for kind, path in reversed(records):
        if kind == "cgroup" and run in os.path.basename(path) and os.path.isdir(path):
            yield f"{'removed' if processes.remove_cgroup(path) else 'cannot remove'} cgroup {path}"
    yield from processes.kill_marked(MARKER, lambda found: found == run)
    for kind, path in reversed(records):
        if kind == "folder" and run in os.path.basename(path) and os.path.lexists(path):
            remove_tree(path)
            yield f"{'cannot remove' if os.path.lexists(path) else 'removed'} folder {path}"


def _old_drafts(folder: Path) -> None:
    """Drafts of registrations whose process died within a few instructions."""
    for path in [*folder.glob(".new-*"), *folder.glob(".home-*")]:
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > 60:
                path.unlink()


atexit.register(release)
