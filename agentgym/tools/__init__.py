"""Typed tools: definitions, the notations of calls, environments that are played by calls. See ``docs/tools.md``.

Importing this package imports no pydantic; the rollout and the renderer need the notations alone.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

_HOMES: Final = {
    "Call": "notation", "NOTATIONS": "notation", "read_calls": "notation", "write_call": "notation",
    "Tool": "definition", "ToolSet": "definition", "ToolProblem": "definition", "tool": "definition",
    "ToolEnvironment": "environment", "MCPConnection": "mcp", "MCPTools": "mcp",
}  # fmt: skip
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Names are imported when they are first used."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
