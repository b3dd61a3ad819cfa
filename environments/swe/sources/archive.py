"""Source trees read into memory from archives and folders that nobody vouches for."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agentgym.errors import DataError

MAX_FILES = 20_000
MAX_FILE = 16 * 2**20
MAX_TOTAL = 128 * 2**20
#: folders of a checkout that are no source
LEFT_OUT = {".git", ".hg", ".svn", "__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache", ".pytest_cache"}
LEFT_OUT |= {".ruff_cache", "node_modules", ".eggs"}
ENDINGS = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar", ".zip")


@dataclass(frozen=True)
class SourceTree:
    """Path -> bytes of regular files, without the archive's own top folder. ``left_out``: links and odd members."""

    files: dict[str, bytes]
    left_out: tuple[str, ...] = ()


def sha256_file(path: Path) -> str:
    """The digest of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def tree_hash(files: dict[str, bytes]) -> str:
    """A digest of a whole tree: names and contents."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(f"{len(path.encode())}:{path}:{len(files[path])}:".encode() + files[path])
    return digest.hexdigest()


def read_archive(path: Path) -> SourceTree:
    """The files of a ``.tar.*`` or ``.zip`` source distribution.

    Links, devices and fifos are left out and named. Raises DataError for what is no archive, members outside it
    (absolute, ``..``), two members of one name, and more than MAX_FILES files, or too many bytes (MAX_FILE, MAX_TOTAL).
    """
    if not path.name.endswith(ENDINGS):
        raise DataError(f"{path}: not a source distribution; expected one of {', '.join(ENDINGS)}")
    files: dict[str, bytes] = {}
    left_out: list[str] = []
    total = 0
    try:
        for name, data in _zip(path) if path.name.endswith(".zip") else _tar(path):
            if data is None:
                left_out.append(name)
                continue
            clean = _inside(path, name)
            if clean in files:
                raise DataError(f"{path}: two members are called {clean!r}")
            files[clean] = data
            total += len(data)
            if len(files) > MAX_FILES or total > MAX_TOTAL:
                raise DataError(f"{path}: more than {MAX_FILES} files or {MAX_TOTAL >> 20} MiB of source")
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise DataError(f"{path}: damaged archive: {error}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    return SourceTree(_without_top(files), tuple(left_out))


def _tar(path: Path) -> Iterator[tuple[str, bytes | None]]:
    with tarfile.open(path, "r|*") as archive:
        for count, member in enumerate(archive):
            if count > 2 * MAX_FILES:
                raise DataError(f"{path}: more than {2 * MAX_FILES} members")
            if member.isdir():
                continue
            if not member.isreg():
                yield member.name, None
                continue
            if member.size > MAX_FILE:
                raise DataError(f"{path}: {member.name!r} has {member.size} bytes, at most {MAX_FILE} are read")
            stream = archive.extractfile(member)
            yield member.name, stream.read() if stream else b""


def _zip(path: Path) -> Iterator[tuple[str, bytes | None]]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
                yield info.filename, None
                continue
            with archive.open(info) as stream:
                data = io.BytesIO(stream.read(MAX_FILE + 1)).getvalue()
            if len(data) > MAX_FILE:
                raise DataError(f"{path}: {info.filename!r} has more than {MAX_FILE} bytes")
            yield info.filename, data


def _inside(path: Path, name: str) -> str:
    parts = name.split("/")
    if not name or name.startswith("/") or ".." in parts or "\\" in name or "\0" in name:
        raise DataError(f"{path}: the member {name!r} lies outside the archive; nothing was unpacked")
    return str(PurePosixPath(name))


def _without_top(files: dict[str, bytes]) -> dict[str, bytes]:
    tops = {name.split("/", 1)[0] for name in files}
    if len(tops) == 1 and all("/" in name for name in files):
        return {name.split("/", 1)[1]: data for name, data in files.items()}
    return files


def read_folder(root: Path) -> SourceTree:
    """The regular files below a folder; links are never followed. Same bounds and errors as :func:`read_archive`."""
    if not root.is_dir():
        raise DataError(f"{root}: no folder")
    files: dict[str, bytes] = {}
    left_out: list[str] = []
    total = 0
    for folder, folders, names in os.walk(root, followlinks=False):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT and name not in links)
        for name in sorted([*names, *links]):
            place = Path(folder, name)
            relative = place.relative_to(root).as_posix()
            info = place.lstat()
            if not stat.S_ISREG(info.st_mode) or name.endswith(".pyc"):
                left_out.append(relative)
                continue
            total += info.st_size
            if info.st_size > MAX_FILE or total > MAX_TOTAL or len(files) >= MAX_FILES:
                raise DataError(f"{root}: {relative!r} makes it more than {MAX_FILES} files or {MAX_TOTAL >> 20} MiB")
            files[relative] = place.read_bytes()
    return SourceTree(files, tuple(left_out))
