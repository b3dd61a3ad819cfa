"""Members of archives, taken out safely: regular files only, never outside the folder, never more than stated."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import IO

from agentgym.errors import DataError

#: bytes that one archive may unpack to
MOST_BYTES = 64 << 30


def is_archive(path: Path) -> bool:
    """A zip or tar file (also compressed), by its content."""
    return path.is_file() and (zipfile.is_zipfile(path) or tarfile.is_tarfile(path))


def unpack(archive: Path, folder: Path, take: Sequence[str]) -> list[Path]:
    """Write the members that match any of ``take`` under ``folder``; returns their paths.

    Raises DataError for a broken archive, for a member whose name leads outside, and where none matches.
    """
    written: list[Path] = []
    total = 0
    try:
        for name, size, stream in _members(archive):
            if not any(fnmatchcase(name, pattern) for pattern in take):
                continue
            total += size
            if total > MOST_BYTES:
                raise DataError(f"{archive} would unpack to more than {MOST_BYTES:,} bytes")
            target = folder / _inside(archive, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                shutil.copyfileobj(stream, file)
            written.append(target)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DataError(f"{archive} cannot be unpacked: {error}") from error
    if not written:
        raise DataError(f"{archive} holds none of the files expected ({', '.join(take)})")
    return written


def _members(archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if not info.is_dir() and (info.external_attr >> 28) in (0, 8):  # no links
                    with packed.open(info) as stream:
                        yield info.filename, info.file_size, stream
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            stream_or_none = tar.extractfile(member) if member.isreg() else None
            if stream_or_none is not None:
                yield member.name, member.size, stream_or_none


def _inside(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in path.parts[0] or "\0" in name:
        raise DataError(f"{archive}: the member {name!r} leads outside the folder; the archive is not trusted")
    return path
