"""Opening files below a folder that an attacker fills: no ``..``, no link, no device, no hard link leads out of it."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import sys
from collections.abc import Iterator

from agentgym.sandbox.base import SandboxError

_SYS_OPENAT2 = 437  # the same on every architecture, openat2(2); Linux 5.6
_RESOLVE = 0x02 | 0x04 | 0x08  # RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH
_LIBC = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(root: int, path: str, flags: int, mode: int = 0) -> int:
    """A descriptor of ``path`` below the folder ``root``; "" is the folder itself. Raises OSError.

    Neither links nor ``..`` are followed, whatever changes meanwhile: by openat2, and where the kernel has none by
    opening folder after folder.
    """
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW
    if sys.platform == "linux" and _have_openat2:
        how = _OpenHow(flags, mode, _RESOLVE)
        for _ in range(50):  # EAGAIN: something was renamed meanwhile
            fd = int(_LIBC.syscall(_SYS_OPENAT2, root, os.fsencode(path or "."), ctypes.byref(how), ctypes.sizeof(how)))
            if fd >= 0:
                return fd
            code = ctypes.get_errno()
            if code not in (errno.EAGAIN, errno.EINTR):
                raise OSError(code, os.strerror(code), path)
        raise OSError(errno.EAGAIN, "the path keeps changing", path)
    return _walk(root, path, flags, mode)


def _walk(root: int, path: str, flags: int, mode: int) -> int:
    *folders, name = [part for part in path.split("/") if part] or ["."]
    if ".." in (*folders, name):
        raise OSError(errno.EXDEV, "'..' in the path", path)
    fd = os.dup(root)
    try:
        for folder in folders:
            deeper = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            os.close(fd)
            fd = deeper
        return os.open(name, flags, mode, dir_fd=fd)
    finally:
        os.close(fd)


def _works() -> bool:
    """Whether this kernel, and the seccomp filter that we may be under, allow openat2."""
    how = _OpenHow(os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0, _RESOLVE)
    root = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fd = _LIBC.syscall(_SYS_OPENAT2, root, b".", ctypes.byref(how), ctypes.sizeof(how))
    finally:
        os.close(root)
    if fd >= 0:
        os.close(fd)
    return bool(fd >= 0)


_have_openat2 = sys.platform == "linux" and _works()


@contextlib.contextmanager
def named(path: str) -> Iterator[None]:
    """Turn an OSError about ``path`` into a SandboxError that a model can act on."""
    try:
        yield
    except OSError as error:
        raise SandboxError(f"{path}: {_why(error)}") from error


def _why(error: OSError) -> str:
    if error.errno in (errno.ELOOP, errno.EXDEV):
        return "goes through a link or leaves the workspace; links are not followed"
    known = {
        errno.ENOENT: "no such file or folder",
        errno.ENOTDIR: "a part of the path is a file, not a folder",
        errno.EISDIR: "is a folder, not a file",
        errno.ENAMETOOLONG: "the name is too long",
        errno.ENOSPC: "no space left in the workspace",
        errno.EDQUOT: "no space left in the workspace",
        errno.ENXIO: "is not a regular file",
        errno.EACCES: "permission denied",
    }
    return known.get(error.errno or 0, error.strerror or str(error))


def open_regular(root: int, path: str) -> int:
    """A descriptor, for reading, of a regular file with one link. Raises SandboxError."""
    with named(path):
        fd = open_beneath(root, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        check_regular(os.fstat(fd), path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def check_regular(status: os.stat_result, path: str) -> None:
    """Raise SandboxError unless this is a regular file with exactly one name."""
    if stat.S_ISDIR(status.st_mode):
        raise SandboxError(f"{path}: is a folder, not a file")
    if not stat.S_ISREG(status.st_mode):
        raise SandboxError(f"{path}: is not a regular file")
    if status.st_nlink != 1:
        raise SandboxError(f"{path}: has {status.st_nlink} names (hard links); only files with one are opened")


def make_folders(root: int, path: str, owner: int | None = None) -> int:
    """A descriptor of the folder ``path``, made with its parents where missing (0o755, of user ``owner``)."""
    with contextlib.suppress(FileNotFoundError):
        return open_beneath(root, path, os.O_RDONLY | os.O_DIRECTORY)
    fd = os.dup(root)
    try:
        for name in path.split("/"):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=fd)
                if owner is not None:
                    os.chown(name, owner, owner, dir_fd=fd, follow_symlinks=False)
            deeper = open_beneath(fd, name, os.O_RDONLY | os.O_DIRECTORY)
            os.close(fd)
            fd = deeper
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_all(fd: int, limit: int, path: str) -> bytes:
    """All bytes of an open file. Raises SandboxError above ``limit``."""
    size = os.fstat(fd).st_size
    if size > limit:
        raise SandboxError(f"{path}: {size} bytes long, more than the limit of {limit}")
    parts, left = [], limit + 1
    while left > 0 and (part := os.read(fd, min(left, 2**20))):
        parts.append(part)
        left -= len(part)
    if left <= 0:
        raise SandboxError(f"{path}: grew beyond the limit of {limit} bytes while it was read")
    return b"".join(parts)
