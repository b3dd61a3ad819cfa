"""The Python and the pinned pytest that a sandbox gets: where they are inside, and what to mount for them."""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from agentgym.errors import MissingDependency

#: what pytest needs to run, and nothing else of this environment
_PYTEST = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments")
_INSIDE = "/opt/agentgym"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """``python`` and ``site`` (folder with pytest) as commands see them, and the read-only ``mounts`` for them."""

    python: str
    site: str
    mounts: dict[str, str]
    pytest: str


@lru_cache(maxsize=4)
def interpreter(isolated: bool) -> Interpreter:
    """The running interpreter and its pytest, for an isolated backend or (False) for plain subprocesses.

    Raises MissingDependency where pytest is not installed.
    """
    try:
        found = version("pytest")
    except PackageNotFoundError:
        raise MissingDependency("grading needs pytest in agentgym's own environment: pip install pytest") from None
    places = {name: _place(name) for name in _PYTEST}
    python = str(Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}"))
    if not os.path.exists(python):
        python = os.path.realpath(sys.executable)
    if not isolated:
        return Interpreter(python, str(Path(places["pytest"]).parent), {}, found)
    mounts = {place: f"{_INSIDE}/site/{Path(place).name}" for place in places.values() if place}
    if not sys.base_prefix.startswith("/usr"):
        mounts[sys.base_prefix] = sys.base_prefix
    return Interpreter(python, f"{_INSIDE}/site", mounts, found)


def _place(name: str) -> str:
    """The folder or file of a module; empty where it is not installed (pygments may be missing)."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return ""
    origin = Path(spec.origin)
    return str(origin.parent if origin.name == "__init__.py" else origin)
