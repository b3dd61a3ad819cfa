"""The official ALFWorld games on disk, as task sets.

Two layouts are read, from ``AGENTGYM_DATA/alfworld`` or ``AGENTGYM_DATA`` itself:

* packs: ``{train,valid_seen,valid_unseen,valid_train}.jsonl.xz``, a line is ``{id, task, problem, walkthrough}``
* the official one: ``json_2.1.1/<split>/<task>/<trial>/game.tw-pddl`` (or ``<split>/...`` without the first folder)

A task's name is ``<task>/<trial>``, its id a hash of the problem and the task sentence, so both layouts and all
machines agree. Tasks come in the order of their names, because the order of a directory walk differs between machines
(reference: 3,553 / 140 / 134 / 200 games). Texts stay compressed in memory and are parsed when a task is reset.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from agentgym.environments.alfworld.problem import KINDS, Problem, parse_problem
from agentgym.errors import DataError
from agentgym.types import Task, TaskSet, content_hash

DATA_SPLITS: Final = ("train", "valid_seen", "valid_unseen", "valid_train")
_FIELDS: Final = ("id", "task", "problem", "walkthrough")
_TASK_LINE = re.compile(r'"rhs"\s*:\s*"Your task is to: ((?:[^"\\]|\\.)*)"')


class Record:
    """One game: its name, task sentence, stored solution and (compressed) problem text."""

    __slots__ = ("_packed", "id", "name", "sentence", "walkthrough")

    def __init__(self, name: str, sentence: str, problem: str, walkthrough: list[str]) -> None:
        text = problem.encode()
        self.name = name
        self.sentence = sentence
        self.walkthrough = tuple(walkthrough)
        self.id = content_hash(["alfworld", hashlib.sha256(text).hexdigest(), sentence])
        self._packed = zlib.compress(text, 1)  # 8 times smaller; all of train is 190 MB

    def problem(self) -> Problem:
        """Parse the problem."""
        try:
            return parse_problem(zlib.decompress(self._packed).decode(), self.sentence, self.walkthrough, self.name)
        except ValueError as error:
            raise DataError(f"ALFWorld game {self.name!r} is not usable: {error}") from error


def kind_of(name: str) -> str:
    """Task type from a task folder's name; the whole first word, since ``pick_`` begins five of the six."""
    return name.partition("-")[0]


def data_tasks(split: str, root: str | None) -> TaskSet:
    """The tasks of an official split. ``root`` overrides ``AGENTGYM_DATA``."""
    records = _records(split, root)
    return TaskSet(
        (
            Task("alfworld", record.name, split, kind=kind_of(record.name), data={"split": split}, id=record.id)
            for record in records.values()
        ),
        f"alfworld/{split}",
    )


def data_file(split: str, root: str | None) -> Path:
    """The file or folder of an official split."""
    return _find(split, root)


def data_problem(task: Task, root: str | None) -> Problem:
    """The game of a task that :func:`data_tasks` made, perhaps in another process or on another machine."""
    split = task.data["split"]
    record = _records(split, root).get(task.name)
    if record is None:
        raise DataError(f"ALFWorld split {split!r} has no game {task.name!r}; the data differs from the task's source")
    if record.id != task.id:
        raise DataError(
            f"ALFWorld game {task.name!r} has id {record.id}, but the task says {task.id}: another version of the data "
            "(game files of different ALFWorld releases differ in facts and task sentences). Use the version the task "
            "was made from."
        )
    return record.problem()


def _records(split: str, root: str | None) -> dict[str, Record]:
    path = _find(split, root)
    stamp = path.stat()
    return _load(path, stamp.st_mtime_ns, stamp.st_size)


def _find(split: str, root: str | None) -> Path:
    base = root or os.environ.get("AGENTGYM_DATA")
    folders = [Path(base) / "alfworld", Path(base)] if base else []
    for folder in folders:
        for candidate in (folder / f"{split}.jsonl.xz", folder / "json_2.1.1" / split, folder / split):
            if candidate.exists():
                return candidate
    looked = f"looked in {' and '.join(map(str, folders))}" if folders else "AGENTGYM_DATA is not set"
    raise DataError(
        f"no ALFWorld data for split {split!r}: {looked}. Set AGENTGYM_DATA to a folder with "
        f"alfworld/{split}.jsonl.xz, or with the official alfworld/json_2.1.1/{split}/<task>/<trial>/game.tw-pddl "
        "(alfworld-download gets it). The split 'generated' needs no data."
    )


@lru_cache(maxsize=8)
def _load(path: Path, _mtime: int, _size: int) -> dict[str, Record]:
    rows = _official_rows(path) if path.is_dir() else _pack_rows(path)
    records: dict[str, Record] = {}
    for where, row in rows:
        record = _record(where, row)
        if record.name in records:
            raise DataError(f"{where}: game {record.name!r} occurs twice")
        records[record.name] = record
    if not records:
        raise DataError(f"{path} holds no ALFWorld game; expected at least one")
    return {name: records[name] for name in sorted(records)}


def _record(where: str, row: Any) -> Record:
    missing = [key for key in _FIELDS if not isinstance(row, dict) or key not in row]
    if missing:
        raise DataError(f"{where}: expected an object with {', '.join(_FIELDS)}; missing: {', '.join(missing)}")
    name, sentence, problem, walkthrough = (row[key] for key in _FIELDS)
    if not all(isinstance(text, str) and text for text in (name, sentence, problem)):
        raise DataError(f"{where}: id, task and problem must be non-empty strings")
    if not isinstance(walkthrough, list) or not all(isinstance(command, str) for command in walkthrough):
        raise DataError(f"{where}: walkthrough must be a list of commands, got {type(walkthrough).__name__}")
    if kind_of(name) not in KINDS:
        raise DataError(f"{where}: unknown task type in the name {name!r}; known: {', '.join(KINDS)}")
    try:
        return Record(name, sentence, problem, walkthrough)
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: the text holds half a character ({error.reason}). Get the file again.") from error


def _pack_rows(path: Path) -> Iterator[tuple[str, Any]]:
    line = 0
    try:
        with lzma.open(path, "rt", encoding="utf-8") as file:
            for line, text in enumerate(file, 1):
                if text.strip():
                    yield f"{path}, line {line}", json.loads(text)
    except (lzma.LZMAError, EOFError) as error:
        raise DataError(
            f"{path}: damaged or truncated after line {line} ({error}). Copy or download the file again."
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 after line {line} ({error}). Get the file again.") from error
    except (ValueError, RecursionError) as error:  # not JSON, or nested without end
        raise DataError(f"{path}, line {line}: not a JSON object in UTF-8 ({error}). Get the file again.") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _official_rows(folder: Path) -> Iterator[tuple[str, Any]]:
    for path in sorted(folder.glob("*/*/game.tw-pddl")):
        task = path.parent.parent.name
        if "movable" in task or "Sliced" in task:
            continue  # ALFWorld itself leaves these out
        try:
            game = json.loads(path.read_text(encoding="utf-8"))
            if game.get("solvable") is False:
                continue
            sentence = _TASK_LINE.search(game["grammar"])
            if sentence is None:
                raise ValueError("the grammar has no line 'Your task is to: ...'")
            problem, walkthrough = game["pddl_problem"], game.get("walkthrough") or []
            text = json.loads(f'"{sentence[1]}"')
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise DataError(f"{path}: not a usable game file ({error!r}). Get the file again.") from error
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from error
        name = f"{task}/{path.parent.name}"
        yield str(path), {"id": name, "task": text, "problem": problem, "walkthrough": walkthrough}
