"""The expert solves every board and doing nothing solves none, or the board's file says why not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from board_help import needs_sandbox

from agentgym.errors import DataError, MissingDependency
from agentgym.leaderboards.catalogue import board_names, load_board, load_panel, load_tasks
from agentgym.leaderboards.identity import identify
from agentgym.leaderboards.run import Job, LocalPlayer, run
from agentgym.leaderboards.verify import verify
from agentgym.policies import load_policy

NAMES = [name for name in board_names() if load_board(name).kind == "eval"]


@pytest.fixture(autouse=True)
def data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real data where it is beside the repository."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    if "AGENTGYM_DATA" not in os.environ and beside.is_dir():
        monkeypatch.setenv("AGENTGYM_DATA", str(beside))


@pytest.mark.parametrize("name", NAMES)
def test_expert_and_noop(name: str, tmp_path: Path) -> None:
    board = load_board(name)
    panel = load_panel(board)
    try:
        tasks = load_tasks(board, panel)
    except (DataError, MissingDependency) as error:
        pytest.skip(str(error))
    needs_sandbox(name)
    episodes = len(panel.rows) * board.attempts
    for who, expected in (("expert", board.bounds.expert), ("noop", board.bounds.noop)):
        job = Job(board, panel, tasks, identify(who), concurrency=8)
        entry = run(job, LocalPlayer(load_policy(who)), tmp_path / who)
        assert (entry.numbers["success"].value, entry.errors) == (expected, 0)
        assert sum(entry.terminations.values()) == episodes
        verdict = verify(entry, tmp_path / who / "episodes.agym", tasks=tasks, replay=10)
        assert (verdict.problems, verdict.stale, verdict.replayed) == ([], False, min(10, episodes))
    assert board.bounds.noop == 0
    assert board.bounds.expert == 1 or board.bounds.note
