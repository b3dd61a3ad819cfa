"""One lake: Gymnasium's transition table, what each state looks like, and the exact optimum."""

from __future__ import annotations

import importlib
import inspect
from collections import deque
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from agentgym.environments import _games
from agentgym.errors import ConfigError, MissingDependency
from agentgym.types import Task

#: the expert's discount: within 10 actions its policy reaches the goal as often as the best there is, to 0.2 %
EXPERT_GAMMA: Final = 0.9
#: draws for one map; at p 0.9 hardly any 4x4 map needs a second
_TRIES: Final = 1000
#: transitions of a state and action: (probability, next state, reward, done)
Model = dict[int, dict[int, list[tuple[float, int, float, bool]]]]


def gymnasium() -> Any:
    """Gymnasium's module of FrozenLake. Raises MissingDependency where it is missing or too old."""
    needed = "Run: pip install 'agentgym-turns[games]'"
    try:
        module = importlib.import_module("gymnasium.envs.toy_text.frozen_lake")
    except ImportError as error:
        raise MissingDependency(
            f"environment 'frozenlake' takes its rules from gymnasium, and {error.name or error} is not installed. "
            f"{needed}"
        ) from error
    if "success_rate" not in inspect.signature(module.FrozenLakeEnv.__init__).parameters:
        raise MissingDependency(
            "environment 'frozenlake' needs gymnasium 1.2.1 or later: the FrozenLake of the installed one has no "
            f"success_rate. {needed}"
        )
    return module


class Lake:
    """One lake, ready to play: transition table, texts, distances and the optimal policy; shared by all episodes."""

    def __init__(self, desc: tuple[str, ...], slippery: bool, success_rate: float) -> None:
        made = gymnasium().FrozenLakeEnv(desc=list(desc), is_slippery=slippery, success_rate=success_rate)
        self.model: Model = {
            s: {a: [(float(p), int(t), float(r), bool(d)) for p, t, r, d in rows] for a, rows in by_action.items()}
            for s, by_action in made.P.items()
        }
        self.cells = "".join(desc)
        self.start = self.cells.index("S")
        width = len(desc[0])
        plain = self.cells.replace("S", "F").replace("F", "_").replace("H", "O")
        marks = {"H": "X", "G": "√"}
        rows = (plain[:s] + marks.get(cell, "P") + plain[s + 1 :] for s, cell in enumerate(self.cells))
        self.texts = tuple("\n".join(r[k : k + width] for k in range(0, len(r), width)) for r in rows)
        # Gymnasium draws argmax(cumsum(p) > u), which is 0 where rounding leaves the last sum below u.
        self.moves = [
            [
                [(float(limit), *row[1:]) for limit, row in zip(np.cumsum([r[0] for r in rows]), rows, strict=True)]
                for rows in by_action.values()
            ]
            for by_action in self.model.values()
        ]
        self.distance = self._distances()
        self._best: list[int] | None = None

    def _distances(self) -> list[int]:
        """Fewest moves from each cell to a goal without slips; -1 where there is no way."""
        distance = [0 if cell == "G" else -1 for cell in self.cells]
        frontier = deque(s for s, d in enumerate(distance) if d == 0)
        backward: dict[int, set[int]] = {}
        for s, by_action in self.model.items():
            for rows in by_action.values():
                for _, t, _, _ in rows:
                    backward.setdefault(t, set()).add(s)
        while frontier:
            t = frontier.popleft()
            for s in backward.get(t, ()):
                if distance[s] < 0 and self.cells[s] in "SF":
                    distance[s] = distance[t] + 1
                    frontier.append(s)
        return distance

    def solve(self, gamma: float = EXPERT_GAMMA) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Optimal V[s] and Q[s, a] by value iteration, to 1e-12. ``gamma`` < 1 also prefers shorter ways."""
        count = len(self.cells)
        reward, onward = np.zeros((count, 4)), np.zeros((count, 4, count))
        for s, by_action in self.model.items():
            for a, rows in by_action.items():
                for p, t, r, done in rows:
                    reward[s, a] += p * r
                    onward[s, a, t] += 0.0 if done else p
        v = np.zeros(count)
        while True:
            q = reward + gamma * onward @ v
            new = q.max(axis=1)
            if np.abs(new - v).max() < 1e-12:
                return new, q
            v = new

    def best(self, s: int) -> int:
        """An optimal action in state ``s``."""
        if self._best is None:
            self._best = [int(a) for a in np.round(self.solve(EXPERT_GAMMA)[1], 9).argmax(axis=1)]
        return self._best[s]


_lake = lru_cache(maxsize=256)(Lake)


def random_map(size: int, p: float, seed: int) -> list[str]:
    """The rows of ``generate_random_map(size, p, seed)`` of Gymnasium, which tries for ever where ``p`` is small.

    Raises ConfigError where none of ``_TRIES`` draws has a way from S to G.
    """
    solvable = gymnasium().is_valid
    generator = np.random.Generator(np.random.PCG64(seed))
    for _ in range(_TRIES):
        cells = generator.choice(["F", "H"], (size, size), p=[p, 1 - p])
        cells[0, 0], cells[-1, -1] = "S", "G"
        rows = cells.tolist()
        if solvable(rows, size):
            return ["".join(row) for row in rows]
    raise ConfigError(
        f"environment 'frozenlake': no map with a way from S to G in {_TRIES} tries with p={p} and size={size}; "
        "take a larger p (share of ice; the default is 0.9) or a smaller size"
    )


def lake_of(task: Task) -> Lake:
    data = _games.task_data("frozenlake", task)
    desc = data.get("desc")
    if not isinstance(desc, list | tuple) or not all(isinstance(row, str) and row for row in desc) or not desc:
        raise _games.damaged(task, f"desc must be a list of rows such as 'SFFH', got {desc!r:.80}")
    cells = "".join(desc)
    if len({len(row) for row in desc}) > 1 or set(cells) - set("SFHG") or cells.count("S") != 1 or len(cells) > 1024:
        raise _games.damaged(task, f"desc must be equally long rows of S (one), F, H and G, got {desc!r:.80}")
    slippery = _games.yes_no("frozenlake", "slippery", data.get("slippery", True))
    rate = _games.share("frozenlake", "success_rate", data.get("success_rate", 0.8))
    lake = _lake(tuple(desc), slippery, rate)
    if lake.distance[lake.start] < 0:
        raise _games.damaged(task, f"no way leads from S to G in {desc!r:.200}")
    return lake
