"""Controls that every dense method needs beside it, so that credit is told from mere scale and noise.

(a) the outcome alone under the same estimator, (b) :class:`Shuffled`, (c) the dense reward alone. (a) and (c) need no
code: leave the module, or the outcome's weight, out.
"""

from __future__ import annotations

from agentgym.credit.components import add_component, component
from agentgym.credit.protocols import Services
from agentgym.errors import ConfigError, unknown
from agentgym.seeding import numpy_rng
from agentgym.types import Group


class Shuffled:
    """Control (b): the values of a component X moved to random turns of their episode, paid as ``shuffled:X``.

    Same values, same sum, no information about which turn earned them. ``component`` None (default): everything paid
    but the outcome, each by a permutation of its own. The permutation follows from the episode's seed and the
    component's name, so it depends neither on order nor on concurrency.
    """

    name = "shuffled"
    stage = "shape"
    traits: frozenset[str] = frozenset()
    requires: frozenset[str] = frozenset()

    def __init__(self, component: str | None = None) -> None:
        self.sources: tuple[str, ...] = () if component is None else (component,)
        self._all = component is None

    def plan(self, paid: dict[str, float]) -> dict[str, float]:
        """``X`` -> ``shuffled:X`` with its weight. Raises UnknownNameError where X is not paid at this point."""
        if self._all:
            self.sources = tuple(name for name in paid if name != "outcome")
        if not self.sources:
            raise ConfigError("shuffled: nothing but the outcome is paid, so there is nothing to shuffle")
        for name in self.sources:
            if name not in paid:
                raise unknown("component of shuffled", name, paid, "It works on what is paid before it.")
        return {f"shuffled:{name}" if name in self.sources else name: weight for name, weight in paid.items()}

    async def apply(self, groups: list[Group], svc: Services, step: int) -> None:
        """Write the shuffled values."""
        for group in groups:
            for episode in group:
                for name in self.sources:
                    rng = numpy_rng("shuffled", name, episode.seed)
                    add_component(episode, f"shuffled:{name}", rng.permutation(component(episode, name)))
