"""Groups of processes with limits on memory, processes and CPU time: cgroup v1, v2, or both, where we may write."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable
from typing import NamedTuple

from agentgym.sandbox import leftovers
from agentgym.sandbox.base import Limits
from agentgym.sandbox.processes import remove_cgroup

CONTROLLERS = ("memory", "pids", "cpu")
_PERIOD = 100_000  # microseconds

#: processes that bubblewrap needs besides those of the command
_OWN_PIDS = 4


class Base(NamedTuple):
    """Where groups can be made: a folder, cgroup version 1 or 2, and the controllers it gives."""

    folder: str
    version: int
    controllers: tuple[str, ...]


@functools.cache
def bases() -> tuple[Base, ...]:
    """Folders in which this process may make groups. Empty where the administrator delegated none."""
    try:
        with open("/proc/self/mountinfo") as mounts, open("/proc/self/cgroup") as own:
            return tuple(find(mounts.read(), own.read(), _writable))
    except OSError:
        return ()


def find(mountinfo: str, own: str, writable: Callable[[str], bool]) -> list[Base]:
    """Bases by the texts of /proc/self/mountinfo and /proc/self/cgroup. ``writable(folder)`` asks the file system."""
    found: dict[str, Base] = {}
    paths = [line.split(":", 2) for line in own.splitlines() if line.count(":") >= 2]
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        root, point = left.split()[3:5]
        kind, _, options = right.split()[:3]
        if kind == "cgroup":
            for name in set(options.split(",")) & set(CONTROLLERS) - set(found):
                path = next((p for _, names, p in paths if name in names.split(",")), "/")
                for folder in _upward(point, root, path):
                    if writable(folder):
                        found[name] = Base(folder, 1, (name,))
                        break
        elif kind == "cgroup2":
            path = next((p for number, names, p in paths if number == "0" and not names), "/")
            base = _version_2(list(_upward(point, root, path)), writable)
            for name in base.controllers if base else ():
                found.setdefault(name, base)  # type: ignore[arg-type]
    return list(dict.fromkeys(found.values()))


def _upward(point: str, root: str, path: str) -> list[str]:
    """Our group's folder and those above it, up to the mount point; nearest first, so that outer limits go on."""
    inner = path[len(root.rstrip("/")) :] if path.startswith(root) else "/"
    parts = [part for part in inner.split("/") if part and part != ".."]
    return [os.path.join(point, *parts[:count]) for count in range(len(parts), -1, -1)]


def _version_2(folders: list[str], writable: Callable[[str], bool]) -> Base | None:
    """The nearest folder that gives controllers to its children. One that holds processes cannot, but for the root."""
    for folder in folders:
        with contextlib.suppress(OSError), open(os.path.join(folder, "cgroup.subtree_control")) as file:
            words = file.read().split()
            given = tuple(name for name in CONTROLLERS if name in words)
            if given and writable(folder) and os.access(os.path.join(folder, "cgroup.procs"), os.W_OK):
                return Base(folder, 2, given)
    return None


def _writable(folder: str) -> bool:
    """Whether a group can really be made there: read-only mounts and owners decide, not mode bits."""
    run = leftovers.current()
    probe = os.path.join(folder, f"agentgym-{run.id}-probe")
    run.note("cgroup", probe)
    try:
        os.mkdir(probe)
        os.rmdir(probe)
    except OSError:
        return False
    return True


class Group:
    """One group in every base, called ``name``. Made when constructed; ``note`` is told each folder beforehand."""

    def __init__(self, name: str, note: Callable[[str, str], None], places: tuple[Base, ...] | None = None) -> None:
        self.folders: dict[str, Base] = {}
        self._set: dict[str, str] = {}
        for base in bases() if places is None else places:
            folder = os.path.join(base.folder, name)
            note("cgroup", folder)
            with contextlib.suppress(OSError):
                os.mkdir(folder)
                self.folders[folder] = base
        self.controls = {name for base in self.folders.values() for name in base.controllers}

    @property
    def joins(self) -> list[str]:
        """Files into which a process writes ``0`` to join."""
        return [os.path.join(folder, "cgroup.procs") for folder in self.folders]

    def limit(self, limits: Limits, held: int = 0) -> None:
        """Set the limits. ``held``: bytes of memory that earlier commands' files hold, and that do not count."""
        memory, quota = str(limits.memory + held), str(max(1000, int(limits.cpus * _PERIOD)))
        pids = str(limits.pids + _OWN_PIDS)
        for folder, base in self.folders.items():
            for name in base.controllers:
                if name == "pids":
                    self._write(folder, "pids.max", pids)
                elif name == "memory" and base.version == 2:
                    self._write(folder, "memory.max", memory)
                    self._write(folder, "memory.swap.max", "0")
                elif name == "memory":
                    self._memory_1(folder, memory)
                elif base.version == 2:
                    self._write(folder, "cpu.max", f"{quota} {_PERIOD}")
                else:
                    self._write(folder, "cpu.cfs_period_us", str(_PERIOD))
                    self._write(folder, "cpu.cfs_quota_us", quota)

    def _memory_1(self, folder: str, memory: str) -> None:
        """Memory, and memory with swap, which may never be the smaller one: their order hangs on the direction."""
        names = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]
        before = self._set.get(os.path.join(folder, names[0]))
        for name in reversed(names) if before and int(before) < int(memory) else names:
            self._write(folder, name, memory)

    def _write(self, folder: str, name: str, value: str) -> None:
        path = os.path.join(folder, name)
        if self._set.get(path) != value:
            with contextlib.suppress(OSError), open(path, "w") as file:  # no swap accounting: no such file
                file.write(value)
                self._set[path] = value

    def oom_kills(self) -> int:
        """How many processes the kernel has killed for the memory limit so far."""
        for folder, base in self.folders.items():
            if "memory" in base.controllers:
                name = "memory.events" if base.version == 2 else "memory.oom_control"
                with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, name)) as file:
                    return sum(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
        return 0

    def remove(self) -> bool:
        """Kill what is in it and remove it. False where the kernel did not let go of it in time."""
        done = [remove_cgroup(folder) for folder in self.folders]
        return all(done)
