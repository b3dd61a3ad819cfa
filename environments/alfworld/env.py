"""ALFWorld: household tasks in text, played by the native engine."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from agentgym.environment import Environment, EnvironmentSpec
from agentgym.environments.alfworld.data import DATA_SPLITS, data_file, data_problem, data_tasks
from agentgym.environments.alfworld.engine import NOTHING, Game
from agentgym.environments.alfworld.explorer import Explorer
from agentgym.environments.alfworld.generated import GENERATED_SPLITS, generated_problem, generated_tasks, is_generated
from agentgym.environments.alfworld.planner import Planner
from agentgym.environments.alfworld.problem import KINDS
from agentgym.environments.alfworld.progress import Progress
from agentgym.environments.alfworld.world import WORDINGS, World
from agentgym.errors import AgentGymError, ConfigError, EnvironmentFault, unknown
from agentgym.seeding import python_rng
from agentgym.types import Observation, Step, Task, TaskSet

#: ``planner`` knows the whole world and is optimal; ``explorer`` knows what it has seen and can be imitated
EXPERTS: Final = ("planner", "explorer")
_SUBSET_OPTIONS: Final = ("kinds", "n", "seed")

_HELP: Final = (
    "Actions: go to RECEPTACLE; open RECEPTACLE; close RECEPTACLE; take OBJECT from RECEPTACLE; "
    "move OBJECT to RECEPTACLE; use LAMP; clean, heat or cool OBJECT with RECEPTACLE; slice OBJECT with KNIFE; "
    "examine OBJECT or RECEPTACLE; inventory; look; help. Names carry numbers: go to desk 1. You can carry one object. "
    "An action that is not possible now has the answer 'Nothing happens.'"
)


class _Worlds:
    """The most recently used games, shared by all episodes of this process: a group plays one game many times."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._kept: dict[tuple[str, str], World] = {}
        self._lock = threading.Lock()

    def get(self, task: Task, wording: str, data: str | None) -> World:
        """The world of a task; the id identifies its content."""
        key = (task.id, wording)
        with self._lock:
            world = self._kept.pop(key, None)
            if world is not None:
                self._kept[key] = world
                return world
        problem = generated_problem(task) if is_generated(task) else data_problem(task, data)
        world = World(problem, wording)
        with self._lock:
            self._kept[key] = world
            while len(self._kept) > self._keep:
                del self._kept[next(iter(self._kept))]
        return world


_WORLDS: Final = _Worlds(keep=128)


class ALFWorld(Environment):
    """ALFWorld's six household tasks. Reward 1 at the goal, which ends the game; no other reward.

    ``data``     folder of the official games; default: ``AGENTGYM_DATA``. The generated splits need none
    ``wording``  ``move``: as alfworld 0.4 (default); ``put``: as 0.3. Commands of either are understood by both
    ``expert``   who answers :meth:`expert`: ``planner`` (optimal, sees everything) or ``explorer`` (sees what you see)
    """

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="alfworld",
        max_turns=50,
        thread_safe=True,
        cheap=True,
        snapshots=True,
        splits=(*DATA_SPLITS, *GENERATED_SPLITS),
        action_help=_HELP,
        kinds=KINDS,
        description="ALFWorld household tasks; native engine, exact against TextWorld",
    )

    def __init__(self, data: str | None = None, wording: str = "move", expert: str = "planner") -> None:
        if wording not in WORDINGS:
            raise unknown("wording of environment 'alfworld'", str(wording), WORDINGS)
        if expert not in EXPERTS:
            raise unknown("expert of environment 'alfworld'", str(expert), EXPERTS)
        self._data = None if data is None else str(data)
        self._wording = wording
        self._expert = expert
        self._game: Game | None = None
        self._task: Task | None = None

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        """The tasks of a split.

        Official splits come in the order of their names. Options: ``kinds`` (task types to keep), ``n`` (how many,
        drawn by ``seed``, default 0). Options of the generated splits: see
        :func:`~agentgym.environments.alfworld.generated.generated_tasks`.
        """
        if split in GENERATED_SPLITS:
            return generated_tasks(split, **options)
        if split not in DATA_SPLITS:
            raise unknown("split of environment 'alfworld'", str(split), self.spec.splits)
        for name in options:
            if name not in _SUBSET_OPTIONS:
                raise unknown(f"option of ALFWorld split {split!r}", name, _SUBSET_OPTIONS)
        return _subset(data_tasks(split, self._data), **options)

    @classmethod
    def data_files(cls, tasks: Sequence[Task], data: str | None = None, **_: Any) -> list[Path]:
        """The official games of the tasks' splits; the generated ones have no file."""
        splits = dict.fromkeys(task.split for task in tasks if task.split in DATA_SPLITS)
        return [data_file(split, data) for split in splits]

    def reset(self, task: Task) -> Observation:
        """Start ``task``; the introduction ends with the task sentence."""
        if task.env != self.spec.name:
            raise EnvironmentFault(f"environment 'alfworld' got a task of environment {task.env!r}: {task.name!r}")
        world = _WORLDS.get(task, self._wording, self._data)
        if self._game is None or self._game.world is not world:
            self._game = Game(world)
        self._text = self._game.reset()
        self._task = task
        self._progress = Progress(self._game)
        self.milestone_names = self._progress.names
        self._explorer = Explorer(self._game, task.seed) if self._expert == "explorer" else None
        self._over = False
        return Observation(self._text, self._game.admissible)

    def _running(self) -> Game:
        if self._game is None:
            raise EnvironmentFault("environment 'alfworld': reset(task) must come first")
        return self._game

    def step(self, action: str) -> Step:
        """Execute one command."""
        game = self._running()
        if self._over:
            name = self._task.name if self._task else ""
            raise EnvironmentFault(f"alfworld task {name!r}: the game has been won and is over; reset first")
        self._text = text = game.step(action)
        if game.last is not None:
            self._progress.update()
            if self._explorer is not None:
                self._explorer.observe(game.last)
        won = self._over = game.won
        return Step(
            Observation(text, game.admissible),
            reward=1.0 if won else 0.0,
            terminated=won,
            success=won,
            grounded=text != NOTHING,
            milestones=self._progress.reached,
        )

    def expert(self) -> str | None:
        """The next command of the chosen expert from the present state; None where nothing reaches the goal."""
        game = self._running()
        if self._explorer is not None:
            return self._explorer.advise()
        plan = Planner(game).plan()
        return plan[0] if plan else None

    def snapshot(self) -> Any:
        """The present state; immutable and picklable, valid in any instance that has been reset to the same task."""
        game = self._running()
        memory = None if self._explorer is None else self._explorer.snapshot()
        return (game.world.problem.name, game.snapshot(), self._progress.snapshot(), memory, self._text, self._over)

    def restore(self, state: Any) -> Observation:
        """Go back to a snapshot of this task."""
        game = self._running()
        if not isinstance(state, tuple | list) or len(state) != 6 or not isinstance(state[0], str):
            raise _bad_snapshot(state)
        name, facts, progress, memory, text, over = state
        if name != game.world.problem.name or (memory is None) != (self._explorer is None):
            raise AgentGymError(
                f"alfworld: the snapshot is of game {name!r} (explorer: {memory is not None}), this environment plays "
                f"{game.world.problem.name!r} (explorer: {self._explorer is not None}); reset to the same task with "
                "the same options first"
            )
        before = (game.snapshot(), self._progress.snapshot(), self._explorer and self._explorer.snapshot())
        try:
            self._enter(game, facts, progress, memory)
            observation = Observation(text, game.admissible)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            self._enter(game, *before)
            raise _bad_snapshot(state) from error
        self._text, self._over = text, bool(over)
        return observation

    def _enter(self, game: Game, facts: Any, progress: Any, memory: Any) -> None:
        game.restore(facts)
        self._progress.restore(progress)
        if self._explorer is not None:
            self._explorer.restore(memory)

    def close(self) -> None:
        """Nothing to free; the next step needs a reset."""
        self._game = None


def _bad_snapshot(state: Any) -> EnvironmentFault:
    return EnvironmentFault(
        "environment 'alfworld': expected a snapshot (game, facts, progress, memory, text, over) of the present task, "
        f"got {state!r:.120}; give restore() what snapshot() returned"
    )


def _subset(tasks: TaskSet, kinds: Any = None, n: int | None = None, seed: int = 0) -> TaskSet:
    if kinds is not None:
        wanted = [kinds] if isinstance(kinds, str) else kinds
        if not isinstance(wanted, list | tuple):
            raise ConfigError(f"{tasks.name}: kinds must be a list of task types, got {kinds!r}")
        for kind in wanted:
            if kind not in KINDS:
                raise unknown("ALFWorld task type", str(kind), KINDS)
        tasks = TaskSet((task for task in tasks if task.kind in wanted), tasks.name)
    if n is None:
        return tasks
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= len(tasks):
        raise ConfigError(f"{tasks.name}: n must be an integer from 1 to {len(tasks)} (the tasks there are), got {n!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ConfigError(f"{tasks.name}: seed must be an integer >= 0, got {seed!r}")
    rng: random.Random = python_rng("alfworld subset", seed)
    chosen = sorted(rng.sample(range(len(tasks)), n))
    return TaskSet((tasks[k] for k in chosen), tasks.name)
