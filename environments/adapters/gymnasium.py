"""``gymnasium``: any Gymnasium environment with discrete actions, in text.

Gymnasium seeds each environment's own generator, so the process-wide ones stay untouched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import compress, product
from typing import Any, ClassVar, Final

import numpy as np

from agentgym.environment import EnvironmentSpec
from agentgym.environments.adapters._base import Adapter, library, refused
from agentgym.errors import ConfigError, unknown
from agentgym.types import Observation, Step

#: environment -> names of its actions, in Gymnasium's order, and when an episode is a success
_MOVES: Final = ("left", "down", "right", "up")
_COMPASS: Final = ("up", "right", "down", "left")
KNOWN: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "FrozenLake": (_MOVES, "reward"),
    "FrozenLake8x8": (_MOVES, "reward"),
    "CliffWalking": (_COMPASS, "terminated"),
    "CliffWalkingSlippery": (_COMPASS, "terminated"),
    "Taxi": (("south", "north", "east", "west", "pickup", "dropoff"), "reward"),
    "Blackjack": (("stick", "hit"), "reward"),
    "CartPole": (("left", "right"), "reward"),
}
SUCCESS: Final = ("reward", "terminated")
#: combinations of a MultiDiscrete or MultiBinary space that can be named
_MOST: Final = 512


class GymnasiumText(Adapter):
    """A Gymnasium environment in text.

    ``id``       Gymnasium's id, such as ``CliffWalking-v1``; the module is imported for ``module:ID``
    ``actions``  names of the actions in the space's order; default: known ones, else the numbers
    ``success``  ``reward``: the last step paid more than 0; ``terminated``: it ended; a number: the rewards sum to it
    ``options``  keyword arguments of ``gymnasium.make``

    What is shown is ``render()`` where the environment renders text, else the observation. Gymnasium's own time limit
    is left out: it becomes ``spec.max_turns``, so that it counts as truncation. An environment that truncates itself
    ends without success and says so in ``info``.
    """

    family = "gymnasium"
    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="gymnasium",
        max_turns=100,
        snapshots=True,
        splits=("train", "valid", "test"),
        action_help="Actions: one of those listed.",
        description="any Gymnasium environment with discrete actions; option id, or gymnasium:ID",
        expert_success=0.0,
    )

    def __init__(
        self,
        id: str = "",
        actions: list[str] | None = None,
        success: str | float | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(id)
        gymnasium = library("gymnasium", "gymnasium")
        env, self._rendered = _made(gymnasium, self.id, dict(options or {}))
        self._env, self._env_step, self._render = env, env.step, env.render
        name = self.id.rpartition(":")[2].rpartition("-v")[0]
        known, rule = KNOWN.get(name, ((), "reward"))
        self._numbers = _named(gymnasium.spaces, env.action_space, actions, known, self.id)
        self._names = [*self._numbers]
        self._success = rule if success is None else _rule(success)
        limit = env.spec.max_episode_steps if env.spec else None
        limit = limit or gymnasium.spec(self.id).max_episode_steps
        self.describe(limit, f"Actions: {', '.join(self._names[:40])}.")

    def _start(self, seed: int) -> Observation:
        seen, info = self._env.reset(seed=seed)
        self._total = 0.0
        self._now = self._observe(seen, info)
        return self._now

    def _observe(self, seen: Any, info: Mapping[str, Any]) -> Observation:
        text = _uncoloured(self._render()) if self._rendered else str(seen) if type(seen) is int else _text(seen)
        mask = info.get("action_mask")
        return Observation(text, self._names[:] if mask is None else list(compress(self._names, mask.tolist())))

    def step(self, action: str) -> Step:
        """One action by its name; anything else is refused without asking the environment."""
        if self._over:
            self.running()
        number = self._numbers.get(action)
        if number is None:
            number = self._numbers.get(action.strip().lower()) if len(action) < 200 else None
        self._actions.append(action if number is not None else "")
        if number is None:
            return refused(self._now, f"Not an action. {self.spec.action_help}")
        seen, reward, terminated, truncated, info = self._env_step(number)
        self._now = self._observe(seen, info)
        paid = float(reward)
        self._total += paid
        if not (terminated or truncated):
            return Step(self._now, paid)
        self._over = True
        won = bool(terminated) and self._won(paid)
        return Step(self._now, paid, True, won, info={"truncated": True} if truncated else None)

    def _won(self, reward: float) -> bool:
        if self._success == "reward":
            return reward > 0
        return self._success == "terminated" or self._total >= float(self._success)

    def close(self) -> None:
        """Close Gymnasium's environment."""
        self._env.close()


def _made(gymnasium: Any, id: str, options: dict[str, Any]) -> tuple[Any, bool]:
    """The environment, and whether it renders text."""
    try:
        spec = gymnasium.spec(id)
    except gymnasium.error.Error as error:
        if isinstance(error, gymnasium.error.NameNotFound | gymnasium.error.VersionNotFound):
            raise unknown("Gymnasium environment", id, gymnasium.registry, str(error)) from error
        raise ConfigError(f"environment 'gymnasium': {id!r}: {error}") from error
    keywords = {"disable_env_checker": True, "max_episode_steps": -1, **options}
    try:
        env = gymnasium.make(spec, **keywords)
        if "render_mode" not in options and "ansi" in env.metadata.get("render_modes", ()):
            env.close()
            env = gymnasium.make(spec, render_mode="ansi", **keywords)
    except (gymnasium.error.Error, TypeError, ImportError, ValueError) as error:
        raise ConfigError(f"environment 'gymnasium': {id!r} cannot be made: {type(error).__name__}: {error}") from error
    return env, env.render_mode == "ansi"


def _named(spaces: Any, space: Any, given: Any, known: tuple[str, ...], id: str) -> dict[str, Any]:
    """Names of all actions -> the actions."""
    if isinstance(space, spaces.Discrete):
        actions: list[Any] = [int(space.start) + k for k in range(int(space.n))]
        default = known if len(known) == len(actions) else tuple(map(str, actions))
    elif isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        sizes = space.nvec.ravel() if isinstance(space, spaces.MultiDiscrete) else np.full(int(np.prod(space.shape)), 2)
        if np.prod(sizes.astype(float)) > _MOST:
            raise ConfigError(f"environment 'gymnasium': {id!r} has more than {_MOST} combinations of actions")
        actions = [np.array(c, space.dtype).reshape(space.shape) for c in product(*(range(int(k)) for k in sizes))]
        default = tuple(" ".join(map(str, action.ravel())) for action in actions)
    else:
        raise ConfigError(f"environment 'gymnasium': {id!r} has the actions {space}, which are not discrete")
    names = list(default if given is None else given)
    if len(names) != len(actions) or len({str(name).lower() for name in names}) != len(actions):
        raise ConfigError(
            f"environment 'gymnasium': {id!r} needs {len(actions)} different action names, got {names!r:.200}"
        )
    return {str(name): action for name, action in zip(names, actions, strict=True)}


def _rule(success: Any) -> str | float:
    if isinstance(success, int | float) and not isinstance(success, bool):
        return float(success)
    if success not in SUCCESS:
        raise unknown("success rule of environment 'gymnasium'", str(success), SUCCESS, "Or a number.")
    return str(success)


_COLOURED: Final = re.compile("\x1b\\[([0-9;]*)m(.*?)\x1b\\[0m", re.DOTALL)
_ESCAPE: Final = re.compile("\x1b\\[[0-9;]*m")  # what is nested or left open
_COLOURS: Final = ("grey", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


def _uncoloured(text: str) -> str:
    """Terminal colours as words: [x] where the background is coloured, {blue x} where the letter is."""
    return _ESCAPE.sub("", _COLOURED.sub(_in_words, text)) if "\x1b" in text else text


def _in_words(found: re.Match[str]) -> str:
    codes = [int(code) for code in found[1].split(";") if code]
    letter = next((code % 10 for code in codes if 30 <= code <= 37), None)
    return f"[{found[2]}]" if letter is None else f"{{{_COLOURS[letter]} {found[2]}}}"


def _text(seen: Any) -> str:
    """An observation in words: numbers as they are, arrays in a row, mappings by name."""
    if isinstance(seen, str):
        return seen
    if isinstance(seen, Mapping):
        return "\n".join(f"{key}: {_text(value)}" for key, value in seen.items())
    if isinstance(seen, tuple | list):
        return ", ".join(map(_text, seen))
    if isinstance(seen, np.ndarray):
        return np.array2string(seen, precision=4, suppress_small=True, threshold=200)
    return str(seen.item() if hasattr(seen, "item") else seen)
