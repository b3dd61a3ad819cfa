"""Sokoban by the rules of RAGEN and RetroAgent. See ``docs/environments/sokoban.md``."""

from agentgym.environments.sokoban.env import ACTIONS, Sokoban

__all__ = ["ACTIONS", "Sokoban"]
