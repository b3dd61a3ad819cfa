"""Software engineering: a repository, an issue, a shell and an edit tool; hidden tests decide."""

from agentgym.environments.swe.env import SWE

__all__ = ["SWE"]
