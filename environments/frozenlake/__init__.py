"""FrozenLake on Gymnasium's rules. See ``docs/environments/frozenlake.md``."""

from agentgym.environments.frozenlake.env import ACTIONS, FrozenLake

__all__ = ["ACTIONS", "FrozenLake"]
