"""Evaluation inside a run: fixed panels, fixed seeds, errors in the denominator, an interval with every number."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentgym.config.recipe import Recipe, TaskSource
from agentgym.credit.parts import name_of
from agentgym.environment import Environment
from agentgym.errors import DataError
from agentgym.evaluation import setup_facts, summarise
from agentgym.rollouts import RolloutEngine
from agentgym.store import EpisodeStore
from agentgym.types import Episode, TaskSet


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


def score_panel(
    engine: RolloutEngine,
    recipe: Recipe,
    tasks: TaskSet,
    seed: int,
    on_episode: Callable[[Episode], None] | None = None,
    store: Path | None = None,
) -> dict[str, Any]:
    """Play a panel ``eval.attempts`` times; the result record of :mod:`agentgym.evaluation`.

    ``store``: file that receives the episodes, replacing what an earlier, unfinished try left there.
    """
    started = time.perf_counter(), time.process_time()
    groups = engine.run_sync(tasks, n=recipe.eval.attempts, seed=seed, on_episode=on_episode)
    setup = setup_facts(recipe.env.name, engine.config, recipe.env.options)
    if engine.config.augmenter is not None:  # policies with notes in their prompts are other agents
        setup["notes"] = [name_of(part) for part in getattr(engine.config.augmenter, "augmenters", ())]
    report = summarise(groups, tasks, recipe.eval.attempts, seed=seed, setup=setup)
    report.seconds, report.cpu_seconds = time.perf_counter() - started[0], time.process_time() - started[1]
    if store is not None:
        store.parent.mkdir(exist_ok=True)
        store.unlink(missing_ok=True)
        with EpisodeStore(store) as file:
            for group in groups:
                for episode in group:
                    file.append(episode)
    return report.to_dict()


def flat(result: dict[str, Any]) -> dict[str, float]:
    """A result record as metrics ``eval/...``."""
    keys = ("success", "success_low", "success_high", "outcome", "turns", "invalid_rate", "errors")
    return {f"eval/{key}": float(result[key]) for key in keys} | {"time/eval": float(result["seconds"])}


def write_json(path: Path, data: Any) -> None:
    """Replace a JSON file whole."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(part, path)
