"""Small environments as tables, and what a fixed policy in them is worth: exactly, with the turn limit.

    V_t(s) = sum_a pi(a|s) Q_t(s, a),   Q_t(s, a) = sum_s' P(s'|s, a) (r(s') + V_{t+1}(s')),   V_T = 0

backwards from the turn limit T (Sutton & Barto 2018, equations 4.4 and 4.6 with the turns left as part of the state).
The true advantage of an action at turn t is ``Q_t(s, a) - V_t(s)``. For a softmax policy with one logit for each state
and action, the policy gradient theorem (their equation 13.5) gives the gradient of V_0(start) with respect to them:

    g(s, a) = sum_t d_t(s) pi(a|s) (Q_t(s, a) - V_t(s)),   d_t(s): probability of being in s, not at an end, at turn t
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import agentgym
from agentgym import Task
from agentgym.environments.frozenlake import ACTIONS, FrozenLake
from agentgym.environments.frozenlake.lake import lake_of
from agentgym.environments.keydoor.world import make_world as make_corridor
from agentgym.environments.quest.world import World
from agentgym.environments.quest.world import make_world as make_quest
from agentgym.seeding import numpy_rng

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Table:
    """One task. S states, A actions, M milestones; reward 1 on entering a ``goal`` state, else 0.

    ``texts``     [S] the observation of a state, which is its ``state_key``; two states may look the same
    ``move``      [S, A, S] probability of the next state; an impossible action changes nothing
    ``possible``  [S, A] the environment executes the action; False: refused, not grounded
    ``terminal``, ``goal``  [S] the episode is over here; over and solved
    ``reached``   [S, M] milestones that being in a state shows; they stay reached
    ``advice``    [S] the index of an expert's action; -1 at an end
    ``notes``     [A] what the environment puts before the observation when it refuses the action
    """

    task: Task
    texts: tuple[str, ...]
    actions: tuple[str, ...]
    move: Floats
    possible: Flags
    terminal: Flags
    goal: Flags
    milestones: tuple[str, ...]
    reached: Flags
    advice: npt.NDArray[np.int64]
    notes: tuple[str, ...]
    start: int

    def admissible(self, state: int) -> tuple[str, ...]:
        """The possible actions of a state."""
        return tuple(a for a, yes in zip(self.actions, self.possible[state], strict=True) if yes)


@dataclass(frozen=True)
class Worth:
    """``value`` [T + 1, S] and ``action_value`` [T, S, A] of a policy, ``gradient`` [S, A] of value[0, start]."""

    value: Floats
    action_value: Floats
    gradient: Floats

    @property
    def advantage(self) -> Floats:
        """[T, S, A]"""
        return self.action_value - self.value[:-1, :, None]


def solve(table: Table, policy: Floats, turns: int, potential: Floats | None = None) -> Worth:
    """The worth of ``policy`` [S, A] within ``turns`` turns, by backward induction.

    ``potential`` [S]: the reward is its difference over a turn, so that the return is its value at the last state less
    that at the first. Default: 1 in goal states, 0 elsewhere, which is the environments' own reward.
    """
    live = ~table.terminal
    potential = table.goal.astype(np.float64) if potential is None else potential
    gain = table.move @ potential - potential[:, None]
    value = np.zeros((turns + 1, len(table.texts)))
    action_value = np.zeros((turns, *policy.shape))
    for t in reversed(range(turns)):
        action_value[t] = np.where(live[:, None], gain + table.move @ value[t + 1], 0.0)
        value[t] = (policy * action_value[t]).sum(1)
    onward = np.einsum("sa,sax->sx", policy * live[:, None], table.move)
    here = np.zeros(len(table.texts))
    here[table.start] = 1.0
    gradient = np.zeros(policy.shape)
    for t in range(turns):
        gradient += (here * live)[:, None] * policy * (action_value[t] - value[t][:, None])
        here = here @ onward
    return Worth(value, action_value, gradient)


def progress(table: Table) -> Floats | None:
    """[S] the share of milestones that a state shows; None where that can shrink on the way, so that it is no state's
    own (FrozenLake)."""
    share = table.reached.mean(1)
    shrinks = (table.move > 0) & (share[None, None] < share[:, None, None] - 1e-12)
    return None if shrinks[~table.terminal].any() else np.asarray(share)


def behaviour(table: Table, skill: float, refusal: float, spread: float, seed: int) -> Floats:
    """[S, A] the fixed policy: softmax of ``skill`` for the expert's action, ``refusal`` for an impossible one, and a
    normal draw times ``spread`` for each state and action, so that no two states have the same mistakes."""
    logits = spread * numpy_rng("credit bench policy", table.task.id, seed).normal(size=table.possible.shape)
    logits += np.where(table.possible, 0.0, refusal)
    logits[np.arange(len(logits)), np.maximum(table.advice, 0)] += skill
    weights = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(weights / weights.sum(1, keepdims=True))


def keydoor(count: int, **size: Any) -> list[Table]:
    """``count`` different corridors. ``size``: length, doors, distractors."""
    found: dict[Any, Table] = {}
    for task in agentgym.make("keydoor").tasks("train", **size):
        data = task.data
        world = make_corridor(task.seed, data["length"], data["doors"], data["distractors"])
        model, names = world.model, world.corridor.milestones
        table = Table(
            task, model.states, model.actions, model.transitions(), model.possible, model.terminal, model.terminal,
            names, np.arange(len(names)) < np.array(world.stage)[:, None],
            np.array([-1 if a is None else model.actions.index(a) for a in world.advice], np.int64),
            ("nothing happens ; ",) * len(model.actions), model.start,
        )  # fmt: skip
        found.setdefault((model.states, model.start), table)
    return _first(list(found.values()), count, "keydoor", size)


def quest(count: int, rooms: int, chests: int) -> list[Table]:
    """``count`` games of Quest. A state is ``(deeds done, room)``; what is seen does not tell all of it."""
    tasks = agentgym.make("quest").tasks("train", count=count, rooms=rooms, chests=chests)
    return [_quest(task, make_quest(task.seed, rooms, chests, task.split)) for task in tasks]


def _quest(task: Task, world: World) -> Table:
    states = [(0, world.layout.start)]
    for state in states:  # grows while it is walked
        states += sorted(set(world.scene(*state).table.values()) - set(states))
    number = {state: i for i, state in enumerate(states)}
    actions = ("go north", "go south", "go east", "go west", *world.deeds)
    shape = (len(states), len(actions))
    move, possible = np.zeros((*shape, len(states))), np.zeros(shape, np.bool_)
    for (s, state), (a, action) in _pairs(states, actions):
        target = world.scene(*state).table.get(action)
        possible[s, a] = target is not None
        move[s, a, number[state if target is None else target]] = 1.0
    stage = np.array([stage for stage, _ in states])
    over = stage == len(world.deeds)
    advice = [world.advise(*state) for state in states]
    return Table(
        task, tuple(world.scene(*state).text for state in states), actions, move, possible, over, over, world.deeds,
        np.arange(len(world.deeds)) < stage[:, None],
        np.array([-1 if a is None else actions.index(a) for a in advice], np.int64),
        ("you cannot do that ; ",) * len(actions), 0,
    )  # fmt: skip


def frozenlake(count: int, **options: Any) -> list[Table]:
    """``count`` lakes, with or without slips, and one action that is none, which is refused."""
    env = agentgym.make("frozenlake")
    assert isinstance(env, FrozenLake)
    return [_frozenlake(env, task) for task in env.tasks("train", n=count, **options)]


def _frozenlake(env: FrozenLake, task: Task) -> Table:
    env.reset(task)
    lake = lake_of(task)
    states, actions = range(len(lake.cells)), (*ACTIONS, "Wait")
    move = np.zeros((len(states), len(actions), len(states)))
    move[:, len(ACTIONS)] = np.eye(len(states))
    for s, by_action in env.model().items():
        for a, rows in by_action.items():
            for chance, target, _, _ in rows:
                move[s, a, target] += chance
    goal, over = (np.array([cell in kinds for cell in lake.cells]) for kinds in ("G", "GH"))
    distance = np.array(lake.distance)
    near = (distance >= 0) & (2 * distance <= distance[lake.start])
    return Table(
        task, env.state_keys(), actions, move, np.array([[True] * 4 + [False]] * len(states)), over, goal,
        env.milestone_names, np.stack([near | goal, goal], 1),
        np.array([-1 if over[s] else lake.best(s) for s in states], np.int64),
        ("Not an action. Actions: Left, Down, Right, Up.\n",) * len(actions), lake.start,
    )  # fmt: skip


def _pairs(states: Sequence[Any], actions: Sequence[str]) -> list[Any]:
    return [(s, a) for s in enumerate(states) for a in enumerate(actions)]


def _first(found: list[Table], count: int, name: str, size: Mapping[str, Any]) -> list[Table]:
    if len(found) < count:
        raise SystemExit(f"{name} with {dict(size)} has {len(found)} different tasks among its first; wanted {count}")
    return found[:count]


#: name -> (tables, turn limit, policy); the skills make about 35 of 100 episodes succeed, and 5 in the sparse one
CASES: dict[str, tuple[Callable[[], list[Table]], int, dict[str, float]]] = {
    "keydoor": (lambda: keydoor(4, length=6, doors=2, distractors=2), 30, {"skill": 0.8, "refusal": -1.0}),
    "frozenlake": (lambda: frozenlake(4, slippery=False), 10, {"skill": 1.5, "refusal": -1.0}),
    "frozenlake-slippery": (lambda: frozenlake(4, slippery=True), 10, {"skill": 2.0, "refusal": -1.0}),
    "quest": (lambda: quest(4, rooms=4, chests=2), 36, {"skill": 0.6, "refusal": -2.0}),
    "quest-sparse": (lambda: quest(4, rooms=6, chests=3), 36, {"skill": 1.1, "refusal": -2.0}),
}
