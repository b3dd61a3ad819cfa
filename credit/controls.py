"""Controls that every dense method needs beside it, so that credit is told from mere scale and noise.

(a) the outcome alone under the same estimator, (b) :class:`Shuffled`, (c) the dense reward alone. (a) and (c) need no
code: leave the module, or the outcome's weight, out.
"""

from __future__ import annotations

from agentgym.credit.components import add_component, component
from agentgym.credit.protocols import Services
from agentgym.credit.transforms import Replacement
from agentgym.seeding import numpy_rng
from agentgym.types import Group


class Shuffled(Replacement):
    """Control (b): the values of a component moved to random turns of their episode, paid as ``shuffled:X``.

    Same values, same sum, no information about which turn earned them. The permutation follows from the episode's seed
    and the component's name, so it does not depend on order or concurrency.
    """

    name = "shuffled"

    async def apply(self, groups: list[Group], svc: Services, step: int) -> None:
        """Write the shuffled values."""
        for group in groups:
            for episode in group:
                rng = numpy_rng("shuffled", self.source, episode.seed)
                add_component(episode, self.target, rng.permutation(component(episode, self.source)))
