"""Slow environments of ours, in a module of their own so that worker processes can import them."""

from __future__ import annotations

from typing import Any

from busy import ENVS, STEPS, WORK

from agentgym import Environment, EnvironmentSpec, Observation, Step, Task, TaskSet


class Slow(Environment):
    """``STEPS`` turns that each wait or compute; in a thread where ``thread_safe``, else in a worker process."""

    spec = EnvironmentSpec("slow", max_turns=STEPS, cheap=False)
    kind = "wait"

    def tasks(self, split: str = "train", **_: Any) -> TaskSet:
        return TaskSet(Task("slow", f"t{k}", split, seed=k) for k in range(ENVS))

    def reset(self, task: Task) -> Observation:
        self.turn = 0
        return Observation("say something")

    def step(self, action: str) -> Step:
        WORK[self.kind]()
        self.turn += 1
        return Step(Observation(f"you said {action}"), terminated=self.turn >= STEPS)


class Spinning(Slow):
    kind = "spin"


class Apart(Slow):
    spec = EnvironmentSpec("slow", max_turns=STEPS, cheap=False, thread_safe=False)


class SpinningApart(Apart):
    kind = "spin"


#: (kind of work, where it is done) -> environment
ALL = {
    ("wait", "threads"): Slow,
    ("spin", "threads"): Spinning,
    ("wait", "processes"): Apart,
    ("spin", "processes"): SpinningApart,
}
