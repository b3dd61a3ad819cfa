"""Virtual environments for tests and for pip, made once and kept; and the folder in which they are kept."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from agentgym.errors import AgentGymError, DataError

#: the pytest that tests run under unless told otherwise: the last series whose hooks old conftests know
PYTEST = "pytest==8.4.2"
#: build backends, so that pip reads an old or new sdist's metadata without an isolated environment for each
BACKENDS: tuple[str, ...] = (
    "pip", "setuptools", "wheel", "setuptools-scm", "flit_core", "hatchling", "hatch-vcs", "hatch-fancy-pypi-readme",
    "poetry-core", "pdm-backend",
)  # fmt: skip
COVERAGE = "coverage==7.10.7"
_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")


def cache_root() -> Path:
    """``$AGENTGYM_CACHE``, or ``agentgym`` in the user's cache folder. Archives and environments; may be deleted."""
    if place := os.environ.get("AGENTGYM_CACHE"):
        return Path(place)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentgym"


@contextmanager
def locked(path: Path, timeout: float = 900.0) -> Iterator[None]:
    """Hold ``path`` locked against other processes. Raises AgentGymError after ``timeout`` seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        end = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > end:
                    raise AgentGymError(f"{path}: another process has held this lock for {timeout:.0f} s") from None
                time.sleep(0.1)
        yield


def run_pip(python: Path, arguments: Sequence[str], what: str, timeout: float = 600.0) -> str:
    """Run an environment's pip; its output. Raises AgentGymError with the last lines of what pip says."""
    command = [str(python), *_PIP, *arguments]
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=clean, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise AgentGymError(f"{what}: pip had not finished after {timeout:.0f} s") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        raise AgentGymError(f"{what}: pip failed: " + (" / ".join(said[-4:])[-600:] or f"exit code {done.returncode}"))
    return done.stdout


def interpreter(version: str = "") -> Path:
    """The interpreter of a version ("3.11"), by default the running one. Raises DataError where there is none."""
    running = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if version in ("", running):
        return Path(sys.executable)
    if found := shutil.which(f"python{version}"):
        return Path(found)
    raise DataError(f"there is no python{version} on the PATH (this is {running}); install it or drop 'python'")


def environment(requirements: Sequence[str], python: str = "") -> Path:
    """The folder of an environment that holds ``requirements``, made on the first call (wheels only, by pip).

    Raises AgentGymError with pip's words where a requirement cannot be had.
    """
    base = interpreter(python)
    wanted = sorted(requirements)
    name = hashlib.sha256(json.dumps([str(base), _version(base), wanted]).encode()).hexdigest()[:16]
    place = cache_root() / "venvs" / name
    ready = place / ".ready"
    if ready.exists():
        return place
    with locked(place.with_suffix(".lock")):
        if ready.exists():
            return place
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([str(base), "-m", "venv", str(place)], check=True, capture_output=True, timeout=300)
        what = f"test environment ({', '.join(wanted)})"
        run_pip(place / "bin" / "python", ["install", "--quiet", "--only-binary", ":all:", *wanted], what)
        ready.write_text("\n".join(wanted) + "\n")
    return place


@cache
def _version(python: Path) -> str:
    done = subprocess.run([str(python), "-V"], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def frozen(place: Path) -> list[str]:
    """What an environment holds, each at its version, pip and setuptools left out: the requirements of a task.

    The same folder then serves :func:`environment` for this list, too.
    """
    listed = run_pip(place / "bin" / "python", ["freeze", "--exclude", "setuptools"], str(place)).split("\n")
    return sorted(line.strip() for line in listed if "==" in line)


def mounts(*places: Path) -> dict[str, str]:
    """Host path -> path inside, read-only, for running the environments' interpreters in a sandbox."""
    out: dict[str, str] = {}
    for place in places:
        out[str(place)] = str(place)
        prefix = base_prefix(place / "bin" / "python")
        if prefix not in ("/usr", "/"):
            out[prefix] = prefix
    return out


@cache
def base_prefix(python: Path) -> str:
    """The installation behind an environment's interpreter."""
    done = subprocess.run([str(python), "-c", "import sys; print(sys.base_prefix)"], capture_output=True, text=True,
                          timeout=60, check=True)  # fmt: skip
    return done.stdout.strip()
