"""What the pages of this project share: look, the safe frame of a page, packed data, and text made visible.

Every page is one file that asks for nothing: no other file, no network. Its Content-Security-Policy allows the page's
own styles and scripts by their hashes and nothing else, so that text which slipped through as markup could not run.
"""

from __future__ import annotations

from agentgym.web.frame import asset, frame, pack, templates, unpack
from agentgym.web.text import cut, visible

__all__ = ["asset", "cut", "frame", "pack", "templates", "unpack", "visible"]
