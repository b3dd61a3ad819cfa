"""``agentgym view`` as a page: what is written, whose credit it shows, what is refused."""

from __future__ import annotations

import os
import re
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from viewer_episodes import write_store

from agentgym.cli import _viewer, run
from agentgym.web import unpack


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return write_store(tmp_path / "doors.agym")


def data_of(path: Path) -> Any:
    found = re.search(r'id="data">([^<]*)<', path.read_text())
    assert found is not None
    return unpack(found[1])


def test_a_page_without_credit(kept: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out.html"
    assert run(["view", str(kept), "--html", str(out)]) == 0
    assert "12 episodes" in capsys.readouterr().out
    assert data_of(out)["credit"] is None


@pytest.mark.parametrize("option", ["--module", "--credit"])
def test_credit_as_in_explain(kept: Path, tmp_path: Path, capsys: Any, option: str) -> None:
    import json

    out = tmp_path / "out.html"
    assert run(["view", str(kept), "--html", str(out), "--estimator", "gigpo", option, "invalid_penalty"]) == 0
    capsys.readouterr()
    assert run(["credit", "explain", str(kept), "--estimator", "gigpo", "--module", "invalid_penalty", "--json",
                "--limit", "99"]) == 0  # fmt: skip
    explained = json.loads(capsys.readouterr().out)["episodes"]
    data = data_of(out)
    assert data["credit"]["label"] == "gigpo with invalid_penalty"
    shown = {(data["groups"][g]["id"], e["index"]): e["v"] for g in range(3)
             for e in (data["episodes"][n] for n in data["groups"][g]["episodes"])}  # fmt: skip
    assert len(explained) == 12
    for one in explained:
        values = shown[one["task_id"], one["episode"]]
        if one["termination"] == "env_error":
            assert values is None
        else:
            assert values == pytest.approx([turn["advantage"] for turn in one["turns"]], rel=1e-5)


def test_a_run_folder_with_several_stores_and_its_recipe(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "run/episodes").mkdir(parents=True)
    write_store(tmp_path / "run/episodes/sft-test.agym")
    write_store(tmp_path / "run/episodes/trained-test.agym")
    assert run(["recipes", "alfworld/tiny"]) == 0
    (tmp_path / "run/recipe.yaml").write_text(capsys.readouterr().out)
    out = tmp_path / "out.html"
    assert run(["view", str(tmp_path / "run"), "--html", str(out)]) == 0
    data = data_of(out)
    assert data["sources"] == ["sft-test", "trained-test"]
    assert data["credit"]["label"] == "as the run's recipe"
    assert len(data["episodes"]) == 24


def test_the_limit_is_told(kept: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out.html"
    assert run(["view", str(kept), "--html", str(out), "--limit", "5"]) == 0
    told = capsys.readouterr()
    assert "7 more episodes are not on this page" in told.err
    assert "--serve" in told.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--html", "x.html", "--episode", "1"], "go with neither"),
        (["--html", "x.html", "--json"], "go with neither"),
        (["--html", "x.html", "--serve"], "go with neither"),
        (["--estimator", "grpo"], "add --html FILE"),
        (["--html", "nowhere/x.html"], "there is no folder"),
        (["--html", "x.html", "--estimator", "grpoo"], "grpo"),
        (["--html", "x.html", "--module", "igpo"], "telescoping"),
    ],
)
def test_wrong_use(
    kept: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code = run(["view", str(kept), *options])
    told = capsys.readouterr()
    assert said in told.err
    assert code in (1, 2)
    assert "Traceback" not in told.err


def test_serving_ends_with_ctrl_c(kept: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def look(url: str) -> bool:
        """A user who reads the page and then stops the command."""
        opened.append(url)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        return True

    monkeypatch.setattr(_viewer.webbrowser, "open", look)
    assert run(["view", str(kept), "--serve", "--open"]) == 0
    assert opened[0].startswith("http://127.0.0.1:")
    assert opened[0] in capsys.readouterr().out
