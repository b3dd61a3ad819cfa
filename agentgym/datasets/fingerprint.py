"""Which data a result was made from: a hash over the files that an environment reads for a split."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentgym.datasets.manifest import file_hash, version


def fingerprint(paths: Iterable[Path]) -> dict[str, Any]:
    """``{"version": ..., "files": {name: sha256}}`` of files and folders; empty for none.

    A folder stands for everything below it, as one line ``name/``. ``version`` is over names and hashes, as that of the
    manifests of ``agentgym data``. A file is read once per process, and again only where its size or date has changed.
    OSError for one that is not there.
    """
    files = {path.name + "/" * path.is_dir(): _folder(path) if path.is_dir() else _file(path) for path in paths}
    if not files:
        return {}
    files = dict(sorted(files.items()))
    return {"version": version({name: {"sha256": found} for name, found in files.items()}), "files": files}


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
