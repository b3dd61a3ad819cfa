"""Boards and panels: the shipped ones are whole, a board of one's own can be frozen, and what was changed is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from board_help import Gates, make_board

from agentgym.errors import AgentGymError, ConfigError, DataError, UnknownNameError
from agentgym.leaderboards.board import Board
from agentgym.leaderboards.catalogue import PANELS, board_names, board_path, load_board, load_panel, load_tasks
from agentgym.leaderboards.freeze import freeze
from agentgym.leaderboards.panel import check_start, make_panel, read_panel
from agentgym.registry import BUILT_IN
from agentgym.rollouts import record

SIZES = {
    "alfworld/valid_seen": 140, "alfworld/valid_unseen": 134, "household-generated": 200, "webshop/test500": 500,
    "webshop-mini": 100, "search/hotpotqa300": 300, "search/fictional": 256, "sokoban": 100, "frozenlake": 100,
    "minesweeper": 100, "countdown": 200, "textworld": 50,
}  # fmt: skip


def test_the_boards_that_must_be_there_are_there() -> None:
    assert set(SIZES) | {"credit-bench"} <= set(board_names())


@pytest.mark.parametrize("name", [name for name in board_names() if name != "credit-bench"])
def test_a_shipped_board_is_whole(name: str) -> None:
    board = load_board(name)
    panel = load_panel(board)
    assert (board.name, board.environment in BUILT_IN) == (name, True)
    assert len(panel.rows) == len({row.id for row in panel.rows}) == SIZES.get(name, len(panel.rows))
    assert board.panel is not None
    assert (PANELS / board.panel.file).is_file()
    text = (PANELS / board.panel.file).read_text()
    assert read_panel(PANELS / board.panel.file).to_json() == text  # written by freeze, not by hand
    assert board.description
    assert board.choices


def test_hashes_are_frozen() -> None:
    """A change here makes every published entry of the board stale: it must be meant."""
    assert {name: load_board(name).hash for name in ("household-generated", "sokoban", "alfworld/valid_seen")} == {
        "household-generated": "fc3519a0786db2d4",
        "sokoban": "3fd9120ce9621d0c",
        "alfworld/valid_seen": "3deae1fe085080a9",
    }


def test_the_hash_covers_what_decides_a_number_and_nothing_else(tmp_path: Path) -> None:
    path = make_board(tmp_path)
    board = load_board(path)
    data = board.model_dump()

    def changed(**values: object) -> str:
        return Board.model_validate({**data, **values}).hash

    same = {"title": "x", "description": "y", "name": "z", "metrics": ["turns"], "bounds": {"expert": 0.5}}
    assert all(changed(**{key: value}) == board.hash for key, value in same.items())
    slow = {**data["limits"], "step_timeout": 1.0, "reset_timeout": 2.0, "policy_timeout": 3.0}
    assert changed(limits=slow) == board.hash
    other = {
        "environment": "x", "env_options": {"a": 1}, "split": "train", "task_options": {"n": 2}, "attempts": 4,
        "prompt": {"show_admissible": True}, "format": {"require_think": True}, "choices": [],
        "limits": {**data["limits"], "max_turns": 5}, "sampling": {"temperature": 0.7},
        "panel": {"file": "gates.panel.json", "hash": "0" * 16},
    }  # fmt: skip
    hashes = [changed(**{key: value}) for key, value in other.items()]
    assert len({*hashes, board.hash}) == len(other) + 1


def test_a_frozen_board_has_the_tasks_in_order_and_keeps_its_comments(tmp_path: Path) -> None:
    path = Path(make_board(tmp_path, "# a comment\ntask_options: {n: 5}"))
    before = path.read_text()
    board = load_board(str(path))
    panel = load_panel(board, str(path))
    assert [row.name for row in panel.rows] == [f"gate {i}" for i in range(5)]
    assert [task.id for task in load_tasks(board, panel)] == [row.id for row in panel.rows]
    freeze(path)
    assert path.read_text() == before
    assert "# a comment" in before


def test_freeze_refuses_what_it_could_not_write_back(tmp_path: Path) -> None:
    path = tmp_path / "b.yaml"
    path.write_text("environment: board_help:Gates\nsplit: test\npanel:\n  file: x.json\n")
    with pytest.raises(ConfigError, match="on one line"):
        freeze(path)
    path.write_text("environment: board_help:Gates\n")
    with pytest.raises(ConfigError, match="environment and split"):
        freeze(path)


def test_a_changed_panel_is_found(tmp_path: Path) -> None:
    path = make_board(tmp_path)
    board = load_board(path)
    file = tmp_path / "gates.panel.json"
    text = file.read_text()
    file.write_text(text.replace('"gate 3"', '"gate 33"'))
    with pytest.raises(DataError, match="it was changed"):
        load_panel(board, path)
    data = json.loads(text)
    data["tasks"].pop()
    file.write_text(json.dumps(data))
    with pytest.raises(DataError, match="it was changed"):
        load_panel(board, path)
    env = Gates()
    file.write_text(make_panel(env, env.tasks(n=3), "test").to_json())
    with pytest.raises(DataError, match="the board was frozen with"):
        load_panel(board, path)
    file.unlink()
    with pytest.raises(DataError, match="there is no panel at"):
        load_panel(board, path)
    for broken in ("{", "[]", '{"tasks": [[1]]}'):
        file.write_text(broken)
        with pytest.raises(DataError, match="panel"):
            load_panel(board, path)


def test_data_of_another_version_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_board(tmp_path)
    board = load_board(path)
    panel = load_panel(board, path)
    with pytest.raises(DataError, match=r"2 of the panel's 12 tasks .* the first is 'gate 10'"):
        panel.choose(Gates().tasks(n=10), "here")
    moved = Gates(word="door")  # same ids cannot be: the name is part of them
    with pytest.raises(DataError, match="12 of the panel's 12"):
        panel.choose(moved.tasks(), "here")
    task = Gates().tasks()[0]
    episode = record(Gates(), task, ["look"])
    check_start(episode, panel.starts(), "here")
    other = record(moved, task, ["look"])
    with pytest.raises(DataError, match="'gate 0' does not begin as the panel says"):
        check_start(other, panel.starts(), "here")


def test_missing_data_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTGYM_DATA", raising=False)
    for name, words in (
        ("alfworld/valid_seen", "alfworld-download"),
        ("webshop/test500", "docs/environments/webshop.md"),
        ("search/hotpotqa300", "search/hotpotqa_distractor_300"),
    ):
        board = load_board(name)
        with pytest.raises(DataError, match=words) as found:
            load_tasks(board, load_panel(board))
        assert "AGENTGYM_DATA is not set" in str(found.value)
        assert name in str(found.value)


def test_wrong_boards_are_refused_with_line_and_nearest_key(tmp_path: Path) -> None:
    path = Path(make_board(tmp_path))
    good = path.read_text()
    cases = {
        "attempts: 3": ("atempts: 3", r"gates.yaml:4: unknown key 'atempts'. Did you mean 'attempts'\?"),
        "max_turns: 4": ("max_turn: 4", r"gates.yaml:5: unknown key 'limits.max_turn'. Did you mean 'max_turns'\?"),
        "attempts: 3 ": ("attempts: 0", r"gates.yaml:4: attempts: .*greater than or equal to 1"),
        "max_turns: 4, ": ("", "fixes limits.max_turns"),
        "turns, tokens": ("turms, tokens", "unknown metric 'turms'"),
    }
    for old, (new, message) in cases.items():
        path.write_text(good.replace(old.strip() if old.endswith("3 ") else old, new, 1))
        with pytest.raises(ConfigError, match=message):
            load_board(str(path))
    path.write_text("- 1\n")
    with pytest.raises(ConfigError, match="expected keys and values"):
        load_board(str(path))


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'alfworld/valid_seen'"):
        board_path("alfworld/valid-sen")
    with pytest.raises(ConfigError, match=r"there is no board file mine\.yaml"):
        board_path("mine.yaml")
    with pytest.raises(AgentGymError):
        load_board("nonsense")
