"""A panel: the frozen list of tasks that a board scores, in a file with its hash.

A row is task id, name, seed, task type, and a hash of what the task shows first. The id covers what the task *is*; the
last one covers the data that a reference in it leads to (game files, a shop's catalogue), so that another version of
the data is found at the first turn. No text of the data itself is in the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.environment import Environment
from agentgym.errors import DataError
from agentgym.types import Episode, Task, TaskSet, content_hash

COLUMNS = ("id", "name", "seed", "kind", "start")


def start_hash(observation: str) -> str:
    """16 hex digits of BLAKE2b over a task's first observation."""
    return hashlib.blake2b(observation.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Row:
    """One task of a panel."""

    id: str
    name: str
    seed: int
    kind: str
    start: str


@dataclass(frozen=True, slots=True)
class Panel:
    """``rows`` in playing order; ``environment`` and ``split`` say where they come from."""

    environment: str
    split: str
    rows: tuple[Row, ...]

    @property
    def hash(self) -> str:
        """Content hash over environment and rows; the same on every machine."""
        return content_hash([self.environment, [[r.id, r.name, r.seed, r.kind, r.start] for r in self.rows]])

    def to_json(self) -> str:
        """The panel's file: one task a line."""
        head = {"environment": self.environment, "split": self.split, "hash": self.hash, "columns": COLUMNS}
        rows = ",\n".join("  " + json.dumps([r.id, r.name, r.seed, r.kind, r.start]) for r in self.rows)
        return f'{json.dumps(head)[:-1]},\n "tasks": [\n{rows}\n ]}}\n'

    def choose(self, tasks: Iterable[Task], where: str) -> TaskSet:
        """The panel's tasks out of ``tasks``, in its order. DataError names the first that is missing."""
        by_id = {task.id: task for task in tasks}
        missing = [row for row in self.rows if row.id not in by_id]
        if missing:
            same = next((task for task in by_id.values() if task.name == missing[0].name), None)
            change = f" A task of that name is there with id {same.id}: its content changed." if same else ""
            raise DataError(
                f"{where}: {len(missing)} of the panel's {len(self.rows)} tasks are not in split {self.split!r} of "
                f"environment {self.environment!r}; the first is {missing[0].name!r} (id {missing[0].id}).{change} The "
                "data or the code that makes the tasks is of another version than the board's"
            )
        return TaskSet([by_id[row.id] for row in self.rows], where)

    def starts(self) -> dict[str, str]:
        """Task id -> hash of its first observation."""
        return {row.id: row.start for row in self.rows}


def check_start(episode: Episode, starts: dict[str, str], where: str) -> None:
    """DataError where an episode began otherwise than the panel says: the data is of another version."""
    if not episode.turns:
        return
    found, expected = start_hash(episode.turns[0].observation), starts[episode.task.id]
    if found != expected:
        raise DataError(
            f"{where}: task {episode.task.name!r} does not begin as the panel says: hash of the first observation "
            f"{found}, expected {expected}. The data of this machine is of another version than the board's, so "
            "results would not be comparable"
        )


def make_panel(env: Environment, tasks: Iterable[Task], split: str) -> Panel:
    """The panel of ``tasks``; resets every one to see how it begins."""
    rows = [Row(t.id, t.name, t.seed, t.kind, start_hash(env.reset(t).text)) for t in tasks]
    return Panel(env.spec.name, split, tuple(rows))


def read_panel(path: Path) -> Panel:
    """Read a panel's file. DataError where it is missing, no panel, or its hash is not that of its content."""
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"panel {path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise DataError(f"panel {path}: not JSON: {error}") from error
    try:
        rows = tuple(Row(str(i), str(name), int(seed), str(kind), str(at)) for i, name, seed, kind, at in data["tasks"])
        panel = Panel(str(data["environment"]), str(data["split"]), rows)
        noted = data["hash"]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"panel {path}: expected environment, split, hash and tasks of {COLUMNS}: {error!r}") from error
    if noted != panel.hash:
        raise DataError(f"panel {path}: its content has hash {panel.hash}, but it says {noted}: it was changed")
    return panel
