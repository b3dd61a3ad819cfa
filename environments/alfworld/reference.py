"""The real engine behind the same contract: ALFWorld's games played by TextWorld (``agentgym-turns[alfworld]``).

It exists to check the native engine against, and for users who want the original. It plays the same tasks, shows the
same texts and admissible commands (sorted) and wins at the same step; it has no milestones, snapshots or expert.

Measured with textworld 1.7.0 and alfworld 0.4.2: TextWorld may run in one thread of a process only (its grammar parser
and its planner library have global state), and while it loads a game it replaces ``sys.argv`` and ``sys.stdout`` of the
whole process. Hence ``thread_safe=False``: the library runs it in worker processes.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from agentgym.environment import Environment, EnvironmentSpec
from agentgym.environments.alfworld.data import data_problem
from agentgym.environments.alfworld.engine import NOTHING
from agentgym.environments.alfworld.env import ALFWorld
from agentgym.environments.alfworld.generated import generated_problem, is_generated
from agentgym.environments.alfworld.pddl import game_json, load_rules
from agentgym.errors import EnvironmentFault, MissingDependency
from agentgym.types import Observation, Step, Task, TaskSet


def _textworld() -> tuple[Any, Any, Any]:
    """(textworld, its PDDL environment, ALFWorld's naming of entities); imports take about a second."""
    try:
        textworld = importlib.import_module("textworld")
        pddl = importlib.import_module("textworld.envs.pddl.pddl")
        importlib.import_module("fast_downward")
        alfworld = importlib.import_module("alfworld.agents.environment.alfred_tw_env")
    except ImportError as error:
        raise MissingDependency(
            f"environment 'alfworld-reference' needs the real ALFWorld engine, and {error.name or error} is not "
            "installed. Run: pip install 'agentgym-turns[alfworld]' (compiles Fast Downward: gcc and cmake, about 3 "
            "minutes). The environment 'alfworld' plays the same games without it."
        ) from error
    return textworld, pddl.PddlEnv, alfworld.AlfredDemangler


class ALFWorldReference(Environment):
    """ALFWorld's games in TextWorld. ``data``: a folder to use in place of ``AGENTGYM_DATA``."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="alfworld-reference",
        max_turns=ALFWorld.spec.max_turns,
        thread_safe=False,
        cheap=False,
        snapshots=False,
        splits=ALFWorld.spec.splits,
        action_help=ALFWorld.spec.action_help,
        kinds=ALFWorld.spec.kinds,
        description="ALFWorld in the original TextWorld engine, to check the native one against",
    )

    def __init__(self, data: str | None = None) -> None:
        self._data = data
        self._game: Any = None
        self._loaded = ""
        self._won = False

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        """The native environment's tasks under this one's name: the same games, the same ids, the same panel hash."""
        native = ALFWorld(data=self._data).tasks(split, **options)
        return TaskSet((replace(task, env=self.spec.name) for task in native), f"{self.spec.name}/{split}")

    @classmethod
    def data_files(cls, tasks: Sequence[Task], data: str | None = None, **_: Any) -> list[Path]:
        """The native environment's files."""
        return ALFWorld.data_files(tasks, data)

    def load(self, task: Task) -> None:
        """Load a task's game without starting it; :meth:`reset` does so where it was not done."""
        if self._game is None:
            textworld, engine, naming = _textworld()
            self._game = naming(engine(textworld.EnvInfos(won=True, admissible_commands=True)))
        problem = generated_problem(task) if is_generated(task) else data_problem(task, self._data)
        content = game_json(problem, rules=load_rules(self._data))
        self._loaded = ""
        self._game.load(content)  # a mapping is taken as the game file's content
        self._loaded = task.id

    def reset(self, task: Task) -> Observation:
        """Start ``task``. Every reset translates the game's PDDL anew, about 0.3 s."""
        if self._loaded != task.id:
            self.load(task)
        state = self._game.reset()
        self._won = bool(state.won)
        return self._observation(state)

    def step(self, action: str) -> Step:
        """Execute one command."""
        if self._game is None:
            raise EnvironmentFault("alfworld-reference: step before reset")
        state, _, _ = self._game.step(action)
        won = bool(state.won)
        reward = float(won) - float(self._won)
        self._won = won
        observation = self._observation(state)
        return Step(observation, max(0.0, reward), won, won, grounded=observation.text != NOTHING)

    @staticmethod
    def _observation(state: Any) -> Observation:
        commands: Sequence[str] = state.admissible_commands
        return Observation(state.feedback, tuple(sorted(commands)))

    def close(self) -> None:
        """Free the engine and its copy of the planner library."""
        if self._game is not None:
            self._game.close()
            self._game = None
            self._loaded = ""
