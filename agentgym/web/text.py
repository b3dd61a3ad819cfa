"""Making untrusted text visible: model output may hold control, direction and invisible characters."""

from __future__ import annotations

import re

#: What no page shows as it is: controls (newline and tab stay), soft and zero-width characters, direction marks,
#: embeddings and isolates, line separators, fillers that look like nothing, lone surrogates, and the tag characters
#: and variation selectors that can carry hidden text. ``hidden.js`` has the same set; a test holds them together.
HIDDEN_RANGES = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff"
)
_HIDDEN = re.compile(f"[{HIDDEN_RANGES}]")


def visible(text: str) -> str:
    r"""``text`` with control, direction and invisible characters as ``\x1b`` or ``\u202e``; newline and tab stay."""
    return _HIDDEN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def cut(text: str, limit: int) -> str:
    """At most ``limit`` characters, with a mark where something is left out."""
    return text if len(text) <= limit else f"{text[:limit]} [cut: {len(text) - limit} more characters]"
