"""A virtual environment for each peer, made where it is missing, reused where it holds the pinned versions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from plan import CONSTRAINTS, Side

#: seconds for one peer's packages; the real ALFWorld engine compiles Fast Downward
INSTALL_S = 3600.0
_ASK = "import importlib.metadata as m, sys; print(*(m.version(n) for n in sys.argv[1:]))"


def python_of(side: Side, root: Path) -> Path:
    """The interpreter that runs a side's scripts."""
    if not side.packages:
        return Path(sys.executable)
    return root.resolve() / side.name / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def pinned(packages: tuple[str, ...]) -> dict[str, str]:
    """Names without extras, and their versions."""
    return {re.sub(r"\[.*\]", "", name): version for name, version in (p.split("==") for p in packages)}


def holds(side: Side, root: Path) -> bool:
    """Whether the environment is there with the versions asked for."""
    wanted = pinned((*side.packages, *side.bare))
    command = [str(python_of(side, root)), "-c", _ASK, *wanted]
    try:
        seen = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return False
    return [version.partition("+")[0] for version in seen] == list(wanted.values())  # torch says 2.13.0+cpu


def provide(side: Side, root: Path, install: bool = True, deadline: float = INSTALL_S) -> dict[str, Any]:
    """Make the environment of ``side``: ``{status: reused | installed | failed, ...}``. Never raises for a peer."""
    asked = {"packages": [*side.packages, *side.bare]}
    if holds(side, root):
        return {**asked, "status": "reused"}
    if not install:
        return {**asked, "status": "failed", "error": "not installed, and --no-install was given"}
    begun = time.monotonic()
    try:
        _install(side, root, deadline)
    except subprocess.TimeoutExpired:
        return {**asked, "status": "failed", "error": f"not installed within {deadline:.0f} s"}
    except subprocess.CalledProcessError as error:
        return {**asked, "status": "failed", "error": (error.stderr or error.stdout or str(error)).strip()[-1500:]}
    except OSError as error:
        return {**asked, "status": "failed", "error": str(error)}
    return {**asked, "status": "installed", "seconds": round(time.monotonic() - begun)}


def _install(side: Side, root: Path, deadline: float) -> None:
    """The same Python as ours, so that interpreters are not what is compared."""
    root.mkdir(parents=True, exist_ok=True)
    limits = root / "constraints.txt"
    limits.write_text("\n".join(CONSTRAINTS) + "\n")
    base = getattr(sys, "_base_executable", None) or sys.executable
    folder = str(root / side.name)
    subprocess.run([base, "-m", "venv", folder], capture_output=True, text=True, timeout=deadline, check=True)
    pip = [str(python_of(side, root)), "-m", "pip", "install", "--quiet"]
    commands = [[*pip, "-c", str(limits), *side.packages]]
    commands += [[*pip, "--no-deps", "--ignore-requires-python", *side.bare]] if side.bare else []
    for command in commands:
        subprocess.run(command, capture_output=True, text=True, timeout=deadline, check=True)
