"""Boards and leaderboards on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from board_help import make_board

from agentgym.cli import run


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return make_board(tmp_path)


def test_measure_add_list_compare_verify(board: str, capsys: Any) -> None:
    for model in ("expert", "random"):
        assert run(["eval", board, "--model", model]) == 0
        assert run(["leaderboard", "add", f"runs/eval/gates/{model}", "--board", board]) == 0
    out = capsys.readouterr()
    assert "100.0%" in out.out
    assert "36 of 36 episodes played again" in out.out
    assert "36 of 36 episodes, 36 solved, 0 errors" in out.err
    assert run(["eval", board, "--model", "expert", "--json"]) == 0  # goes on: nothing is left to play
    out = capsys.readouterr()
    assert json.loads(out.out)["numbers"]["success"]["value"] == 1.0
    assert "36 of 36 episodes are there already" in out.err
    assert run(["leaderboard", "list", "--board", board]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == ["gates", "model", "expert", "random"]
    assert "pass@3" in rows[1]
    assert run(["leaderboard", "compare", "gates/random", "gates/expert", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 < found["low"] < found["difference"] < found["high"]
    assert run(["leaderboard", "verify", "--board", board]) == 0
    assert capsys.readouterr().out.count("holds; 36 episodes scored, 36 played again") == 2
    path = Path("leaderboard/gates/random.json")
    path.write_text(path.read_text().replace('"errors": 0', '"errors": 1'))
    assert run(["leaderboard", "verify", "--board", board]) == 1
    assert "errors is 0, the entry says 1" in capsys.readouterr().out


def test_a_board_fixes_its_settings(board: str, capsys: Any) -> None:
    assert run(["eval", board, "--model", "random", "--limit", "3", "--temperature", "1"]) == 2
    assert "fixes --limit, --temperature" in capsys.readouterr().err
    assert run(["eval", board, "--model", "random", "--set", "prompt.layout=window"]) == 2
    assert "lets an entry choose prompt.system, format" in capsys.readouterr().err
    assert run(["eval", board, "--model", "expert", "--set", "format.action_tag=do", "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)
    assert entry["settings"]["format"]["action_tag"] == "do"
    assert entry["numbers"]["success"]["value"] == 1.0
    assert run(["eval", board, "--model", "expert", "--set", "format.action_tg=do"]) == 2
    assert run(["eval", board, "--model", "random", "--max-cost", "1"]) == 2
    assert "needs the prices" in capsys.readouterr().err


def test_environments_are_measured_as_before(board: str, capsys: Any) -> None:
    assert run(["eval", "countdown", "--model", "expert", "--limit", "2", "--json"]) == 0
    out = capsys.readouterr()
    assert json.loads(out.out)["tasks"] == 2
    assert "measured as an environment" in out.err
    assert run(["eval", "board_help:Gates", "--model", "expert", "--max-tokens", "5"]) == 2
    assert "--max-token" in capsys.readouterr().err
    assert not Path("runs").exists()


def test_unknown_names_get_the_nearest_of_both(board: str, capsys: Any) -> None:
    for typed, meant in (("household-genrated", "household-generated"), ("keydor", "keydoor")):
        assert run(["eval", typed, "--model", "random"]) == 2
        assert f"unknown board or environment {typed!r}. Did you mean {meant!r}" in capsys.readouterr().err
    assert run(["leaderboard", "list", "sokobn", "--entries", "."]) != 0
    assert run(["boards", "sokobn"]) == 2
    assert "Did you mean 'sokoban'" in capsys.readouterr().err


def test_boards_are_listed_and_printed(capsys: Any) -> None:
    assert run(["boards", "--json"]) == 0
    found = {board["name"]: board for board in json.loads(capsys.readouterr().out)}
    assert found["credit-bench"]["kind"] == "credit"
    assert run(["boards", "sokoban"]) == 0
    assert "environment: sokoban" in capsys.readouterr().out
    assert run(["eval", "credit-bench", "--model", "random"]) == 2
    assert "ranks credit methods" in capsys.readouterr().err


def test_the_credit_board_is_made_from_the_bench(board: str, capsys: Any, tmp_path: Path) -> None:
    results = Path(__file__).parents[2] / "benchmarks" / "results" / "credit_bench.json"
    records = json.loads(results.read_text())["records"]
    assert run(["leaderboard", "credit", str(results)]) == 0
    entries = [json.loads(path.read_text()) for path in Path("leaderboard/credit-bench").glob("*.json")]
    assert {entry["model"]["name"] for entry in entries} == {record["method"] for record in records}
    (truth,) = (entry for entry in entries if entry["model"]["name"] == "truth")
    mine = [record for record in records if record["method"] == "truth"]
    assert truth["numbers"]["spearman"]["value"] == sum(r["spearman"]["mean"] for r in mine) / len(mine)
    assert truth["kinds"]["quest"]["step"]["low"] == next(r for r in mine if r["env"] == "quest")["batch_cosine"]["low"]
    assert run(["leaderboard", "list", "credit-bench"]) == 0
    assert capsys.readouterr().out.splitlines()[3].startswith("truth")
    (tmp_path / "x.json").write_text("{}")
    assert run(["leaderboard", "credit", str(tmp_path / "x.json")]) == 1
