"""The tasks of the environment: the embedded ones, or a file's; and everything an episode needs of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agentgym.environments.swe.options import SPLITS
from agentgym.environments.swe.schema import SWETask, read_tasks
from agentgym.environments.swe.sources.rows import load
from agentgym.environments.swe.sources.trees import Trees, grading_task, trees
from agentgym.errors import ConfigError, DataError, unknown
from agentgym.sandbox.grading import GradingTask
from agentgym.types import Task, TaskSet, content_hash

EMBEDDED = "mini"


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Tasks by name, in the file's order; ``where``: the folder that inline sources are relative to."""

    name: str
    where: Path
    tasks: dict[str, SWETask]

    def find(self, task: Task) -> SWETask:
        """The row behind a task. Raises DataError where it is not in this file, or not the same."""
        row = self.tasks.get(task.name)
        if row is None:
            raise DataError(f"swe task {task.name!r} is not in data set {self.name!r}; give the file it came from")
        wanted = task.data.get("row") if isinstance(task.data, dict) else None
        if wanted is not None and wanted != digest(row):
            raise DataError(f"swe task {task.name!r}: its row in {self.name!r} is not the one the task was made of")
        return row


def digest(row: SWETask) -> str:
    """Identifies a row by its content."""
    return content_hash(row.row())


@lru_cache(maxsize=8)
def dataset(name: str) -> Dataset:
    """``mini``, or the path of a file of tasks: ours, or rows of SWE-bench, SWE-Gym, SWE-smith, R2E-Gym.

    Raises DataError; a file with a row that cannot be read is refused as a whole, naming the row.
    """
    if name == EMBEDDED:
        where = Path(__file__).parent / "mini"
        found = read_tasks(where / "tasks.jsonl")
    else:
        path = Path(name)
        if not path.exists():
            raise DataError(f"swe: dataset {name!r} is neither {EMBEDDED!r} nor a file that exists")
        loaded, where = load(path), path.parent
        if loaded.refused:
            more = f" ({len(loaded.refused) - 1} more)" if len(loaded.refused) > 1 else ""
            raise DataError(f"swe: {loaded.refused[0]}{more}")
        found = loaded.tasks
    if not found:
        raise DataError(f"swe: dataset {name!r} holds no tasks")
    return Dataset(name, where, {task.instance_id: task for task in found})


def split_tasks(
    data: Dataset,
    split: str,
    unmarked: str,
    limit: int | None = None,
    names: Sequence[str] | None = None,
    kind: str | None = None,
) -> TaskSet:
    """The tasks whose row says ``split``, or says none and ``unmarked`` is it. ``names``: only these instance ids."""
    if split not in SPLITS:
        raise unknown("split of environment 'swe'", split, SPLITS)
    rows = [row for row in data.tasks.values() if (row.split or unmarked) == split]
    if not rows:
        other = "train" if split == "test" else "test"
        raise DataError(f"swe: all tasks of {data.name!r} are in split {other!r}, none in {split!r}")
    if names is not None:
        for name in names:
            if name not in data.tasks:
                raise unknown(f"swe task in {data.name!r}", str(name), data.tasks)
        rows = [row for row in rows if row.instance_id in names]
    if kind is not None:
        if kind not in (kinds := {row.kind for row in rows}):
            raise unknown(f"kind of swe task in {data.name!r}", str(kind), kinds)
        rows = [row for row in rows if row.kind == kind]
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ConfigError(f"swe: limit must be a whole number of at least 1, got {limit!r}")
    made = [Task("swe", row.instance_id, split, 0, row.kind, {"row": digest(row)}) for row in rows[:limit]]
    return TaskSet(made, f"swe/{split}")


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A task with its trees and what the grader needs."""

    row: SWETask
    trees: Trees
    graded: GradingTask


@lru_cache(maxsize=64)
def loaded(data: Dataset, name: str) -> Loaded:
    """Trees of a task that needs no image; the same few are shared by all episodes (what a grader learnt, too)."""
    row = data.tasks[name]
    found = trees(row, data.where)
    return Loaded(row, found, grading_task(row, found))
