"""Making untrusted text visible: model output may hold control, direction and invisible characters."""

from __future__ import annotations

import re

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""``text`` with control, direction and invisible characters as ``\x1b`` or ``\u202e``; newline and tab stay."""
    return _HIDDEN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def cut(text: str, limit: int) -> str:
    """At most ``limit`` characters, with a mark where something is left out."""
    return text if len(text) <= limit else f"{text[:limit]} [cut: {len(text) - limit} more characters]"
