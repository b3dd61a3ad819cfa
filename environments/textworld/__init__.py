"""TextWorld's own games, made by its generator or read from files. See ``docs/environments/textworld.md``."""

from agentgym.environments.textworld.env import TextWorld

__all__ = ["TextWorld"]
