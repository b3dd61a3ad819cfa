"""A store of episodes that attack the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsers import browser, open_page  # noqa: F401
from viewer_episodes import write_store


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("viewer") / "doors.agym")
