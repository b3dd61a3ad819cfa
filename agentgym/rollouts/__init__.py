"""Rollouts: many episodes in flight, every one recorded. See :class:`RolloutEngine` and :func:`rollout`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# Lazy, because every worker process imports this package for its worker module only.
_LAZY = {
    "Limits": "config",
    "RolloutConfig": "config",
    "RolloutStats": "config",
    "EnvHandle": "handles",
    "make_handle": "handles",
    "run_episode": "episode",
    "record": "recording",
    "RolloutEngine": "engine",
    "rollout": "api",
}

__all__ = [
    "EnvHandle",
    "Limits",
    "RolloutConfig",
    "RolloutEngine",
    "RolloutStats",
    "make_handle",
    "record",
    "rollout",
    "run_episode",
]

if TYPE_CHECKING:
    from agentgym.rollouts.api import rollout
    from agentgym.rollouts.config import Limits, RolloutConfig, RolloutStats
    from agentgym.rollouts.engine import RolloutEngine
    from agentgym.rollouts.episode import run_episode
    from agentgym.rollouts.handles import EnvHandle, make_handle
    from agentgym.rollouts.recording import record


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'agentgym.rollouts' has no attribute {name!r}")
    return getattr(importlib.import_module(f"agentgym.rollouts.{_LAZY[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
