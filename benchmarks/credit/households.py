"""Generated households: too many states to list, so the true advantage is estimated by rollouts from snapshots.

The world is deterministic, so ``A_t = V(s_{t+1}, left - 1) - V(s_t, left)``, each V the mean outcome of many rollouts
of the behaviour policy from a snapshot, with that many turns left. Equal states share one estimate. The behaviour
policy takes the planner's action with a fixed probability, now and then one that is refused, else any possible one.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from exact import Floats
from sampling import Case

import agentgym
from agentgym import Environment, Episode, Group, Task, Termination, Turn
from agentgym.credit.learned.objectives import spearman
from agentgym.seeding import derive_seed, python_rng

REFUSED = "go to the moon"


@dataclass
class Node:
    """A state of a household as the policy needs it: ``actions``, the last of them refused; ``children`` by action."""

    snapshot: Any
    actions: list[str]
    expert: int
    won: bool
    children: list[Node | None]
    worth: dict[int, tuple[float, float]] = field(default_factory=dict)  # turns left -> V of two halves of the rollouts


class Household:
    """One task as a graph that grows where it is walked."""

    def __init__(self, task: Task, skill: float, refusal: float) -> None:
        self.env: Environment = agentgym.make("alfworld")
        self.task, self.skill, self.refusal = task, skill, refusal
        self.opening = self.env.reset(task).text
        self.milestones = self.env.milestone_names
        self._nodes: dict[Any, Node] = {}
        self.root = self._node()

    def _node(self) -> Node:
        """The node of the environment's present state. What was done last and what was said are not part of it."""
        snapshot = self.env.snapshot()
        facts, won = snapshot[1], snapshot[-1]
        key = facts[:-1]
        if key not in self._nodes:
            actions = [*(self.env.restore(snapshot).admissible or ()), REFUSED]
            advice = None if won else self.env.expert()
            expert = actions.index(advice) if advice in actions else -1
            self._nodes[key] = Node(snapshot, actions, expert, won, [None] * len(actions))
        return self._nodes[key]

    def choose(self, node: Node, rng: random.Random) -> int:
        """The number of the behaviour policy's action."""
        u = rng.random()
        if u < self.refusal:
            return len(node.actions) - 1
        if u < self.refusal + self.skill and node.expert >= 0:
            return node.expert
        return int(rng.random() * (len(node.actions) - 1))

    def child(self, node: Node, action: int) -> Node:
        """The state after an action."""
        found = node.children[action]
        if found is None:
            self.env.restore(node.snapshot)
            self.env.step(node.actions[action])
            found = node.children[action] = self._node()
        return found

    def value(self, node: Node, left: int, rollouts: int, rng: random.Random) -> tuple[float, float]:
        """V with ``left`` turns left: the mean outcomes of two halves of the rollouts."""
        if node.won or not left:
            return (float(node.won),) * 2
        if left not in node.worth:
            wins = [0, 0]
            for k in range(rollouts):
                here = node
                for _ in range(left):
                    here = self.child(here, self.choose(here, rng))
                    if here.won:
                        wins[k % 2] += 1
                        break
            node.worth[left] = (wins[0] / (rollouts / 2), wins[1] / (rollouts / 2))
        return node.worth[left]

    def play(self, turns: int, index: int, seed: int) -> tuple[Episode, list[Node]]:
        """One recorded episode, and the states that it went through."""
        rng, node, record = python_rng("household episode", seed), self.root, []
        seen, nodes = self.env.reset(self.task), [node]
        won = False
        for t in range(turns):
            action = node.actions[self.choose(node, rng)]
            step = self.env.step(action)
            record.append(
                Turn(
                    t, seen.text, action, action, step.observation.text, seen.state_key or "", grounded=step.grounded,
                    terminated=step.terminated, milestones=step.milestones,
                )
            )  # fmt: skip
            seen, won, present = step.observation, step.success, self.env.snapshot()
            node = self._node()
            self.env.restore(present)
            nodes.append(node)
            if step.terminated:
                break
        ended = Termination.ENV_DONE if won else Termination.MAX_TURNS
        return Episode(self.task, index, seed, record, ended, float(won), won, self.milestones), nodes


def make_case(
    *,
    tasks: int,
    size: int,
    fit: int,
    rollouts: int,
    seed: int,
    turns: int = 20,
    together: int = 4,
    skill: float = 0.3,
    refusal: float = 0.05,
    preset: str = "tiny",
) -> Case:
    """``tasks`` games in batches of ``together``, a group of ``size`` episodes each; a task is a unit of resampling."""
    listed = agentgym.make("alfworld").tasks("generated", n=tasks, preset=preset)
    groups, fitting, halves, errors = [], [], [], []
    for number, task in enumerate(listed):
        house = Household(task, skill, refusal)
        played = [house.play(turns, i, derive_seed("household", task.id, seed, i)) for i in range(size)]
        groups.append(Group(task, [episode for episode, _ in played]))
        spare = [house.play(turns, i, derive_seed("household fit", task.id, seed, i))[0] for i in range(fit // tasks)]
        fitting.append(Group(task, spare))
        rng = python_rng("household rollouts", task.id, seed)
        for _, nodes in played:
            worth = np.array([house.value(n, turns - t, rollouts, rng) for t, n in enumerate(nodes)])
            halves.append(np.diff(worth, axis=0))
            p = worth.mean(1)
            variance = np.where([n.won or t == turns for t, n in enumerate(nodes)], 0.0, p * (1 - p) / rollouts)
            errors.append(np.sqrt(variance[1:] + variance[:-1]))
        print(f"  household {number + 1} of {tasks}: {len(house._nodes)} states met", flush=True)
    batches = [groups[b : b + together] for b in range(0, tasks, together)]
    lengths = [[sum(len(e.turns) for e in group) for group in batch] for batch in batches]
    both = np.concatenate(halves)
    truth: Floats = both.mean(1)
    facts = {
        "tasks": tasks, "max_turns": turns, "batches": len(batches), "episodes": tasks * size,
        "fitting_episodes": sum(map(len, fitting)), "group_size": size,
        "success": float(np.mean([e.success for group in groups for e in group])),
        "turns": float(np.mean([len(e.turns) for group in groups for e in group])),
        "truth": f"{rollouts} rollouts from each state met",
        "truth_standard_error": math.sqrt(float(np.mean(np.concatenate(errors) ** 2))),
        "truth_std": float(truth.std()), "truth_halves_spearman": spearman(both[:, 0], both[:, 1]),
    }  # fmt: skip
    flat = [n for row in lengths for n in row]
    return Case(
        "household", batches, fitting, truth, np.repeat(np.arange(len(batches)), [sum(row) for row in lengths]),
        np.repeat(np.arange(tasks), flat), None, facts,
    )  # fmt: skip
