"""The frame of a page: head, policy, style, script, and data that no browser takes for code."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.web.text import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jinja2 import Environment

HERE = Path(__file__).parent
DEFLATE_LEVEL = 6


@cache
def asset(path: Path) -> str:
    """A style or script that ships with the package. No closing tag can stand in it, so it can be put into a page."""
    text = path.read_text(encoding="utf-8")
    if any(mark in text.lower() for mark in ("</style", "</script", "<!--")):
        raise ValueError(f"{path.name}: holds what would end its own tag")
    return text


def frame(
    title: str,
    body: str,
    *,
    style: str = "",
    script: str = "",
    data: Mapping[str, str] | None = None,
    style_attributes: bool = False,
) -> str:
    """A whole HTML page.

    ``title``  plain text, escaped here; ``body`` markup of ours, with everything foreign in it escaped already
    ``style``  CSS after the shared one; ``script`` JavaScript of ours, run at the end of the body
    ``data``   element id -> packed text (:func:`pack`), in blocks that the browser does not run
    ``style_attributes``  the body has style attributes (Matplotlib's plots do); else the browser refuses them
    """
    from markupsafe import escape

    css = asset(HERE / "base.css") + style
    styles = "'unsafe-inline'" if style_attributes else _hash(css)
    policy = f"default-src 'none'; style-src {styles}; base-uri 'none'; form-action 'none'"
    if script:
        policy += f"; script-src {_hash(script)}"
    blocks = "".join(
        f'<script type="application/octet-stream" id="{escape(name)}">{_packed(text)}</script>\n'
        for name, text in (data or {}).items()
    )
    code = f"<script>{script}</script>\n" if script else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(visible(title))}</title>\n<style>{css}</style>\n</head>\n<body>\n"
        f"{body}\n{blocks}{code}</body>\n</html>\n"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _packed(text: str) -> str:
    if not text.isascii() or not text.replace("+", "").replace("/", "").rstrip("=").isalnum():
        raise ValueError("a data block must be base64: pack() it")
    return text


def pack(data: Any) -> str:
    """JSON, deflated (zlib format), in base64: short, and without a character that means anything in HTML."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), DEFLATE_LEVEL)).decode()


def unpack(text: str) -> Any:
    """What :func:`pack` was given, as JSON has it."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


def templates(folder: Path) -> Environment:
    """Jinja2 templates of ``folder`` that escape every value and make its hidden characters visible."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader([folder, HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: Any) -> Any:
    """Every plain string in a template passes here before it is escaped; markup of ours passes as it is."""
    return visible(value) if type(value) is str else value
