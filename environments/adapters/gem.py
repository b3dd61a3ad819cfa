"""``gem``: the text environments of GEM (Liu et al. 2025, arXiv:2510.01051) from the package ``gem-llm``."""

from __future__ import annotations

import random
from typing import Any, ClassVar

from agentgym.environment import EnvironmentSpec
from agentgym.environments.adapters._base import Adapter, library
from agentgym.environments.adapters._isolated import call, drawing, isolate
from agentgym.errors import ConfigError, unknown
from agentgym.types import Observation, Step


class Gem(Adapter):
    r"""A GEM environment without its wrappers: the prompt layout keeps the history here.

    ``id``       GEM's id, such as ``game:GuessTheNumber-v0``
    ``options``  keyword arguments of ``gem.make``
    ``solved``   a final reward of at least so much is a success (default 1)

    GEM ends an episode for a malformed answer and counts turns itself; what it calls truncated is in ``info``.
    """

    family = "gem"
    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="gem",
        max_turns=100,
        snapshots=True,
        splits=("train", "valid", "test"),
        action_help="Give the answer inside \\boxed{}.",
        description="GEM's text environments; option id, or gem:ID",
        expert_success=0.0,
    )

    def __init__(self, id: str = "", options: dict[str, Any] | None = None, solved: float = 1.0) -> None:
        super().__init__(id)
        gem = library("gem", "gem", "gem-llm")
        known = library("gem.envs.registration", "gem", "gem-llm").ENV_REGISTRY
        if self.id not in known:
            raise unknown("GEM environment", self.id, known)
        self._generator, self._solved = random.Random(0), float(solved)
        isolate("gem")
        with drawing(self._generator):
            try:
                self._env = gem.make(self.id, **dict(options or {}))
            except (ImportError, TypeError, LookupError, OSError, ValueError) as error:
                raise ConfigError(
                    f"environment 'gem': {self.id!r} cannot be made: {type(error).__name__}: {error}"
                ) from error
        isolate("gem")  # the environment's own module is loaded now
        self._env_step = self._env.step
        own = getattr(self._env, "max_turns", None)
        self.describe(own if isinstance(own, int) and own > 0 else None, self.spec.action_help)

    def _start(self, seed: int) -> Observation:
        with drawing(self._generator):
            self._generator.seed(seed)
            shown, info = self._env.reset(seed=seed)
        return _observation(shown, info)

    def step(self, action: str) -> Step:
        """One answer; GEM judges it."""
        self.running()
        shown, reward, terminated, truncated, info = call(self._generator, self._env_step, action)
        self._actions.append(action)
        if not (terminated or truncated):
            return Step(_observation(shown, info), float(reward), grounded=reward >= 0)
        self._over = True
        paid = float(reward)
        won = bool(terminated) and paid >= self._solved
        return Step(Observation(str(shown)), paid, True, won, paid >= 0, info={"truncated": bool(truncated)})


def _observation(shown: Any, info: dict[str, Any]) -> Observation:
    suffix = info.get("suffix") or ""
    return Observation(f"{shown}\n{suffix}" if suffix else str(shown))
