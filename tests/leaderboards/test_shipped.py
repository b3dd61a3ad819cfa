"""The entries that come with the package hold, and are of the boards as they are now."""

from __future__ import annotations

import pytest
from board_help import needs_sandbox

from agentgym.errors import DataError, MissingDependency
from agentgym.leaderboards.catalogue import board_tasks, load_board
from agentgym.leaderboards.collection import ENTRIES, Found, find
from agentgym.leaderboards.verify import verify
from agentgym.types import TaskSet

SHIPPED = find(ENTRIES)
_tasks: dict[str, TaskSet] = {}


def test_every_board_that_can_be_played_here_has_its_entries() -> None:
    by_board: dict[str, set[str]] = {}
    for found in SHIPPED:
        by_board.setdefault(found.entry.board, set()).add(found.entry.model.name)
    for board in (
        "household-generated",
        "sokoban",
        "frozenlake",
        "minesweeper",
        "webshop-mini",
        "textworld",
        "alfworld/valid_seen",
    ):
        assert {"expert", "noop", "random"} <= by_board[board], board
    for board in (
        "countdown",
        "swe-mini",
        "search/fictional",
        "search/hotpotqa300",
        "webshop/test500",
        "alfworld/valid_unseen",
    ):
        assert {"expert", "noop"} <= by_board[board], board
    assert "truth" in by_board["credit-bench"]


@pytest.mark.parametrize("found", SHIPPED, ids=lambda f: f.path.relative_to(ENTRIES).with_suffix("").as_posix())
def test_a_shipped_entry_is_current(found: Found) -> None:
    board = load_board(found.entry.board)
    assert found.entry.board_hash == board.hash
    assert found.entry.errors == 0
    assert not found.entry.code_version.endswith("+")
    name, success = found.entry.model.name, found.entry.numbers.get("success")
    if success is not None and name in ("expert", "noop"):
        assert success.value == getattr(board.bounds, name)


@pytest.mark.parametrize(
    "found", [f for f in SHIPPED if f.episodes], ids=lambda f: f.path.relative_to(ENTRIES).with_suffix("").as_posix()
)
def test_a_shipped_entry_holds(found: Found) -> None:
    try:
        if found.entry.board not in _tasks:
            _tasks[found.entry.board] = board_tasks(found.entry.board)
    except (DataError, MissingDependency) as error:
        pytest.skip(str(error))
    needs_sandbox(found.entry.board)
    verdict = verify(found.entry, found.episodes, tasks=_tasks[found.entry.board], replay=5)
    assert (verdict.problems, verdict.stale, verdict.replayed) == ([], False, 5)
