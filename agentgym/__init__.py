"""agentgym: a gym for multi-turn LLM agents.

The names below are the public API. They load on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_LAZY = {
    "Environment": "agentgym.environment",
    "EnvironmentSpec": "agentgym.environment",
    "Task": "agentgym.types",
    "TaskSet": "agentgym.types",
    "Observation": "agentgym.types",
    "Step": "agentgym.types",
    "Turn": "agentgym.types",
    "Episode": "agentgym.types",
    "Group": "agentgym.types",
    "Termination": "agentgym.types",
    "TokenRow": "agentgym.tokens",
    "Policy": "agentgym.policy",
    "BatchPolicy": "agentgym.policy",
    "PolicyRequest": "agentgym.policy",
    "SampledTurn": "agentgym.policy",
    "Sampling": "agentgym.policy",
    "ActionFormat": "agentgym.parsing",
    "PromptLayout": "agentgym.prompts",
    "AgentGymError": "agentgym.errors",
    "make": "agentgym.registry",
    "register": "agentgym.registry",
    "load_policy": "agentgym.policies",
    "rollout": "agentgym.rollouts",
    "EpisodeStore": "agentgym.store",
}

__all__ = [*_LAZY, "credit", "__version__"]

if TYPE_CHECKING:
    # ruff: noqa: F401
    from agentgym import credit
    from agentgym.environment import Environment, EnvironmentSpec
    from agentgym.errors import AgentGymError
    from agentgym.parsing import ActionFormat
    from agentgym.policies import load_policy
    from agentgym.policy import BatchPolicy, Policy, PolicyRequest, SampledTurn, Sampling
    from agentgym.prompts import PromptLayout
    from agentgym.registry import make, register
    from agentgym.rollouts import rollout
    from agentgym.store import EpisodeStore
    from agentgym.tokens import TokenRow
    from agentgym.types import Episode, Group, Observation, Step, Task, TaskSet, Termination, Turn


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name in ("credit", "environments", "trainers", "leaderboards", "sandbox"):
        return importlib.import_module(f"agentgym.{name}")
    raise AttributeError(f"module 'agentgym' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
