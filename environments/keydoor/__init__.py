"""KeyDoor: a corridor of keys and doors, small enough to solve exactly."""

from agentgym.environments.keydoor.env import KeyDoor
from agentgym.environments.keydoor.model import TabularModel

__all__ = ["KeyDoor", "TabularModel"]
