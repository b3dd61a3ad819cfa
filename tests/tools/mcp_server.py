"""A small MCP server for the tests, written with the official package; run as a script."""

from __future__ import annotations

from mcp.server import MCPServer

server = MCPServer("notes")
notes: list[str] = []


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def note(text: str) -> str:
    """Keep a note; answers with all of them."""
    notes.append(text)
    return " | ".join(notes)


@server.tool()
def fail() -> str:
    """Raise an error."""
    raise ValueError("the ink is dry")


if __name__ == "__main__":
    server.run("stdio")
