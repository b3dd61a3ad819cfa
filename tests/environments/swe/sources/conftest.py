"""A sandbox for code of the tests' own: bubblewrap where it works (CI requires it), else plain subprocesses."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from agentgym.environments.swe.sources import subject, venvs
from agentgym.environments.swe.sources.probing import Runtime
from agentgym.sandbox import bubblewrap
from agentgym.sandbox.grading import Grader


@pytest.fixture(scope="session")
def backend() -> str:
    """The code run here is written in these tests, so plain subprocesses do for a contributor without bubblewrap."""
    why = bubblewrap.check()
    if why and os.environ.get("AGENTGYM_REQUIRE_SANDBOX") == "1":
        pytest.fail(f"required: {why}")
    return "unsafe-local" if why else "bubblewrap"


@pytest.fixture(scope="session")
def grader(backend: str) -> Grader:
    return Grader(backend, options={"unsafe_local": True} if backend == "unsafe-local" else None)


@pytest.fixture
def own_environment(monkeypatch: pytest.MonkeyPatch, backend: str, tmp_path: Path) -> str:
    """Tests run in the environment of this very run instead of one that pip makes; the cache is empty."""
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))

    def runtime(requirements: list[str], backend: str = "auto", cover: bool = False) -> Runtime:
        place = Path(sys.prefix)
        return Runtime(place, place if cover else None, backend)

    monkeypatch.setattr(subject, "runtime_for", runtime)
    monkeypatch.setattr(venvs, "frozen", lambda place: [])
    return backend
