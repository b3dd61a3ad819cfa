"""The leaderboard site: static HTML that opens from disk, one page a board, one an entry, one for its episodes."""

from __future__ import annotations

from agentgym.leaderboards.site.build import Built, build
from agentgym.leaderboards.site.serve import make_server, serve

__all__ = ["Built", "build", "make_server", "serve"]
