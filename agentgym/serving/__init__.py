"""``agentgym serve env``: any environment behind plain HTTP. See ``docs/adapters.md`` for the interface."""

from agentgym.serving.app import make_app
from agentgym.serving.episodes import Limits

__all__ = ["Limits", "make_app"]
