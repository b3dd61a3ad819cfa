"""Toy environments: a one-step bandit and a corridor. Importable by subprocesses as ``toy:Bandit``."""

from __future__ import annotations

from typing import Any, ClassVar

from agentgym.environment import Environment, EnvironmentSpec
from agentgym.errors import DataError
from agentgym.seeding import python_rng
from agentgym.types import Observation, Step, Task, TaskSet

COLOURS = ("red", "blue", "green", "grey")


class Bandit(Environment):
    """One turn: 'left' wins in red and blue rooms, 'right' in the others."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(name="toy-bandit", max_turns=1, splits=("train", "test"))

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        count = options.get("n", 8)
        return TaskSet((Task("toy-bandit", f"{split}-{i}", split, i, data=COLOURS[i % 4]) for i in range(count)), split)

    def reset(self, task: Task) -> Observation:
        self.colour = task.data
        return Observation(f"a {self.colour} room", ["left", "right"])

    def expert(self) -> str | None:
        return "left" if self.colour in ("red", "blue") else "right"

    def step(self, action: str) -> Step:
        won = action == self.expert()
        return Step(Observation("done", []), float(won), True, won, action in ("left", "right"))


class Corridor(Environment):
    """Walk to the door: where it is, is said once; each step says the place. Longer and ragged."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(name="toy-corridor", max_turns=8, splits=("train", "test"))

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        offset = 0 if split == "train" else 10_000
        return TaskSet(
            (Task("toy-corridor", f"{split}-{i}", split, offset + i) for i in range(options.get("n", 40))), split
        )

    def reset(self, task: Task) -> Observation:
        rng = python_rng("corridor", task.seed)
        self.place = rng.randint(2, 6)
        self.door = rng.choice([p for p in range(9) if abs(p - self.place) in (1, 2, 3)])
        return self._seen(f"the door is at {self.door} ; ")

    def _seen(self, text: str = "") -> Observation:
        return Observation(f"{text}you are at {self.place}", ["left", "right", "open door"])

    def expert(self) -> str | None:
        if self.place == self.door:
            return "open door"
        return "left" if self.door < self.place else "right"

    def step(self, action: str) -> Step:
        if action == "open door":
            won = self.place == self.door
            return Step(self._seen("open ; " if won else "no door here ; "), float(won), won, won, won)
        known = action in ("left", "right")
        if known:
            self.place = min(8, max(0, self.place + (1 if action == "right" else -1)))
        return Step(self._seen(), 0.0, False, False, known)


class Missing(Corridor):
    """A corridor with an official split whose data is not there."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(name="toy-missing", splits=("train", "test", "official"))

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        if split == "official":
            raise DataError("no such data")
        return super().tasks(split, **options)
