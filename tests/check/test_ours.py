"""The gate: every environment that is built in passes its own check, without an error and without a warning."""

from __future__ import annotations

import os

import pytest

from agentgym import registry
from agentgym.check import Settings, check
from agentgym.errors import MissingDependency

#: what is looked at of an environment that needs more than its name
FEW = Settings(tasks=3, turns=20, seconds=5.0, task_options={"n": 30})
OPTIONS: dict[str, Settings] = dict.fromkeys(("frozenlake", "minesweeper", "sokoban", "webshop"), FEW)
OPTIONS["swe"] = Settings(tasks=1, turns=4, seconds=3.0)  # a reset makes a working tree
#: adapters say what they adapt; tests/environments/adapters checks them
ADAPTERS = {"gymnasium", "textarena", "gem", "openenv", "verifiers", "remote"}


@pytest.mark.parametrize("name", sorted(set(registry.BUILT_IN) - ADAPTERS))
def test_it_passes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTGYM_DATA", raising=False)  # what everyone has
    settings = OPTIONS.get(name, Settings(tasks=3, turns=20, seconds=5.0))
    try:
        report = check(name, settings, deadline=120.0)
    except MissingDependency as error:
        if os.environ.get("AGENTGYM_REQUIRE_ENGINES"):
            raise
        pytest.skip(str(error))
    assert [finding for finding in report.findings if finding.level != "note"] == []
    assert len(report.ran) == 13
