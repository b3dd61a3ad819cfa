"""The backend that grading is tested on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def grading_backend() -> tuple[str, dict[str, object]]:
    name = os.environ.get("AGENTGYM_TEST_BACKEND", "bubblewrap")
    return name, {"unsafe_local": True} if name == "unsafe-local" else {}
