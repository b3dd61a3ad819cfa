"""The documentation site, built once for the tests that read it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from browsers import browser  # noqa: F401

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site's folder; AGENTGYM_REQUIRE_DOCS=1: fail, not skip, without the extra ``docs``."""
    if os.environ.get("AGENTGYM_REQUIRE_DOCS") != "1":
        for package in ("mkdocs", "material", "mkdocstrings"):
            if importlib.util.find_spec(package) is None:
                pytest.skip(f"{package} is not installed: pip install 'agentgym-turns[docs]'")
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=280, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder
