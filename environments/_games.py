"""What the small games share: splits that cannot overlap, checks of options and tasks, several actions in one turn.

The content of a game decides its split: the last hexadecimal digit of its hash (12 of 16 digits train, 2 validate,
2 test). So no game can be in two splits, whatever the seeds and options are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from agentgym.errors import ConfigError, DataError, EnvironmentFault, unknown
from agentgym.seeding import derive_seed
from agentgym.types import Task, TaskSet, content_hash

#: split -> the last hexadecimal digits of the content hashes that belong to it
SPLITS: Final[Mapping[str, str]] = {"train": "0123456789ab", "valid": "cd", "test": "ef"}
_SPLIT_OF: Final = {digit: split for split, digits in SPLITS.items() for digit in digits}
#: draws for one task before we say that there are not enough different games
_TRIES: Final = 2000
#: separates the actions of one turn where an environment takes several (as RAGEN does)
SEPARATOR: Final = "||"


@dataclass(frozen=True, slots=True)
class Game:
    """A drawn game. ``content``: what makes it this game and no other (JSON-compatible); ``data``: the task's data."""

    content: Any
    data: Any
    label: str
    kind: str = ""


def content_key(env: str, content: Any) -> str:
    """16 hexadecimal digits that identify a game by what is in it."""
    return content_hash([env, content])


def split_of(env: str, content: Any) -> str:
    """The one split that a game belongs to."""
    return _SPLIT_OF[content_key(env, content)[-1]]


def draw_tasks(env: str, split: str, n: int, seed: int, draw: Callable[[int], Game], distinct: bool = True) -> TaskSet:
    """``n`` games of a split. The first tasks do not depend on ``n``.

    ``draw(seed)`` makes one game; games of other splits are drawn again, and repeated ones where they must be
    ``distinct``. Raises UnknownNameError (split) or ConfigError (a wrong number, or fewer games than asked for).
    """
    check_split(env, split)
    whole(env, "n", n, 1, 1_000_000)
    whole(env, "seed", seed, 0)
    tasks: dict[str, Task] = {}
    for index in range(n):
        for attempt in range(_TRIES):
            game_seed = derive_seed(env, split, seed, index, attempt)
            game = draw(game_seed)
            key = content_key(env, game.content)
            name = f"{game.label}-{key}" if distinct else f"{game.label}-{key}-{game_seed}"
            if key[-1] in SPLITS[split] and name not in tasks:
                tasks[name] = Task(env, name, split, game_seed, game.kind, game.data)
                break
        else:
            raise ConfigError(
                f"environment {env!r}: found only {index} different games for split {split!r} with these options; "
                f"ask for fewer (n={n}) or for larger games"
            )
    return TaskSet(tasks.values(), f"{env}/{split}")


def check_split(env: str, split: str, known: Iterable[str] = SPLITS) -> None:
    """Raise UnknownNameError where ``split`` is none of ``known``."""
    if not isinstance(split, str) or split not in known:
        raise unknown(f"split of environment {env!r}", str(split), known)


def check_options(env: str, options: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise UnknownNameError for a task option that is none of ``known``."""
    for name in options:
        if name not in known:
            raise unknown(f"task option of environment {env!r}", name, known)


def whole(env: str, name: str, value: Any, low: int, high: int | None = None) -> int:
    """``value`` if it is an integer from ``low`` to ``high`` (None: no upper end), else ConfigError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < low or (high is not None and value > high):
        span = f">= {low}" if high is None else f"from {low} to {high}"
        raise ConfigError(f"environment {env!r}: {name} must be an integer {span}, got {value!r:.80}")
    return value


def share(env: str, name: str, value: Any) -> float:
    """``value`` as a float if it is a number from 0 to 1, else ConfigError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ConfigError(f"environment {env!r}: {name} must be a number from 0 to 1, got {value!r:.80}")
    return float(value)


def yes_no(env: str, name: str, value: Any) -> bool:
    """``value`` if it is True or False, else ConfigError."""
    if not isinstance(value, bool):
        raise ConfigError(f"environment {env!r}: {name} must be true or false, got {value!r:.80}")
    return value


def is_success(env: str, outcome: str) -> bool:
    """Whether the episode's score is its success (1 or 0) rather than the sum of its rewards."""
    if outcome not in ("success", "rewards"):
        raise unknown(f"outcome of environment {env!r}", str(outcome), ("success", "rewards"))
    return outcome == "success"


def task_data(env: str, task: Task) -> Mapping[str, Any]:
    """The data of a task of this environment. Raises EnvironmentFault (another environment's) or DataError."""
    if task.env != env:
        raise EnvironmentFault(f"environment {env!r} got a task of environment {task.env!r}: {task.name!r}")
    if not isinstance(task.data, Mapping):
        raise damaged(task, f"its data is {task.data!r:.80}, expected a mapping")
    return task.data


def optional_data(env: str, task: Task, known: Iterable[str]) -> dict[str, Any]:
    """The data of a task that needs none: {} for None. Raises as ``task_data``, and UnknownNameError for a field."""
    data = {} if task.env == env and task.data is None else dict(task_data(env, task))
    if unread := {str(name) for name in data if name not in known}:
        raise unknown(f"field of the data of {env} task {task.name!r}", min(unread), known)
    return data


def damaged(task: Task, problem: str) -> DataError:
    """A DataError that names the task and what to do."""
    return DataError(
        f"{task.env} task {task.name!r}: {problem}. Make the task with tasks() of environment {task.env!r}."
    )


def not_running(env: str, task: Task | None) -> EnvironmentFault:
    """The error of a step, snapshot or expert call without a game, or of a step after its end."""
    if task is None:
        return EnvironmentFault(f"environment {env!r}: reset(task) must come first")
    return EnvironmentFault(f"{env} task {task.name!r}: the game is over; reset first")


def foreign_snapshot(env: str, found: Any, task: Task | None) -> EnvironmentFault:
    """The error of restoring a snapshot of another task."""
    playing = "no task" if task is None else f"task {task.id}"
    return EnvironmentFault(
        f"environment {env!r}: the snapshot is of task {found!r:.80}, this instance plays {playing}; reset it to the "
        "snapshot's task first"
    )


def snapshot_fields(env: str, state: Any, task: Task | None, expected: str) -> tuple[Any, ...]:
    """What a snapshot holds behind its task id; ``expected`` names these fields, separated by ", ".

    Raises EnvironmentFault where ``state`` is no such tuple, or of another task than ``task``.
    """
    if not isinstance(state, tuple | list) or len(state) != 2 + expected.count(", ") or not isinstance(state[0], str):
        raise bad_snapshot(env, state, expected)
    if task is None or state[0] != task.id:
        raise foreign_snapshot(env, state[0], task)
    return tuple(state[1:])


def bad_snapshot(env: str, state: Any, expected: str) -> EnvironmentFault:
    """The error of restoring what is no snapshot of this game, or holds a state that the game does not have."""
    return EnvironmentFault(
        f"environment {env!r}: expected a snapshot (task id, {expected}) of the present task, got {state!r:.120}; "
        "give restore() what snapshot() returned"
    )


def in_range(value: Any, low: int, high: int) -> bool:
    """Whether ``value`` is an integer (not a bool) from ``low`` to ``high``."""
    return type(value) is int and low <= value <= high


def parse_actions(text: str, names: Mapping[str, int], limit: int) -> list[int] | None:
    """The numbers of the actions in ``text``; None where it holds none, more than ``limit``, or an unknown one.

    ``names`` maps lower-case names to numbers; case and surrounding space do not count.
    """
    single = names.get(text.strip().lower()) if len(text) < 200 else None
    if single is not None:
        return [single]
    if limit == 1 or len(text) > 1000 or SEPARATOR not in text:
        return None
    parts = text.lower().split(SEPARATOR)
    numbers = [names[word] for part in parts if (word := part.strip()) in names]
    return numbers if len(numbers) == len(parts) <= limit else None
