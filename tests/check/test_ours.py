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
#: a Java machine that takes seconds to start, and again for each restore; its experts play to the end in its own tests
OPTIONS["scienceworld"] = Settings(tasks=1, turns=8, seconds=60.0, task_options={"task": "find-animal"})
#: a reset makes a working tree; of this task the checked episode runs tests, whose answer holds times and addresses
TIMED = {"names": ["pocket-overlap-neighbours"]}
OPTIONS["swe"] = Settings(tasks=1, turns=20, seconds=6.0, task_options=TIMED, split="train")
#: findings that follow from the rules of the game: ScienceWorld's score begins with points for where the player stands
MEANT = {"scienceworld": {"noop_paid"}}
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
    found = [finding for finding in report.findings if finding.level != "note"]
    assert [finding for finding in found if finding.code not in MEANT.get(name, ())] == []
    assert len(report.ran) == 13
