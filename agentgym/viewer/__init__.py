"""The trajectory viewer: stored episodes as one self-contained HTML page, or served page by page on this machine."""

from __future__ import annotations

from agentgym.viewer.build import write_html
from agentgym.viewer.episodes import Credit, Source, Tokens, find_sources, load_tokens
from agentgym.viewer.serve import make_server

__all__ = ["Credit", "Source", "Tokens", "find_sources", "load_tokens", "make_server", "write_html"]
