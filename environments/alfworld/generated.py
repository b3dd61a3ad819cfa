"""Generated games as tasks: three splits that share no game, each task small enough to send to a worker.

A task's ``data`` is a seed and the knobs; :func:`generated_problem` builds the game from it anywhere. A task's id is
the hash of the game itself. That hash also decides the split (12 of its last digit's 16 values train, 2 validate, 2
test), so no game can be in two splits, whatever the seeds and knobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from agentgym.environments.alfworld.generator import build, generate
from agentgym.environments.alfworld.knobs import Knobs, make_knobs
from agentgym.environments.alfworld.problem import Problem
from agentgym.errors import ConfigError, DataError, unknown
from agentgym.seeding import derive_seed
from agentgym.types import Task, TaskSet, content_hash

#: split -> the last hex digits of the game hashes that belong to it
GENERATED_SPLITS: Final[Mapping[str, str]] = {
    "generated": "0123456789ab",
    "generated_valid": "cd",
    "generated_test": "ef",
}
#: draws for one task before we say that there are not enough different games
_TRIES: Final = 500


def content_key(problem: Problem) -> str:
    """16 hex digits that identify a game by what is in it; names and walkthroughs do not count."""
    places = [[r.id, r.type, r.location, r.openable, r.opened] for r in problem.receptacles]
    items = [
        [o.id, o.type, sorted(o.abilities), o.receptacles, o.locations, sorted(o.states), o.vessel, o.inside]
        for o in problem.items
    ]
    goal = problem.goal
    return content_hash(
        ["alfworld game", places, items, problem.start, sorted(problem.can_contain), goal.kind, goal.item, goal.target,
         problem.task]
    )  # fmt: skip


def generated_tasks(split: str, n: int = 100, seed: int = 0, preset: str = "full", **knobs: Any) -> TaskSet:
    """``n`` different games of a split. The first tasks do not depend on ``n``. ``knobs``: see :class:`.Knobs`."""
    if split not in GENERATED_SPLITS:
        raise unknown("split of generated ALFWorld games", split, GENERATED_SPLITS)
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ConfigError(f"generated ALFWorld games: n must be an integer >= 1, got {n!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ConfigError(f"generated ALFWorld games: seed must be an integer >= 0, got {seed!r}")
    made = make_knobs(preset, knobs)
    changes = {name: list(value) if isinstance(value, tuple) else value for name, value in knobs.items()}
    tasks: dict[str, Task] = {}
    for index in range(n):
        for game_seed, problem, key in _candidates(split, seed, index, made):
            if key not in tasks:
                data = {"generated": game_seed, "preset": preset, "knobs": changes}
                tasks[key] = _task(problem, key, split, data)
                break
        else:
            raise ConfigError(
                f"generated ALFWorld games: found only {index} different games for split {split!r} with preset "
                f"{preset!r} and knobs {changes}; ask for fewer (n={n}) or widen the knobs"
            )
    return TaskSet(tasks.values(), f"alfworld/{split}")


def _candidates(split: str, seed: int, index: int, knobs: Knobs) -> Iterator[tuple[int, Problem, str]]:
    digits = GENERATED_SPLITS[split]
    for attempt in range(_TRIES):
        game_seed = derive_seed("alfworld", split, seed, index, attempt)
        problem = build(game_seed, knobs)
        key = content_key(problem)
        if key[-1] in digits:
            yield game_seed, problem, key


def _task(problem: Problem, key: str, split: str, data: dict[str, Any]) -> Task:
    goal = problem.goal
    name = f"{goal.kind}-{goal.item}-{goal.target}/generated-{data['generated']}"
    return Task("alfworld", name, split, data["generated"], goal.kind, data, key)


def is_generated(task: Task) -> bool:
    """The task's game comes from this generator."""
    return isinstance(task.data, Mapping) and "generated" in task.data


def generated_problem(task: Task) -> Problem:
    """Build a task's game. Raises DataError where its id says that another version of the generator made it."""
    data = task.data
    problem = generate(data["generated"], data.get("preset", "full"), **data.get("knobs", {}))
    key = content_key(problem)
    if key != task.id:
        raise DataError(
            f"alfworld task {task.name!r}: its id is {task.id}, the generator makes a game with id {key} of its seed. "
            "The task set is from another version of agentgym; make it again with generated_tasks."
        )
    return problem
