"""FrozenLake: cross the ice to the goal, on Gymnasium's own transition table, in RAGEN's symbols.

The rules, the random maps and the slips are those of ``gymnasium.envs.toy_text.frozen_lake``: with the same map and
seed an episode is, state by state, the one that ``FrozenLakeEnv.reset(seed=...)`` starts. RAGEN (Wang et al. 2025,
arXiv:2504.20073) gives the symbols, the action names and the defaults (4x4, 0.9 frozen, success rate 0.8, 10 actions).
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from agentgym.environment import Environment, EnvironmentSpec
from agentgym.environments import _games
from agentgym.environments.frozenlake.lake import EXPERT_GAMMA, Lake, Model, gymnasium, lake_of, random_map
from agentgym.errors import ConfigError
from agentgym.types import Observation, Step, Task, TaskSet

#: Gymnasium's numbering: 0 left, 1 down, 2 right, 3 up
ACTIONS: Final = ("Left", "Down", "Right", "Up")
_NUMBERS: Final = {name.lower(): number for number, name in enumerate(ACTIONS)}
_OPTIONS: Final = ("n", "seed", "size", "p", "slippery", "success_rate", "distinct")
_REFUSAL: Final = "Not an action. Actions: Left, Down, Right, Up.\n"
_SNAPSHOT: Final = "cell, draws, halfway, over, refused"
#: a snapshot cannot ask for more slips than this
_MOST_DRAWS: Final = 1_000_000
_HELP: Final = (
    "You cross a frozen lake. P: you, _: ice, O: hole, G: goal, X: you in a hole, √: you on the goal. "
    "Actions: Left, Down, Right, Up. On slippery ice you may move sideways instead. A hole or the goal ends the game."
)


class FrozenLake(Environment):
    """FrozenLake. Reward 1 on the goal, which ends the game with success; a hole ends it without.

    ``actions_per_turn``  how many actions one turn may hold, separated by ``||`` (RAGEN: 2, with max_turns 5)
    """

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="frozenlake",
        max_turns=10,
        snapshots=True,
        splits=tuple(_games.SPLITS),
        action_help=_HELP,
        expert_success=0.3,  # slips, and ten turns: 31 % of 1,000 training tasks with the default options
        description="FrozenLake on Gymnasium's rules, RAGEN's symbols; exact model for credit benchmarks",
    )
    milestone_names = ("halfway", "goal")

    def __init__(self, actions_per_turn: int = 1) -> None:
        gymnasium()
        self._limit = _games.whole("frozenlake", "actions_per_turn", actions_per_turn, 1, 100)
        self._task: Task | None = None

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        """``n`` (100) solvable maps, drawn by ``seed`` (0).

        ``size`` (4) cells a side, 2 to 32; ``p`` (0.9) share of ice; ``slippery`` (True); ``success_rate`` (0.8)
        probability of the intended direction, the rest is shared by the two sideways ones; ``distinct`` (True): no map
        twice. Small maps are few, so distinct ones have more holes than ``p`` says; False draws as Gymnasium does.
        Raises ConfigError also where ``p`` is so small that no map with a way comes up.
        """
        _games.check_options("frozenlake", options, _OPTIONS)
        size = _games.whole("frozenlake", "size", options.get("size", 4), 2, 32)
        p = _games.share("frozenlake", "p", options.get("p", 0.9))
        slippery = _games.yes_no("frozenlake", "slippery", options.get("slippery", True))
        rate = _games.share("frozenlake", "success_rate", options.get("success_rate", 0.8))
        distinct = _games.yes_no("frozenlake", "distinct", options.get("distinct", True))

        def draw(seed: int) -> _games.Game:
            desc = random_map(size, p, seed)
            return _games.Game(desc, {"desc": desc, "slippery": slippery, "success_rate": rate}, f"{size}x{size}")

        return _games.draw_tasks("frozenlake", split, options.get("n", 100), options.get("seed", 0), draw, distinct)

    def reset(self, task: Task) -> Observation:
        """Start ``task``: its map, and the slips of its seed."""
        self._lake = lake_of(task)
        self._task = task
        self._state = self._lake.start
        self._generator = np.random.Generator(np.random.PCG64(task.seed))
        self._draws: list[float] = []
        self._drawn = 1  # Gymnasium spends the first draw on the start state
        self._near, self._over = False, False
        return self._observe()

    def _observe(self, refused: bool = False) -> Observation:
        self._refused, note = refused, _REFUSAL if refused else ""
        text = self._lake.texts[self._state]
        return Observation(note + text, [*ACTIONS], text)

    def _move(self, action: int) -> float:
        if self._drawn >= len(self._draws):
            self._draws += self._generator.random(64).tolist()
        u = self._draws[self._drawn]
        self._drawn += 1
        rows = self._lake.moves[self._state][action]
        chosen = rows[0]
        if chosen[0] <= u:
            chosen = next((row for row in rows if row[0] > u), chosen)
        _, self._state, reward, self._over = chosen
        distance = self._lake.distance
        self._near = self._near or 0 <= 2 * distance[self._state] <= distance[self._lake.start]
        return reward

    def step(self, action: str) -> Step:
        """Move. What is not an action is answered with the list of actions and changes nothing."""
        if self._task is None or self._over:
            raise _games.not_running("frozenlake", self._task)
        numbers = _games.parse_actions(action, _NUMBERS, self._limit)
        reward = 0.0
        for number in numbers or ():
            reward += self._move(number)
            if self._over:
                break
        won = self._over and self._lake.cells[self._state] == "G"
        reached = self.milestone_names[: 2 if won else 1] if self._near or won else ()
        return Step(self._observe(not numbers), reward, self._over, won, bool(numbers), reached)

    def expert(self) -> str | None:
        """An optimal action by value iteration (discount 0.9); None where the game is over."""
        if self._task is None:
            raise _games.not_running("frozenlake", None)
        return None if self._over else ACTIONS[self._lake.best(self._state)]

    @property
    def state(self) -> int:
        """The number of the player's cell, row by row."""
        return self._state

    def model(self) -> Model:
        """Gymnasium's table of the present lake: ``P[s][a]`` lists (probability, next state, reward, done)."""
        return self._running().model

    def state_keys(self) -> tuple[str, ...]:
        """The observation's ``state_key`` of every state; all different."""
        return self._running().texts

    def solve(self, gamma: float = EXPERT_GAMMA) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Optimal V[s] and Q[s, a] of the present lake, discounted by ``gamma`` in [0, 1). Raises ConfigError."""
        if not isinstance(gamma, int | float | np.floating) or not 0 <= gamma < 1:
            raise ConfigError(f"environment 'frozenlake': gamma must be in [0, 1), got {gamma!r}")
        return self._running().solve(gamma)

    def _running(self) -> Lake:
        if self._task is None:
            raise _games.not_running("frozenlake", None)
        return self._lake

    def snapshot(self) -> Any:
        """The present state, slips to come included; valid in any instance that has been reset to the same task."""
        self._running()
        name = self._task.id if self._task else ""
        return (name, self._state, self._drawn, self._near, self._over, self._refused)

    def restore(self, state: Any) -> Observation:
        """Go back to a snapshot of this task. Raises EnvironmentFault for anything else, and changes nothing then."""
        cell, drawn, near, over, refused = _games.snapshot_fields("frozenlake", state, self._task, _SNAPSHOT)
        cells = self._lake.cells
        fine = _games.in_range(cell, 0, len(cells) - 1) and _games.in_range(drawn, 1, _MOST_DRAWS)
        fine = fine and type(near) is bool and type(refused) is bool
        if not fine or over is not (cells[cell] in "GH"):
            raise _games.bad_snapshot("frozenlake", state, _SNAPSHOT)
        self._state, self._drawn, self._near, self._over = cell, drawn, near, over
        while self._drawn > len(self._draws):
            self._draws += self._generator.random(64).tolist()
        return self._observe(refused)
