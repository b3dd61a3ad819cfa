"""An environment of your own: find the hidden coin. Run this file, or use it by name from the command line:

agentgym play custom_env:Coin
agentgym eval custom_env:Coin --model expert --limit 20
"""

from __future__ import annotations

from typing import Any

import agentgym
from agentgym import Environment, EnvironmentSpec, Observation, Step, Task, TaskSet
from agentgym.errors import EnvironmentFault, unknown
from agentgym.seeding import python_rng

ROOMS = ("attic", "cellar", "garden", "kitchen")


class Coin(Environment):
    """Four rooms; a coin lies in one of them, in a box. Go there and open the box."""

    spec = EnvironmentSpec(
        name="coin",
        max_turns=8,
        snapshots=True,
        splits=("train", "valid"),
        action_help="Actions: go ROOM; open box.",
        description="find the coin in one of four rooms",
    )
    milestone_names = ("reached",)

    def tasks(self, split: str = "train", n: int = 100) -> TaskSet:
        if split not in self.spec.splits:
            raise unknown("split of 'coin'", split, self.spec.splits)
        first = {"train": 0, "valid": 1_000_000}[split]  # the splits share no seed
        return TaskSet((Task("coin", f"coin-{i}", split, seed=i) for i in range(first, first + n)), f"coin/{split}")

    def reset(self, task: Task) -> Observation:
        rng = python_rng("coin", task.seed)
        self.room, self.coin = rng.choice(ROOMS), rng.choice(ROOMS)
        self.reached = self.room == self.coin
        return self._look("Find the coin.")

    def _look(self, text: str) -> Observation:
        glimmer = " Something glimmers in a box." if self.room == self.coin else " There is an empty box."
        actions = sorted([*(f"go {room}" for room in ROOMS if room != self.room), "open box"])
        self.seen = Observation(f"{text} You are in the {self.room}.{glimmer}", actions)
        return self.seen

    def step(self, action: str) -> Step:
        verb, _, what = action.partition(" ")
        if verb == "go" and what in ROOMS:
            self.room = what
            self.reached = self.reached or self.room == self.coin
            return Step(self._look("You walk."), milestones=self._milestones())
        if action == "open box":
            if self.room == self.coin:
                self.seen = Observation("You have the coin.")
                return Step(self.seen, 1.0, True, True, milestones=self._milestones())
            return Step(self._look("The box is empty."), milestones=self._milestones())
        return Step(self._look("You cannot do that."), grounded=False, milestones=self._milestones())

    def _milestones(self) -> tuple[str, ...]:
        return ("reached",) if self.reached else ()

    def expert(self) -> str:
        return "open box" if self.room == self.coin else f"go {self.coin}"

    def snapshot(self) -> Any:
        return self.room, self.coin, self.reached, self.seen

    def restore(self, state: Any) -> Observation:
        if not (isinstance(state, tuple) and len(state) == 4):
            raise EnvironmentFault(f"coin: restore() takes what snapshot() gave, got {type(state).__name__}")
        self.room, self.coin, self.reached, self.seen = state
        return self.seen


if __name__ == "__main__":
    tasks = Coin().tasks("valid", n=20)
    for name in ("random", "expert"):
        groups = agentgym.rollout(Coin, agentgym.load_policy(name), tasks=tasks, n=4, seed=0)
        episodes = [episode for group in groups for episode in group]
        print(f"{name}: {sum(episode.success for episode in episodes)} of {len(episodes)} solved")
