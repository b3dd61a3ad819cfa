"""Multi-turn question answering with a search engine, in the protocol of Search-R1."""

from agentgym.environments.search.env import Search

__all__ = ["Search"]
