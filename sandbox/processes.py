"""Finding and ending processes that a dead run left: by an environment variable, and by cgroup."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable

#: seconds to wait for killed processes to be gone
_PATIENCE = 5.0


def marked(variable: str) -> dict[int, str]:
    """Processes, other than this one, with ``variable`` in the environment they were started with: pid -> value."""
    found = {}
    key = variable.encode() + b"="
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    for name in names:
        if name.isdigit() and int(name) != os.getpid() and (value := _value(int(name), key)):
            found[int(name)] = value
    return found


def _value(pid: int, key: bytes) -> str:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        return ""
    return next((line[len(key) :].decode("ascii", "replace") for line in variables if line.startswith(key)), "")


def kill_marked(variable: str, dead: Callable[[str], bool]) -> list[str]:
    """SIGKILL every process whose ``variable`` holds a dead run's id, and wait. Returns a line for each."""
    fds: dict[int, int] = {}
    key = variable.encode() + b"="
    for pid, run in marked(variable).items():
        if not dead(run):
            continue
        with contextlib.suppress(OSError):
            fd = os.pidfd_open(pid)
            if _value(pid, key) == run:  # still the same process, now that the descriptor holds it
                signal.pidfd_send_signal(fd, signal.SIGKILL)
                fds[pid] = fd
            else:
                os.close(fd)
    deadline = time.monotonic() + _PATIENCE
    lines = []
    for pid, fd in fds.items():
        lines.append(f"{'killed' if _gone(fd, deadline) else 'cannot kill'} process {pid}")
        os.close(fd)
    return lines


def _gone(fd: int, deadline: float) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(max(0.0, deadline - time.monotonic()) * 1000))


def members(cgroup: str) -> list[int]:
    """Pids in a cgroup and those below it."""
    found = []
    for folder, _, _ in os.walk(cgroup):
        with contextlib.suppress(OSError), open(os.path.join(folder, "cgroup.procs")) as file:
            found += [int(line) for line in file if line.strip() != "0"]
    return found


def kill_cgroup(cgroup: str) -> None:
    """SIGKILL all members once: at a stroke where the kernel can (cgroup v2), else one by one."""
    with contextlib.suppress(OSError), open(os.path.join(cgroup, "cgroup.kill"), "w") as file:
        file.write("1")
        return
    for pid in members(cgroup):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def remove_cgroup(cgroup: str, patience: float = _PATIENCE) -> bool:
    """Kill what is in a cgroup and remove it with those below. False where that took longer than ``patience``."""
    deadline = time.monotonic() + patience
    pause = 0.001
    while os.path.isdir(cgroup):
        kill_cgroup(cgroup)
        for folder, _, _ in os.walk(cgroup, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        if not os.path.isdir(cgroup):
            break
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(0.05, 2 * pause)
    return True
