"""Credit: from one late outcome to an advantage for every turn, and from turns to tokens.

advantages = agentgym.credit.assign(groups, ["invalid_penalty"], estimator="rloo")   # [group][episode][turn]
weights = agentgym.credit.project(episode, advantages[g][i])                          # one array per token row
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym.credit.components import CreditError, add_component, component, components, turn_rewards
from agentgym.credit.explain import forget
from agentgym.credit.parts import Spec
from agentgym.credit.pipeline import CreditPipeline, CreditResult
from agentgym.credit.projection import empty_turns, place, project
from agentgym.credit.protocols import (
    AdvantageEstimator,
    Ragged,
    Services,
    TrajectoryRewarder,
    TurnRewarder,
    Values,
)
from agentgym.types import Group

__all__ = [
    "AdvantageEstimator",
    "CreditError",
    "CreditPipeline",
    "CreditResult",
    "Services",
    "TrajectoryRewarder",
    "TurnRewarder",
    "Values",
    "add_component",
    "assign",
    "component",
    "components",
    "empty_turns",
    "place",
    "project",
    "turn_rewards",
]


def assign(
    groups: Sequence[Group],
    credit: Sequence[Spec] = (),
    estimator: str | AdvantageEstimator = "grpo",
    services: Services | None = None,
    **estimator_options: Any,
) -> Ragged:
    """Advantages ``[group][episode][turn]``, float64; zeros for episodes that ended as env_error or aborted.

    Leaves the episodes as they were, so it can be called again with other modules; components that an earlier
    pipeline recorded under the same names are computed anew. :class:`CreditPipeline` keeps components and metrics.
    ``services``: what modules with ``requires`` work with (a scorer, a judge, ...).
    """
    pipeline = CreditPipeline(credit, estimator, estimator_options, services=services)
    turns = [turn for group in groups for episode in group for turn in episode.turns]
    saved = [turn.rewards for turn in turns]
    try:
        forget(list(groups), pipeline)
        return pipeline.run(groups).advantages
    finally:
        for turn, rewards in zip(turns, saved, strict=True):
            turn.rewards = rewards
