"""Which data a result was made from: a hash over the files that an environment reads for a split."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentgym.datasets.manifest import file_hash, version


def fingerprint(paths: Iterable[Path]) -> dict[str, Any]:
    """``{"version": ..., "files": {name: sha256}}`` of files and folders; empty for none.

    A folder stands for everything below it, as one line ``name/``; where two have the same name, all are named from the
    folder that holds them. ``version`` is over names and hashes, as that of the manifests of ``agentgym data``. A file
    is read once per process, and again only where its size or date has changed. OSError for one that is not there.
    """
    found = list(dict.fromkeys(paths))
    if not found:
        return {}
    hashes = [_folder(path) if path.is_dir() else _file(path) for path in found]
    files = dict(sorted(zip(_names(found), hashes, strict=True)))
    return {"version": version({name: {"sha256": found} for name, found in files.items()}), "files": files}


def _names(paths: list[Path]) -> list[str]:
    """Bare names, or paths from the common folder where two names are equal: the same wherever the data lie."""
    names = [path.name for path in paths]
    if len(set(names)) < len(names):
        whole = [path.absolute() for path in paths]
        common = os.path.commonpath(whole)
        names = [path.relative_to(common).as_posix() for path in whole]
    return [name + "/" * path.is_dir() for name, path in zip(names, paths, strict=True)]


def _file(path: Path) -> str:
    stamp = path.stat()
    return _hashed(path, stamp.st_mtime_ns, stamp.st_size)


def _folder(path: Path) -> str:
    whole = hashlib.sha256()
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        whole.update(f"{file.relative_to(path).as_posix()}\0{_file(file)}\n".encode())
    return whole.hexdigest()


@lru_cache(maxsize=65536)
def _hashed(path: Path, _mtime: int, _size: int) -> str:
    return file_hash(path)
