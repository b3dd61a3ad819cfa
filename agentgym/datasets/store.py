"""What ``agentgym data`` does: fetch, import, pack; each ends with every file in the manifest."""

from __future__ import annotations

import lzma
import os
import shutil
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from agentgym.datasets import Dataset, manifest
from agentgym.datasets.download import download
from agentgym.datasets.unpack import is_archive, unpack
from agentgym.errors import ConfigError, DataError

Progress = Callable[[int, int | None], None]


def get(data: Dataset, root: Path, sha256: str = "", progress: Progress | None = None) -> dict[str, Any]:
    """Download a data set into ``root``; returns its manifest. Archives are removed once they are unpacked.

    A file without a published hash must match that of an earlier download, where the manifest has one. ``sha256``: what
    the caller expects of the (only) file. Raises ConfigError for a data set that cannot be fetched.
    """
    if data.by_hand:
        raise ConfigError(
            f"{data.name} cannot be fetched: {data.by_hand} ({data.homepage}). Then: agentgym data import {data.name} "
            "FOLDER"
        )
    if sha256 and len(data.files) > 1:
        raise ConfigError(f"{data.name} has {len(data.files)} files; --sha256 is for data sets of one")
    folder = data.folder(root)
    known = (manifest.read(folder) or {}).get("archives", {})
    written: list[Path] = []
    hashes: dict[str, str] = {}
    for file in data.files:
        target = folder / file.name
        hashes[file.name] = download(file.url, target, sha256 or file.sha256 or known.get(file.name, ""), progress)
        if file.take:
            written += unpack(target, folder, file.take)
            target.unlink()
        else:
            written.append(target)
    return manifest.write(folder, data.name, ", ".join(file.url for file in data.files), written, hashes)


def import_(data: Dataset, root: Path, source: Path) -> dict[str, Any]:
    """Copy a data set's files from a folder, an archive or one file on this machine; returns the manifest.

    Of a folder and an archive only what the data set ``accepts`` is taken. Raises DataError where there is none.
    """
    folder = data.folder(root)
    if source.is_dir() and source.resolve() == folder.resolve():
        written = [path for path in sorted(folder.rglob("*")) if path.is_file() and _accepted(data, path, folder)]
    elif source.is_dir():
        written = [
            _copy(path, folder / path.relative_to(source))
            for path in sorted(source.rglob("*"))
            if path.is_file() and not path.is_symlink() and _accepted(data, path, source)
        ]
    elif is_archive(source):
        written = unpack(source, folder, data.accepts)
    elif source.is_file() and _accepted(data, source, source.parent):
        written = [_copy(source, folder / source.name)]
    else:
        written = []
    if not written:
        raise DataError(f"{source} holds no file of {data.name}; expected {', '.join(data.accepts)}")
    return manifest.write(folder, data.name, source.name, written, {})


def _accepted(data: Dataset, path: Path, base: Path) -> bool:
    name = path.relative_to(base).as_posix()
    return path.name != manifest.NAME and any(
        fnmatchcase(name, pattern) or fnmatchcase(path.name, pattern) for pattern in data.accepts
    )


def _copy(path: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copyfile(path, part)
    os.replace(part, target)
    return target


def pack(data: Dataset, root: Path) -> tuple[int, int, int]:
    """Compress a data set's plain JSON files with xz, which every reader takes; (files, bytes before, bytes after).

    A file is removed only after its compressed form was read back equal.
    """
    folder = data.folder(root)
    found = manifest.read(folder)
    if found is None:
        raise DataError(
            f"{folder} has no {manifest.NAME}; import the data first: agentgym data import {data.name} FOLDER"
        )
    plain = [folder / name for name in found["files"] if name.endswith((".json", ".jsonl"))]
    before = sum(path.stat().st_size for path in plain)
    packed = [_compressed(path) for path in plain]
    for path in plain:
        found["files"].pop(path.relative_to(folder).as_posix())
    (folder / manifest.NAME).write_text(manifest.text(found), encoding="utf-8")
    manifest.write(folder, data.name, found["source"], packed, {})
    return len(plain), before, sum(path.stat().st_size for path in packed)


def _compressed(path: Path) -> Path:
    target = path.with_name(path.name + ".xz")
    content = path.read_bytes()
    part = target.with_name(f".{target.name}.{os.getpid()}")
    part.write_bytes(lzma.compress(content, preset=6))
    if lzma.decompress(part.read_bytes()) != content:
        part.unlink()
        raise DataError(f"{path}: the compressed copy could not be read back; the file was left as it is")
    os.replace(part, target)
    path.unlink()
    return target
