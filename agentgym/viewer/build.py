"""The viewer's page: built from episodes, written as one file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.viewer import payload
from agentgym.viewer.episodes import Credit, Loaded, Source, Tokens, assign, read_all
from agentgym.web import asset, frame, pack

HERE = Path(__file__).parent
SCRIPTS = ("hidden.js", "data.js", "parts.js", "main.js")  # in the order in which they are joined


@dataclass(frozen=True, slots=True)
class Written:
    """What became of it. ``left_out``: episodes beyond the limit; ``notes``: what the page says is missing."""

    path: Path
    episodes: int
    left_out: int
    size: int
    notes: list[str]


def write_html(
    out: Path,
    sources: Sequence[Source],
    *,
    title: str,
    credit: Credit | None = None,
    tokens: Tokens | None = None,
    limit: int | None = None,
    notes: Sequence[str] = (),
) -> Written:
    """Write the episodes of ``sources`` to one HTML file that opens from disk. Replaces ``out`` in one go."""
    loaded, left_out = read_all(sources, limit)
    told = list(notes)
    if left_out:
        told.append(f"{left_out} more episodes are not on this page")
    html, told = page(loaded, sources, title=title, credit=credit, tokens=tokens, notes=told)
    part = out.with_name(f".{out.name}.part")
    part.write_text(html, encoding="utf-8")
    os.replace(part, out)
    return Written(out, len(loaded), left_out, len(html), told)


def page(
    loaded: list[Loaded],
    sources: Sequence[Source],
    *,
    title: str,
    credit: Credit | None = None,
    tokens: Tokens | None = None,
    notes: Sequence[str] = (),
    served: dict[str, Any] | None = None,
) -> tuple[str, list[str]]:
    """The page as text, and what it says is missing."""
    made = payload.make(loaded, sources, title, assign(loaded, credit), notes, tokens, served)
    blocks = {"data": pack(made.main)}
    if made.tokens is not None:
        blocks["tokens"] = pack(made.tokens)
    html = frame(
        f"{title} - episodes",
        asset(HERE / "viewer.html"),
        style=asset(HERE / "viewer.css"),
        script=script(),
        data=blocks,
    )
    return html, made.main["notes"]


def script() -> str:
    """The page's one script."""
    return '"use strict";\n(() => {\n' + "".join(asset(HERE / name) for name in SCRIPTS) + "})();\n"
