"""Entries that attack the site, one of them with its episodes and its training, one stale, one of an unknown board."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browsers import browser, open_page  # noqa: F401
from viewer_episodes import ATTACK, NAME, write_store

from agentgym.leaderboards.catalogue import load_board
from agentgym.leaderboards.entry import Entry, EpisodesFile, ModelIdentity, Number, Training

BOARD = "sokoban"


def number(value: float, width: float = 0.1) -> Number:
    return Number(value=value, low=max(0.0, value - width), high=min(1.0, value + width), n=50, clusters=50)


def entry(label: str, success: float, **changes: Any) -> Entry:
    board = load_board(BOARD)
    numbers = {"success": number(success), "score": number(success), "turns": Number(value=100 * (1 - success)),
               "tokens": Number(value=1000 * success), "invalid": number(0.05)}  # fmt: skip
    values: dict[str, Any] = {
        "board": BOARD, "board_hash": board.hash, "panel_hash": "0" * 16, "code_version": "0.1.0", "tasks": 50,
        "model": ModelIdentity(label=label, kind="checkpoint", parameters=int(1e5 + 1e9 * success)),
        "numbers": numbers, "kinds": {"two boxes": {"success": number(success / 2)}, "": {"success": number(success)}},
        "terminations": {"env_done": 30, "max_turns": 20}, "created": "2026-11-30",
    }  # fmt: skip
    return Entry(**(values | changes))


@pytest.fixture(scope="session")
def entries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("entries")
    write_store(folder / "mine.agym")
    label = ATTACK.replace("\ud800", "")[:100]
    made = [
        entry("middle", 0.5, training=Training(recipe="r", steps=20, curves={"success": [(0, 0.1), (20, 0.5)]}),
              episodes=EpisodesFile(hash="1" * 64, count=12, file="mine.agym")),
        entry("best", 0.9, model=ModelIdentity(label="best", kind="endpoint", endpoint="https://example.org/v1")),
        entry("worst", 0.0),
        entry("old", 0.95, board_hash="f" * 16),
        entry(label, 0.3, note=NAME, settings={NAME: NAME}, error_messages=[NAME], errors=3,
              kinds={NAME: {"success": number(0.3)}}, terminations={NAME: 3},
              training=Training(recipe=NAME, curves={NAME: [(0, 1), (1, 2)]}),
              episodes=EpisodesFile(hash="2" * 64, count=1, file="../../etc/passwd"), engine=NAME, created=NAME,
              numbers={"success": number(0.3), NAME: number(0.2)}),
        entry("lost", 0.2, board=NAME),
    ]  # fmt: skip
    for place, one in enumerate(made):
        (folder / f"{place}.json").write_text(one.to_json(), encoding="utf-8")
    (folder / "broken.json").write_text('{"board": 1}')
    return folder
