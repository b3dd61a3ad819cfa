"""The manifest of a data set's folder: source, date, and size and hash of every file."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from agentgym.datasets import Problem
from agentgym.errors import DataError

NAME = "manifest.json"


def file_hash(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read(folder: Path) -> dict[str, Any] | None:
    """The manifest of a folder, None where there is none. Raises DataError for one that is no manifest."""
    path = folder / NAME
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        files = found["files"]
        assert all(isinstance(entry["sha256"], str) for entry in files.values())
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
        raise DataError(f"{path} is no manifest ({error}); remove it and import the data again") from error
    return dict(found)


def write(folder: Path, name: str, source: str, paths: list[Path], archives: dict[str, str]) -> dict[str, Any]:
    """Hash ``paths`` (inside ``folder``) and write the manifest, keeping the entries of other files."""
    before = read(folder) or {"files": {}, "archives": {}}
    files = dict(before["files"])
    for path in paths:
        files[path.relative_to(folder).as_posix()] = {"sha256": file_hash(path), "size": path.stat().st_size}
    data = {
        "dataset": name,
        "source": source,
        "date": datetime.date.today().isoformat(),
        "archives": {**before.get("archives", {}), **archives},
        "version": version(files),
        "files": dict(sorted(files.items())),
    }
    part = folder / f".{NAME}.{os.getpid()}"
    part.write_text(text(data), encoding="utf-8")
    os.replace(part, folder / NAME)
    return data


def text(data: dict[str, Any]) -> str:
    """A manifest as it is written."""
    return json.dumps(data, indent=1) + "\n"


def version(files: dict[str, Any]) -> str:
    """16 hex digits over names and hashes of all files: equal where the data is."""
    hashes = json.dumps({name: entry["sha256"] for name, entry in files.items()}, sort_keys=True)
    return hashlib.sha256(hashes.encode()).hexdigest()[:16]


def verify(folder: Path) -> list[Problem]:
    """What is missing, changed, or there without being listed. Raises DataError where there is no manifest."""
    found = read(folder)
    if found is None:
        raise DataError(f"{folder} has no {NAME}: it was not put there by 'agentgym data'; import it to have it hashed")
    problems = []
    for name, entry in found["files"].items():
        path = folder / name
        if not path.is_file():
            problems.append(Problem(name, "missing"))
        elif path.stat().st_size != entry["size"] or file_hash(path) != entry["sha256"]:
            problems.append(Problem(name, "changed", {"expected": entry["sha256"], "seen": file_hash(path)}))
    listed = {NAME, *found["files"]}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in listed and not name.endswith(".part"):
            problems.append(Problem(name, "unlisted"))
    return problems
