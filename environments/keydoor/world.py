"""One corridor of KeyDoor as a table: cells in a row, doors between them, before each door its key.

The state is ``(cell, stage)``: an even stage ``2 k`` has ``k`` doors open and empty hands, an odd one the next key in
hand. A state is its observation: no two look the same.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from agentgym.environments.keydoor.model import TabularModel
from agentgym.seeding import python_rng

#: actions that are always possible and never change anything
DISTRACTORS: Final = ("wait", "sing", "wave", "jump", "dance", "nod", "shout", "whistle")
DEEDS: Final = ("left", "right", "take key", "open door")


@dataclass(frozen=True, slots=True)
class Corridor:
    """``doors[k]`` stands between cells ``doors[k] - 1`` and ``doors[k]``; ``keys[k]`` is the cell of its key."""

    length: int
    doors: tuple[int, ...]
    keys: tuple[int, ...]
    start: int
    distractors: tuple[str, ...]

    @property
    def actions(self) -> tuple[str, ...]:
        """Every action of this corridor."""
        return (*DEEDS, *self.distractors)

    @property
    def milestones(self) -> tuple[str, ...]:
        """The deeds in the order in which they are done; the last is the goal."""
        pairs = [f"{what} {k + 1}" for k in range(len(self.doors)) for what in ("take key", "open door")]
        return (*pairs, "reach the end")

    def text(self, cell: int, stage: int) -> str:
        """The observation; it names the whole state."""
        opened, held = stage // 2, stage % 2
        key = not held and cell in self.keys[opened : opened + 1]
        ahead = "nothing"
        if cell + 1 in self.doors:
            ahead = "open door" if self.doors.index(cell + 1) < opened else "closed door"
        return (
            f"cell {cell + 1} of {self.length} ; see {'key' if key else 'nothing'} ; ahead {ahead} ; "
            f"hold {'key' if held else 'nothing'} ; opened {opened}"
        )

    def after(self, cell: int, stage: int, action: str) -> tuple[int, int] | None:
        """The state after ``action``; None: it is not possible."""
        opened, held = stage // 2, stage % 2
        blocked = cell + 1 in self.doors[opened:]
        if action == "left":
            return (cell - 1, stage) if cell else None
        if action == "right":
            return None if blocked else (cell + 1, stage)
        if action == "take key":
            return (cell, stage + 1) if not held and cell in self.keys[opened : opened + 1] else None
        if action == "open door":
            return (cell, stage + 1) if held and blocked else None
        return (cell, stage) if action in self.distractors else None


@dataclass(frozen=True, slots=True)
class World:
    """A corridor with its table. ``stage`` [S]: deeds done; ``advice`` [S]: first action of a shortest solution."""

    corridor: Corridor
    model: TabularModel
    admissible: tuple[tuple[str, ...], ...]
    stage: tuple[int, ...]
    advice: tuple[str | None, ...]


def draw_corridor(seed: int, length: int, doors: int, distractors: int) -> Corridor:
    """Doors, the key of each between it and the door before, the start before the first door: all uniform."""
    rng = python_rng("keydoor", seed, length, doors, distractors)
    places = sorted(rng.sample(range(1, length), doors))
    keys = [rng.randrange(before, door) for before, door in zip([0, *places], places, strict=False)]
    start = rng.randrange(places[0])
    return Corridor(length, tuple(places), tuple(keys), start, tuple(rng.sample(DISTRACTORS, distractors)))


@lru_cache(maxsize=256)
def make_world(seed: int, length: int, doors: int, distractors: int) -> World:
    """The corridor of a seed and its table of all states that can be reached."""
    corridor = draw_corridor(seed, length, doors, distractors)
    states, ways = [(corridor.start, 0)], dict[tuple[int, int], list[tuple[int, int] | None]]()
    for state in states:  # grows while it is walked
        over = state[0] == length - 1
        ways[state] = [None if over else corridor.after(*state, action) for action in corridor.actions]
        states += sorted({new for new in ways[state] if new is not None} - set(states))
    number = {state: i for i, state in enumerate(states)}
    table = np.array([[number[new or state] for new in ways[state]] for state in states], np.int64)
    possible = np.array([[new is not None for new in ways[state]] for state in states])
    terminal = np.array([cell == length - 1 for cell, _ in states])
    model = TabularModel(
        states=tuple(corridor.text(*state) for state in states),
        actions=corridor.actions,
        next_state=table,
        reward=(terminal[table] & ~terminal[:, None]).astype(np.float64),
        terminal=terminal,
        possible=possible,
        start=0,
    )
    admissible = tuple(tuple(a for a, yes in zip(corridor.actions, row, strict=True) if yes) for row in possible)
    return World(corridor, model, admissible, tuple(s + (c == length - 1) for c, s in states), _advice(model))


def _advice(model: TabularModel) -> tuple[str | None, ...]:
    """For every state the first action of a shortest way to the end (breadth first from the end)."""
    best: list[str | None] = [None] * len(model.states)
    queue = deque(int(i) for i in np.flatnonzero(model.terminal))
    seen = set(queue)
    while queue:
        goal = queue.popleft()
        for state, action in zip(*np.nonzero(model.next_state == goal), strict=True):
            if int(state) not in seen:
                seen.add(int(state))
                best[state] = model.actions[action]
                queue.append(int(state))
    return tuple(best)
