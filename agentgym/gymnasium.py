"""Our environments as Gymnasium environments: text in, text out. Needs the extra ``gymnasium``.

``agentgym.gymnasium.make("quest")`` passes Gymnasium's own ``check_env``.
"""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium import spaces

from agentgym import registry
from agentgym.environment import Environment
from agentgym.errors import EnvironmentFault
from agentgym.types import Observation, Task, TaskSet

#: characters of an observation or an action that the spaces admit
LONGEST = 1_000_000


class AnyText(spaces.Text):
    """Any text of at most ``max_length`` characters; Gymnasium's own Text has a fixed set of characters.

    ``listed``: what ``sample`` draws from, the actions possible now.
    """

    def __init__(self, max_length: int = LONGEST) -> None:
        super().__init__(max_length, min_length=0)
        self.listed: tuple[str, ...] = ()

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is text of a length that fits."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """One of the listed actions, or some letters."""
        if self.listed:
            return self.listed[int(self.np_random.integers(len(self.listed)))]
        return "".join(chr(97 + int(k)) for k in self.np_random.integers(0, 26, 8))


class TextEnv(gymnasium.Env[str, str]):
    """One of our environments behind Gymnasium's interface.

    ``reset(seed=...)`` draws the task; ``options={"task": NAME_OR_ID_OR_POSITION}`` chooses one. ``terminated`` is the
    environment's own end, ``truncated`` the turn limit. ``info`` holds task, admissible, success, grounded, milestones.
    """

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012 - Gymnasium declares it so

    def __init__(self, env: Environment, tasks: TaskSet, max_turns: int | None = None, render_mode: str | None = None):
        self.env, self.tasks = env, tasks
        self.max_turns = max_turns or env.spec.max_turns
        self.render_mode = render_mode
        self.observation_space, self.action_space = AnyText(), AnyText()
        self._task: Task | None = None
        self._text, self._turn = "", 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start a task."""
        super().reset(seed=seed)
        chosen = (options or {}).get("task")
        if chosen is None:
            chosen = int(self.np_random.integers(len(self.tasks)))
        self._task = task = self.tasks[chosen] if isinstance(chosen, int) else self.tasks.find(str(chosen))
        self._turn = 0
        observation = self.env.reset(task)
        return self._show(observation), self._info(observation, success=False, grounded=True, milestones=())

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """One action."""
        if self._task is None:
            raise EnvironmentFault(f"environment {self.env.spec.name!r}: reset() must come first")
        step = self.env.step(action)
        self._turn += 1
        over = not step.terminated and self._turn >= self.max_turns
        info = self._info(step.observation, success=step.success, grounded=step.grounded, milestones=step.milestones)
        if step.info:
            info["info"] = dict(step.info)
        if step.score is not None:
            info["score"] = step.score
        return self._show(step.observation), step.reward, step.terminated, over, info

    def _show(self, observation: Observation) -> str:
        self._text = observation.text
        assert isinstance(self.action_space, AnyText)
        self.action_space.listed = tuple(observation.admissible or ())
        return self._text

    def _info(self, observation: Observation, **facts: Any) -> dict[str, Any]:
        assert self._task is not None
        listed = observation.admissible
        return {"task": self._task.id, "admissible": None if listed is None else list(listed), **facts}

    def render(self) -> Any:
        """The present text."""
        return self._text if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


def make(
    name: str,
    split: str | None = None,
    task_options: dict[str, Any] | None = None,
    max_turns: int | None = None,
    render_mode: str | None = None,
    **options: Any,
) -> TextEnv:
    """The environment ``name`` with the tasks of ``split`` (default: its first). Raises as ``agentgym.make`` does."""
    env = registry.make(name, **options)
    tasks = env.tasks(split or env.spec.splits[0], **(task_options or {}))
    return TextEnv(env, tasks, max_turns, render_mode)
