"""User ids for sandboxes that root starts: one for each, so that limits and files of two never mix."""

from __future__ import annotations

import fcntl
import os
import struct
import threading

from agentgym.sandbox import leftovers
from agentgym.sandbox.base import SandboxError

#: ids that neither distributions nor systemd hand out (systemd's "Users, Groups, UIDs and GIDs": 60578 to 61183 unused)
FIRST, LAST = 60600, 61183

_lock = threading.Lock()
_taken: dict[int, int] = {}
_file = -1
_pid = 0


def lease() -> int:
    """A user id that no other sandbox of this machine uses. The kernel takes it back when this process ends."""
    global _file, _pid
    with _lock:
        if _pid != os.getpid():  # locks are the parent's
            _taken.clear()
            _file, _pid = -1, os.getpid()
        if _file < 0:
            path = leftovers.state_folder() / "users"
            _file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        for uid in range(FIRST, LAST + 1):
            if uid not in _taken and _set(uid, fcntl.F_WRLCK):
                _taken[uid] = uid
                return uid
    raise SandboxError(f"all {LAST - FIRST + 1} user ids of sandboxes are in use; close some sandboxes")


def give_back(uid: int) -> None:
    """Nothing of this user is left."""
    with _lock:
        if _pid == os.getpid() and _taken.pop(uid, None) is not None:
            _set(uid, fcntl.F_UNLCK)


def _set(uid: int, kind: int) -> bool:
    """Lock one byte of the file for this open file (fcntl(2), open file description locks)."""
    lock = struct.pack("hhqqi", kind, os.SEEK_SET, uid - FIRST, 1, 0)
    try:
        fcntl.fcntl(_file, fcntl.F_OFD_SETLK, lock)
    except OSError:
        return False
    return True
