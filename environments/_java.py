"""What the two games that run in a Java machine share: one machine per environment, replay, the gold path.

The machine is a child process of the one that made it; ``close`` ends it, and so does the end of its parent.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import shutil
from abc import abstractmethod
from typing import Any, ClassVar, Final

from agentgym.environment import Environment
from agentgym.environments import _games
from agentgym.errors import MissingDependency
from agentgym.types import Observation, Step, Task

#: longer actions are refused; no command of these games comes near it
MAX_ACTION: Final = 500
REFUSED: Final = f"That is not a command of the game. Give one line of at most {MAX_ACTION} plain characters."


class JavaGame(Environment):
    """A game behind py4j. Subclasses say how it is loaded and what one action does."""

    package: ClassVar[str]

    def __init__(self) -> None:
        name = self.spec.name
        if importlib.util.find_spec(self.package) is None:
            raise MissingDependency(
                f"environment {name!r} needs the package {self.package}, which is not installed. "
                f"Run: pip install 'agentgym-turns[{name}]'"
            )
        if shutil.which("java") is None:
            raise MissingDependency(
                f"environment {name!r} needs Java 17 or newer, and there is no java on the PATH. "
                "Run: apt-get install openjdk-17-jre-headless"
            )
        self._machine: Any = None
        self._task: Task | None = None

    def _java(self) -> Any:
        """The package's own environment object; the first call starts the machine, which takes a second or more."""
        if self._machine is None:
            self._machine = self._start(importlib.import_module(self.package))
        return self._machine

    @abstractmethod
    def _start(self, package: Any) -> Any:
        """Start the package's environment object."""

    @abstractmethod
    def _load(self, task: Task) -> tuple[Observation, list[str]]:
        """Load a task: the first observation and the gold path."""

    @abstractmethod
    def _act(self, action: str) -> tuple[Observation, float, bool, bool, bool]:
        """One action: observation, score from 0 to 1, over, success, executed."""

    def reset(self, task: Task) -> Observation:
        """Start ``task``."""
        _games.task_data(self.spec.name, task)
        self._task = None
        self._now, gold = self._load(task)
        self._gold: list[str] | None = gold
        self._actions: list[str] = []
        self._task, self._score, self._over = task, 0.0, False
        return self._now

    def step(self, action: str) -> Step:
        """One action; what is no plain line is refused without asking the game."""
        if self._task is None or self._over:
            raise _games.not_running(self.spec.name, self._task)
        action = action.strip()
        if not action or len(action) > MAX_ACTION or not (action.isascii() and action.isprintable()):
            now = self._now
            return Step(Observation(REFUSED, now.admissible, now.state_key), 0.0, grounded=False)
        expected = self.expert()
        self._now, score, self._over, success, executed = self._act(action)
        self._actions.append(action)
        reward, self._score = score - self._score, score
        if executed and self._gold is not None:
            self._gold = self._gold[1:] if action == expected else None
        return Step(self._now, reward, self._over, success, executed)

    def expert(self) -> str | None:
        """The gold path's next action; None once another action was executed."""
        if self._task is None:
            raise _games.not_running(self.spec.name, None)
        return self._gold[0] if self._gold and not self._over else None

    def snapshot(self) -> Any:
        """The actions so far: the game is deterministic, so that playing them again leads to the same state."""
        if self._task is None:
            raise _games.not_running(self.spec.name, None)
        return (self._task.id, tuple(self._actions))

    def restore(self, state: Any) -> Observation:
        """Go back to a snapshot of this task by playing its actions again; takes as long as they do."""
        task = self._task
        (actions,) = _games.snapshot_fields(self.spec.name, state, task, "actions so far")
        if not isinstance(actions, tuple | list) or not all(isinstance(action, str) for action in actions):
            raise _games.bad_snapshot(self.spec.name, state, "actions so far")
        assert task is not None  # snapshot_fields has looked
        self.reset(task)
        for action in actions:
            self.step(action)
        return self._now

    def close(self) -> None:
        """End the Java machine."""
        machine, self._machine, self._task = self._machine, None, None
        if machine is not None:
            process = machine._gateway.java_process
            with contextlib.suppress(Exception):  # it may have died already
                machine.close()
            process.terminate()
            process.wait(5)
