"""Checks of options that name files and folders, for environments that read data."""

from __future__ import annotations

import os
from typing import Any

from agentgym.errors import ConfigError


def path_option(env: str, name: str, value: Any) -> str | None:
    """``value`` as text if it is a path that could exist, None if it is None, else ConfigError.

    Refused: what is no text or ``os.PathLike``, an empty text, NUL characters, halves of characters (surrogates).
    """
    if value is None:
        return None
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip() or "\0" in text or not _whole_characters(text):
        raise ConfigError(f"environment {env!r}: {name} must be the path of a file or folder, got {value!r:.80}")
    return text


def _whole_characters(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
