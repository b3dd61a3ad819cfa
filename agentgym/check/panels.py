"""Tasks: what splits hold, that they stay the same, and that they share nothing."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

from agentgym.check.finding import Level
from agentgym.check.probe import Probe, Stop
from agentgym.environment import Environment
from agentgym.errors import AgentGymError
from agentgym.types import Task, content_hash


def check_tasks(probe: Probe) -> None:
    """Every split that is there: tasks of the right names, the same again in a new instance, in no other split."""
    first, second = probe.make(), probe.make()
    found: dict[str, list[Task]] = {}
    chosen = [probe.settings.split] if probe.settings.split else list(probe.spec.splits)
    for split in chosen:
        try:
            found[split] = list(probe.tasks(first, split))
            again = list(probe.tasks(second, split))
        except AgentGymError as error:
            probe.find(
                "note",
                "split_not_there",
                f"tasks({split!r})",
                expected="the split's data",
                seen=str(error)[:300],
                mend="give it the data, and check again",
            )
            continue
        _check_stable(probe, split, found[split], again)
        _check_each(probe, split, found[split])
    _check_refusals(probe, first)
    for one, two in combinations(found, 2):
        _check_disjoint(probe, (one, found[one]), (two, found[two]))
    probe.close(first)
    probe.close(second)
    if not found:
        raise Stop


def _check_stable(probe: Probe, split: str, once: list[Task], again: list[Task]) -> None:
    where = f"tasks({split!r})"
    if not once:
        probe.find(
            "error",
            "tasks_none",
            where,
            expected="at least one task",
            seen="none",
            mend="raise DataError where the data is missing, so that it is not taken for an empty split",
        )
    if [task.id for task in once] != [task.id for task in again]:
        k = next((k for k, (a, b) in enumerate(zip(once, again, strict=False)) if a.id != b.id), -1)
        seen = (
            f"position {k}: {once[k].name!r}, then {again[k].name!r}" if k >= 0 else f"{len(once)}, then {len(again)}"
        )
        probe.find(
            "error",
            "tasks_change",
            where,
            expected="the same ids in the same order every time",
            seen=seen,
            mend="draw names, seeds and data from fixed seeds, and sort what comes from folders or sets",
        )


def _check_each(probe: Probe, split: str, tasks: list[Task]) -> None:
    spec = probe.spec
    for task in tasks:
        where = f"tasks({split!r}), task {task.name!r}"
        if task.env not in (spec.name, probe.name):
            probe.find(
                "error",
                "task_env",
                where,
                expected=f"Task.env {spec.name!r} (spec.name)",
                seen=repr(task.env),
                mend="make tasks with Task(self.spec.name, ...)",
            )
        if task.split != split:
            probe.find(
                "error",
                "task_split",
                where,
                expected=f"Task.split {split!r}",
                seen=repr(task.split),
                mend="pass the split on to the tasks",
            )
        if spec.kinds and task.kind not in spec.kinds:
            probe.find(
                "error",
                "task_kind",
                where,
                expected=f"a kind of {spec.kinds!r:.100}",
                seen=repr(task.kind),
                mend="name it in spec.kinds: tables break results down by it",
            )
    for task in tasks[:50]:
        _check_data(probe, task, f"tasks({split!r}), task {task.name!r}")


def _check_data(probe: Probe, task: Task, where: str) -> None:
    try:
        back = json.loads(json.dumps(task.data))
    except (TypeError, ValueError) as error:
        probe.find(
            "error",
            "task_data",
            where,
            expected="Task.data that JSON can hold",
            seen=str(error)[:120],
            mend="keep plain values in it, or a reference that reset() can look up",
        )
        return
    if back != task.data and content_hash(back) != content_hash(task.data):
        probe.find(
            "error",
            "task_data",
            where,
            expected="Task.data that is the same after JSON",
            seen=repr(back)[:120],
            mend="use text as keys, and lists",
        )


def _check_disjoint(probe: Probe, one: tuple[str, list[Task]], two: tuple[str, list[Task]]) -> None:
    (a, first), (b, second) = one, two
    ids = {task.id: task for task in first}
    shared = [task for task in second if task.id in ids]
    if shared:
        probe.find(
            "error",
            "splits_overlap",
            f"splits {a!r} and {b!r}",
            expected="no task in two splits",
            seen=f"{len(shared)} shared, such as {shared[0].name!r}",
            mend="give each split seeds or data of its own: what is measured must not be trained on",
        )
        return
    contents = {_content(task): task for task in first}
    doubles = [task for task in second if _content(task) in contents]
    if doubles:
        probe.find(
            "error",
            "splits_overlap",
            f"splits {a!r} and {b!r}",
            expected="no task in two splits",
            seen=f"{len(doubles)} with equal seed and data under another name, such as {doubles[0].name!r}",
            mend="give each split seeds or data of its own: what is measured must not be trained on",
        )


def _content(task: Task) -> str:
    try:
        return content_hash([task.seed, task.data]) if task.data is not None else f"seed {task.seed}"
    except TypeError:
        return task.id


def _check_refusals(probe: Probe, env: Environment) -> None:
    known = probe.spec.splits[0] if probe.spec.splits else "train"
    tries: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("split_unknown", "no-such-split", {}),
        ("option_unknown", known, {"no_such_option": 1}),
    )
    for code, split, options in tries:
        given = f"{split!r}{', no_such_option=1' if options else ''}"
        try:
            env.tasks(split, **options)
        except AgentGymError:
            continue
        except TypeError:
            if options:  # a signature without it: the library names the options itself
                continue
            error_name = "TypeError"
        except (Exception, SystemExit) as error:
            error_name = type(error).__name__
        else:
            error_name = ""
        seen = f"a bare {error_name}" if error_name else "a TaskSet, as if it were known"
        level: Level = "error" if not error_name else "warning"
        probe.find(
            level,
            code,
            f"tasks({given})",
            expected="UnknownNameError, with the names there are",
            seen=seen,
            mend="raise agentgym.errors.unknown('split', split, self.spec.splits)"
            if code == "split_unknown"
            else "name the options of tasks() in its signature",
        )
