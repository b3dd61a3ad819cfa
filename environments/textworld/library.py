"""The optional package behind this environment: is it there, which version, and its modules.

TextWorld may run in one thread of a process only (its parsers have global state), hence ``thread_safe=False``.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from typing import Any

from agentgym.errors import MissingDependency

_MISSING = (
    "environment 'textworld' needs the package textworld, and {name} is not installed. "
    "Run: pip install 'agentgym-turns[textworld]'"
)


def check_installed() -> None:
    """Raise MissingDependency where the package is not there; imports nothing."""
    if importlib.util.find_spec("textworld") is None:
        raise MissingDependency(_MISSING.format(name="textworld"))


def module(name: str = "textworld") -> Any:
    """One module of the package. The first import takes about two seconds."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingDependency(_MISSING.format(name=error.name or error)) from error


def version() -> str:
    """The installed version: games of another one may differ."""
    try:
        return importlib.metadata.version("textworld")
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingDependency(_MISSING.format(name="textworld")) from error
