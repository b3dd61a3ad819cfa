"""Quest: a small partially observed game of keys and nested chests."""

from agentgym.environments.quest.env import Quest

__all__ = ["Quest"]
