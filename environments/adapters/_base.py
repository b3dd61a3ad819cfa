"""What the adapters share: an id, tasks that are seeds, snapshots by replay, names of the form ``library:ID``."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from dataclasses import replace
from functools import lru_cache
from types import ModuleType
from typing import Any, ClassVar, Final, Self

from agentgym.environment import Environment, EnvironmentSpec
from agentgym.environments import _games
from agentgym.errors import ConfigError, MissingDependency
from agentgym.types import Observation, Step, Task, TaskSet

#: split -> its first seed; the splits share none
FIRST_SEED: Final = {"train": 0, "valid": 1_000_000_000, "test": 1_500_000_000}
MOST_TASKS: Final = 500_000_000
#: stands for the dots of an id in the qualified name of its class
DOT: Final = "\N{ONE DOT LEADER}"


def library(name: str, extra: str, package: str = "") -> ModuleType:
    """Import a library, or say which extra installs it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"environment {extra!r} needs the package {package or name!r} ({error.name} is missing): "
            f"pip install 'agentgym-turns[{extra}]'"
        ) from error


class Adapter(Environment):
    """An environment of another library, chosen by ``id``. One task for each seed."""

    #: registry name of the family; ``spec.name`` is it, or ``family:ID``
    family: ClassVar[str]
    #: the id of a class that was made for ``family:ID``
    fixed: ClassVar[str] = ""

    def __init__(self, id: str = "") -> None:
        if self.fixed and id not in ("", self.fixed):
            raise ConfigError(f"environment {self.spec.name!r} has its id in its name; it takes no other")
        self.id = self.fixed or id
        if not isinstance(self.id, str) or not self.id:
            raise ConfigError(
                f"environment {self.family!r}: the option id says which one: --env-option id=ID, or {self.family}:ID"
            )
        self._task: Task | None = None
        self._over = True

    def describe(self, max_turns: int | None, action_help: str) -> None:
        """Fill what only the instance knows into its spec."""
        vars(self)["spec"] = replace(
            self.spec, max_turns=max_turns or self.spec.max_turns, action_help=action_help, description=f"{self.id}"
        )

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        """``n`` (100) tasks: the seeds from ``first`` (0) on, counted within the split."""
        name = self.spec.name
        _games.check_split(name, split, FIRST_SEED)
        _games.check_options(name, options, ("n", "first"))
        n = _games.whole(name, "n", options.get("n", 100), 1, 1_000_000)
        first = FIRST_SEED[split] + _games.whole(name, "first", options.get("first", 0), 0, MOST_TASKS - n)
        data = {"id": self.id}
        return TaskSet(
            (Task(name, f"{self.id}-{seed}", split, seed, data=data) for seed in range(first, first + n)),
            f"{name}/{split}",
        )

    def reset(self, task: Task) -> Observation:
        """Start the environment with the task's seed."""
        if _games.task_data(self.spec.name, task).get("id") != self.id:
            raise _games.damaged(
                task, f"it is of id {dict(task.data or {}).get('id')!r:.80}, this one plays {self.id!r}"
            )
        self._task, self._over = task, False
        self._actions: list[str] = []
        return self._start(task.seed)

    @abstractmethod
    def _start(self, seed: int) -> Observation:
        """Reset the library's environment."""

    def running(self) -> Task:
        """The present task, not yet over. Raises EnvironmentFault."""
        if self._task is None or self._over:
            raise _games.not_running(self.spec.name, self._task)
        return self._task

    def snapshot(self) -> Any:
        """The actions so far: with the same seed, playing them again leads to the same state."""
        if self._task is None:
            raise _games.not_running(self.spec.name, None)
        return (self._task.id, tuple(self._actions))

    def restore(self, state: Any) -> Observation:
        """Go back to a snapshot by playing its actions again; takes as long as they do."""
        task = self._task
        (actions,) = _games.snapshot_fields(self.spec.name, state, task, "actions so far")
        if not isinstance(actions, tuple | list) or not all(isinstance(action, str) for action in actions):
            raise _games.bad_snapshot(self.spec.name, state, "actions so far")
        assert task is not None  # snapshot_fields has looked
        observation = self.reset(task)
        for action in actions:
            observation = self.step(action).observation
        return observation

    @classmethod
    @lru_cache(maxsize=256)
    def named(cls, id: str) -> type[Self]:
        """The class of ``family:ID``."""
        spec: EnvironmentSpec = replace(cls.spec, name=f"{cls.family}:{id}", description=id)
        names = {"__module__": cls.__module__, "__qualname__": f"{cls.__name__}:{id.replace('.', DOT)}"}
        return type(cls.__name__, (cls,), {"spec": spec, "fixed": id, **names})


def refused(observation: Observation, note: str) -> Step:
    """The answer to what is no action: the present scene below a note."""
    text = f"{note}\n{observation.text}"
    return Step(Observation(text, observation.admissible, observation.state_key), 0.0, grounded=False)
