"""The life of a part around a learned model: warm-up, memory, refits when due, state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from agentgym.credit.learned.model import Learned
from agentgym.credit.protocols import Services
from agentgym.errors import ConfigError
from agentgym.types import Group


class LearnedPart(ABC):
    """A credit part that keeps a :class:`Learned` model, refits it every ``refit_every`` training steps from the
    buffer, and changes nothing in between. While there has been no fit, every step tries one."""

    name = ""

    def __init__(self, model: Learned, warmup_episodes: int, refit_every: int) -> None:
        if warmup_episodes < 0 or refit_every < 1:
            raise ConfigError(
                f"credit part {self.name!r}: warmup_episodes must be >= 0 and refit_every >= 1, got "
                f"{warmup_episodes} and {refit_every}"
            )
        self.model, self.warmup_episodes, self.refit_every = model, warmup_episodes, refit_every
        self.requires = model.requires
        self.fallbacks = self._steps = self._unfitted = 0
        self._report: dict[str, float] = {}

    def fall_back(self, episodes: int) -> bool:
        """Is there no fit yet, so that a batch of this many episodes has to do without?"""
        self._unfitted = 0 if self.model.fitted else episodes
        self._report = {}
        return not self.model.fitted

    @abstractmethod
    def remember(self, groups: list[Group], svc: Services) -> None:
        """Put the episodes of a step, with their labels, into the model's buffer."""

    def warm_up(self, groups: list[Group], svc: Services) -> dict[str, float]:
        """The first fit, on episodes of the starting policy. Returns the fit's metrics."""
        self.remember(groups, svc)
        return self.model.fit(svc)

    def feedback(self, groups: list[Group], svc: Services, step: int) -> dict[str, float]:
        """Remember the step's episodes; refit when due. Returns the fit's metrics, nothing where there was none."""
        self.remember(groups, svc)
        self._steps += 1
        self.fallbacks, self._unfitted = self.fallbacks + self._unfitted, 0
        due = not self.model.fitted or self._steps % self.refit_every == 0
        return self.model.fit(svc) if due else {}

    def report(self) -> dict[str, float]:
        """``fallback``: is there no fit yet? ``fallback_episodes``: how many episodes were handled without one."""
        return {
            "fallback": float(not self.model.fitted),
            "fallback_episodes": float(self.fallbacks + self._unfitted),
            **self._report,
        }

    def state_dict(self) -> dict[str, Any]:
        """Model, buffer and counts."""
        return {"model": self.model.state_dict(), "steps": self._steps, "fallbacks": self.fallbacks}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse."""
        self.model.load_state_dict(state["model"])
        self._steps, self.fallbacks = int(state["steps"]), int(state["fallbacks"])
