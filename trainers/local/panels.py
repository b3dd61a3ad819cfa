"""Evaluation inside a run: fixed panels, fixed seeds, errors in the denominator, an interval with every number."""

from __future__ import annotations

import json
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agentgym.config.recipe import TaskSource
from agentgym.environment import Environment
from agentgym.errors import DataError
from agentgym.trainers.local.collect import Engine, episode_metrics
from agentgym.types import Episode, Group, TaskSet

Z = 1.959964  # 95 %


def task_set(env: Environment, source: TaskSource) -> TaskSet:
    """The tasks of a source, in their order, cut at its limit."""
    tasks = env.tasks(source.split, **source.options)
    if source.limit is not None:
        tasks = tasks[: source.limit]
    if not len(tasks):
        raise DataError(f"split {source.split!r} with options {source.options} holds no task")
    return tasks


def optional_task_set(env: Environment, source: TaskSource, note: Callable[[str], None]) -> TaskSet | None:
    """Like :func:`task_set`; None, with a note, where an optional source's data is missing."""
    try:
        return task_set(env, source)
    except DataError as error:
        if not source.optional:
            raise
        note(f"panel {source.label!r} is skipped: {str(error).splitlines()[0]}")
        return None


def interval(rates: Sequence[float], attempts: int) -> tuple[float, float]:
    """Wilson's 95 % interval over tasks; several attempts of a task count as much as they are independent.

    The effective sample size is p(1-p) / var(mean of task rates), bounded by the number of tasks and of episodes.
    """
    n = len(rates)
    if not n:
        return 0.0, 1.0
    p = sum(rates) / n
    spread = sum((r - p) ** 2 for r in rates) / max(1, n - 1) / n
    size = float(n) if attempts == 1 or not spread else min(max(p * (1 - p) / spread, n), n * attempts)
    centre = p + Z * Z / (2 * size)
    half = Z * math.sqrt(p * (1 - p) / size + Z * Z / (4 * size * size))
    scale = 1 + Z * Z / size
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def score_panel(
    engine: Engine,
    tasks: TaskSet,
    attempts: int,
    seed: int,
    on_episode: Callable[[Episode], None] | None = None,
) -> tuple[dict[str, Any], list[Group]]:
    """Play a panel; returns a result record and the groups."""
    started = time.perf_counter()
    groups = engine.run_sync(list(tasks), n=attempts, seed=seed, on_episode=on_episode)
    rates = [sum(e.success for e in group) / len(group) for group in groups]
    low, high = interval(rates, attempts)
    episodes = [e for group in groups for e in group]
    kinds: dict[str, list[float]] = defaultdict(list)
    for group, rate in zip(groups, rates, strict=True):
        kinds[group.task.kind].append(rate)
    means = episode_metrics(episodes, "eval")
    result: dict[str, Any] = {
        "tasks": len(tasks),
        "attempts": attempts,
        "panel": tasks.hash,
        "seed": seed,
        "success": sum(rates) / max(1, len(rates)),
        "success_low": low,
        "success_high": high,
        "outcome": means["eval/outcome"],
        "turns": means["eval/turns"],
        "invalid_rate": means["eval/invalid_rate"],
        "errors": int(means["eval/errors"]),
        "seconds": time.perf_counter() - started,
    }
    if len(kinds) > 1:
        result["kinds"] = {
            kind: {"tasks": len(values), "success": sum(values) / len(values)} for kind, values in sorted(kinds.items())
        }
    return result, groups


def flat(result: dict[str, Any]) -> dict[str, float]:
    """A result record as metrics ``eval/...``."""
    keys = ("success", "success_low", "success_high", "outcome", "turns", "invalid_rate", "errors")
    return {f"eval/{key}": float(result[key]) for key in keys} | {"time/eval": float(result["seconds"])}


def write_json(path: Path, data: Any) -> None:
    """Replace a JSON file whole."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(part, path)
