"""A workspace that is a folder of the host, reached through one descriptor: read, write, load, export, remove."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import stat
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from agentgym.sandbox.base import READ_LIMIT, SandboxError
from agentgym.sandbox.beneath import check_regular, make_folders, named, open_beneath, open_regular, read_all

#: folders deeper than this are not walked
MAX_DEPTH = 64
#: what an attacker can make of a folder or file so that it cannot be opened; walks pass over it
_PASSED_OVER = {errno.EACCES, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV, errno.ENAMETOOLONG, errno.EPERM}


class Entry(NamedTuple):
    """One name in the workspace, as lstat sees it. ``kind``: file, folder, link or other; ``depth`` from 1."""

    path: str
    kind: str
    size: int
    links: int
    depth: int


class Workspace:
    """Files below ``root``, a descriptor of a folder that this object owns. ``owner``: user id given to new files.

    Paths are relative and have no ``..`` (see :meth:`Sandbox.relative`). Whatever lies in the folder, nothing
    outside it is read or written.
    """

    def __init__(self, root: int, owner: int | None = None) -> None:
        self.root = root
        self.owner = owner

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """A regular file. Raises SandboxError."""
        fd = open_regular(self.root, path)
        try:
            with named(path):
                return read_all(fd, limit, path)
        finally:
            os.close(fd)

    def write(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Write a file beside its place and move it there: a full disk leaves the old content. Raises SandboxError."""
        folder, name = posixpath.split(path)
        if not name:
            raise SandboxError(f"{path or '.'}: is a folder, not a file")
        with named(path):
            parent = make_folders(self.root, folder, self.owner)
        try:
            with contextlib.suppress(FileNotFoundError), named_unless_missing(path):
                status = os.stat(name, dir_fd=parent, follow_symlinks=False)
                if stat.S_ISLNK(status.st_mode):
                    raise SandboxError(f"{path}: is a link; links are not followed")
                check_regular(status, path)
                mode = stat.S_IMODE(status.st_mode) & 0o777 if mode is None else mode
            with named(path):
                self._replace(parent, name, data, 0o644 if mode is None else mode & 0o777)
        finally:
            os.close(parent)

    def _replace(self, parent: int, name: str, data: bytes, mode: int) -> None:
        temporary = f".agentgym-{os.urandom(6).hex()}"
        fd = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=parent
        )
        try:
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(fd, view) :]
                os.fchmod(fd, mode)
                if self.owner is not None:
                    os.fchown(fd, self.owner, self.owner)
            finally:
                os.close(fd)
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=parent)
            raise

    def load(self, tree: Mapping[str, bytes] | Path, relative: Callable[[str], str]) -> None:
        """Add files: path -> content, a folder of the host, or a tar file. ``relative`` checks paths."""
        if isinstance(tree, Mapping):
            for path, data in tree.items():
                self.write(relative(path), data, 0o644)
        elif tree.is_dir():
            self._load_folder(tree)
        elif tree.is_file():
            self._load_tar(tree, relative)
        else:
            raise SandboxError(f"cannot load {str(tree)!r} into a sandbox: no such folder or tar file")

    def _load_folder(self, tree: Path) -> None:
        for folder, names, files in os.walk(tree):
            inside = Path(folder).relative_to(tree)
            for name in [*names, *files]:
                source, path = Path(folder, name), posixpath.join(*inside.parts, name)
                status = source.lstat()
                if stat.S_ISLNK(status.st_mode):
                    self.link(path, os.readlink(source))
                elif stat.S_ISDIR(status.st_mode):
                    self.folder(path)
                elif stat.S_ISREG(status.st_mode):
                    self.write(path, source.read_bytes(), 0o755 if status.st_mode & 0o111 else 0o644)

    def _load_tar(self, tree: Path, relative: Callable[[str], str]) -> None:
        try:
            with tarfile.open(tree) as archive:
                for member in archive:
                    path = relative(member.name)
                    if member.isreg():
                        content = archive.extractfile(member)
                        assert content is not None
                        self.write(path, content.read(), 0o755 if member.mode & 0o111 else 0o644)
                    elif member.isdir():
                        self.folder(path)
                    elif member.issym():
                        self.link(path, member.linkname)
                    else:
                        raise SandboxError(f"{tree}: {member.name!r} is neither a file, a folder nor a symbolic link")
        except tarfile.TarError as error:
            raise SandboxError(f"{tree}: not a readable tar file ({error})") from error

    def folder(self, path: str) -> None:
        """Make a folder with its parents."""
        with named(path):
            os.close(make_folders(self.root, path, self.owner))

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link. It means something inside the sandbox only: nothing here follows it."""
        folder, name = posixpath.split(path)
        with named(path):
            parent = make_folders(self.root, folder, self.owner)
            try:
                os.symlink(target, name, dir_fd=parent)
                if self.owner is not None:
                    os.chown(name, self.owner, self.owner, dir_fd=parent, follow_symlinks=False)
            finally:
                os.close(parent)

    def entries(self, below: str = "", skip: tuple[str, ...] = (), depth: int = MAX_DEPTH) -> Iterator[Entry]:
        """Every name below a folder, depth first, sorted; folders called as in ``skip`` are not entered.

        Nor are those below ``depth`` levels, or that may not be read or changed meanwhile.
        """
        stack = [below]
        while stack:
            folder = stack.pop()
            try:
                fd = open_beneath(self.root, folder, os.O_RDONLY | os.O_DIRECTORY)
            except OSError as error:
                if folder and error.errno in _PASSED_OVER:
                    continue
                with named(folder or "."):
                    raise
            try:
                deeper = []
                for entry in self._folder(fd, folder):
                    yield entry
                    name = posixpath.basename(entry.path)
                    if entry.kind == "folder" and name not in skip and entry.depth < depth:
                        deeper.append(entry.path)
            finally:
                os.close(fd)
            stack += reversed(deeper)

    def _folder(self, fd: int, folder: str) -> list[Entry]:
        found = []
        depth = folder.count("/") + 2 if folder else 1
        for name in sorted(os.listdir(fd)):
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                path = f"{folder}/{name}" if folder else name
                found.append(Entry(path, _kind(status.st_mode), status.st_size, status.st_nlink, depth))
        return found

    def listing(self, below: str, depth: int, limit: int) -> list[str]:
        """The first names below a folder, at most ``depth`` levels down, folders with a slash. Raises SandboxError."""
        first = below.count("/") + 1 if below else 0
        found = []
        for entry in self.entries(below, skip=(".git",), depth=first + depth):
            name = entry.path[len(below) :].lstrip("/")
            found.append(f"{name}/" if entry.kind == "folder" else name)
            if len(found) >= 20 * limit:
                break
        return sorted(found)[:limit]

    def export(self, select: Callable[[str], bool] | None, max_files: int, max_bytes: int) -> dict[str, bytes]:
        """Regular files with one link, path -> content. Raises SandboxError above a bound."""
        found: dict[str, bytes] = {}
        left = max_bytes
        for entry in self.entries(skip=(".git",)):
            if entry.kind != "file" or entry.links != 1 or (select is not None and not select(entry.path)):
                continue
            if len(found) >= max_files:
                raise SandboxError(f"the workspace holds more than {max_files} files to export")
            if entry.size > left:
                raise SandboxError(f"the workspace holds more than {max_bytes} bytes to export (at {entry.path!r})")
            data = self._readable(entry.path, left)
            if data is not None:
                found[entry.path] = data
                left -= len(data)
        return dict(sorted(found.items()))

    def _readable(self, path: str, limit: int) -> bytes | None:
        try:
            return self.read(path, limit)
        except SandboxError as error:
            cause = error.__cause__
            if isinstance(cause, OSError) and cause.errno in _PASSED_OVER:
                return None
            raise

    def usage(self, enough: int) -> int:
        """Bytes on disk of all files, counted until ``enough`` is reached."""
        total = 0
        with contextlib.suppress(SandboxError, OSError):
            for entry in self.entries():
                total += max(entry.size, 512)
                if total >= enough:
                    break
        return total

    def close(self) -> None:
        """Give the descriptor back."""
        if self.root >= 0:
            os.close(self.root)
            self.root = -1


@contextlib.contextmanager
def named_unless_missing(path: str) -> Iterator[None]:
    """As :func:`named`, but a missing file stays a FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        with named(path):
            raise error


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def remove_tree(path: str) -> None:
    """Remove a folder that an attacker filled: any depth, any modes, without following anything. Never raises OSError.

    Folders found inside are moved up beside it first, so neither recursion nor long paths grow with the depth.
    """
    with contextlib.suppress(OSError):
        os.unlink(path)  # a link, or a file
        return
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fchmod(fd, 0o700)
            _empty(fd)
        finally:
            os.close(fd)
        os.rmdir(path)


def _empty(root: int) -> None:
    pending = [os.fsencode(name) for name in os.listdir(root)]
    count = 0
    while pending:
        name = pending.pop()
        try:
            os.unlink(name, dir_fd=root)
            continue
        except IsADirectoryError:
            pass
        except OSError:
            if not stat.S_ISDIR(os.stat(name, dir_fd=root, follow_symlinks=False).st_mode):
                continue
        with contextlib.suppress(OSError):
            os.chmod(name, 0o700, dir_fd=root)
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
        try:
            for child in map(os.fsencode, os.listdir(fd)):
                try:
                    os.unlink(child, dir_fd=fd)
                except OSError:
                    moved = b".agentgym-gone-%d" % (count := count + 1)
                    with contextlib.suppress(OSError):
                        os.chmod(child, 0o700, dir_fd=fd, follow_symlinks=False)
                    os.rename(child, moved, src_dir_fd=fd, dst_dir_fd=root)
                    pending.append(moved)
        finally:
            os.close(fd)
        os.rmdir(name, dir_fd=root)
