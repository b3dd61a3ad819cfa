"""ALFWorld's text games in plain Python, exact against the real TextWorld."""

from agentgym.environments.alfworld.env import ALFWorld

__all__ = ["ALFWorld"]
