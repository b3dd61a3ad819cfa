"""``agentgym.rollout``: episodes in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from agentgym.environment import Environment
from agentgym.parsing import ActionFormat
from agentgym.policy import Policy, Sampling
from agentgym.prompts import PromptLayout
from agentgym.rollouts.config import Limits, RolloutConfig
from agentgym.rollouts.engine import RolloutEngine
from agentgym.store import EpisodeStore
from agentgym.types import Episode, Group, Task


def rollout(
    env: str | type[Environment] | Environment,
    policy: Policy,
    tasks: Iterable[Task],
    n: int = 1,
    seed: int = 0,
    *,
    layout: PromptLayout | None = None,
    format: ActionFormat | None = None,
    sampling: Sampling | None = None,
    limits: Limits | None = None,
    concurrency: int = 64,
    env_options: dict[str, Any] | None = None,
    store: EpisodeStore | None = None,
    on_episode: Callable[[Episode], None] | None = None,
) -> list[Group]:
    """Play ``n`` episodes of every task and return one Group a task, in task order.

    ``env`` is a registry name, ``module:Class``, a class, or an instance (used as it is, one episode at a time).
    ``store`` gets every episode as it ends; ``on_episode`` is called with it. Failed episodes are in the groups, with
    their ``termination`` and ``error``. For more than one call, a RolloutEngine keeps its workers.
    """
    parts = (layout or PromptLayout(), format or ActionFormat(), sampling or Sampling(), limits or Limits())
    config = RolloutConfig(*parts, concurrency=concurrency)

    def finished(episode: Episode) -> None:
        if store is not None:
            store.append(episode)
        if on_episode is not None:
            on_episode(episode)

    with RolloutEngine(env, policy, config, env_options) as engine:
        if store is not None:
            store.lock()  # a second writer is refused now, not after the first episode
        groups = engine.run_sync(tasks, n, seed, finished)
    if store is not None:
        store.flush()
    return groups
