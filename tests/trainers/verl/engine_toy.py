"""An environment that breaks as its task says, and a reward that varies: for runs of the verl engine."""

from __future__ import annotations

import threading
import time
from typing import Any, ClassVar

from agentgym.environment import Environment, EnvironmentSpec
from agentgym.types import Episode, Observation, Step, Task, TaskSet

#: what happens at the start of task i: i % 4
HOW = ("fine", "hang", "fine", "raise")


class Trouble(Environment):
    """Two turns, any action is fine; one task in four hangs, one raises. Runs in worker processes."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="verl-trouble", max_turns=2, splits=("train", "calm"), thread_safe=False
    )

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        how = HOW if split == "train" else ("fine",)
        made = (
            Task("verl-trouble", f"{split}-{i}", split, i, data={"how": how[i % len(how)], "answer": "red"})
            for i in range(options.get("n", 8))
        )
        return TaskSet(made, split)

    def reset(self, task: Task) -> Observation:
        if task.data["how"] == "raise":
            raise ValueError("this task is broken on purpose")
        if task.data["how"] == "hang":
            time.sleep(3600)
        self.turn = 0
        return Observation(f"what colour is room {task.seed} ?")

    def step(self, action: str) -> Step:
        self.turn += 1
        won = "r" in action
        return Step(Observation("go on"), float(won), self.turn == 2, won and self.turn == 2)


class Length:
    """A turn rewarder that differs between episodes: the parity of what was drawn."""

    name = "length"

    def reset(self, task: Task) -> None: ...

    def score(self, record: Episode, turn: int) -> float:
        return float(sum(map(ord, record.turns[turn].response)) % 5) / 5


def _break_the_loop() -> None:
    """Make verl's agent loop raise, once it is there: loaded as an external module in every process of a run."""
    import sys

    for _ in range(6000):
        loop = sys.modules.get("agentgym.trainers.verl.loop")
        if loop is not None and hasattr(loop, "outputs"):

            def broken(*_: Any) -> Any:
                raise RuntimeError("broken on purpose")

            loop.outputs = broken
            return
        time.sleep(0.05)


def break_loops() -> None:
    """Begin to wait for the agent loop in this process."""
    threading.Thread(target=_break_the_loop, daemon=True).start()
