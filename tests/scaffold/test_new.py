"""``agentgym new``: what it writes works, is found by its entry point, and nothing is overwritten."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym.cli import run
from agentgym.errors import AgentGymError, ConfigError
from agentgym.scaffold import create

ROOT = Path(__file__).parent.parent.parent


def _agentgym(folder: Path, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), path]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "agentgym", *arguments]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=200)


def _installed(folder: Path, site: Path) -> str:
    """What ``pip install -e`` leaves behind: a path and the entry points of the package's own pyproject.toml."""
    import tomllib

    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = site / f"{project['name'].replace('-', '_')}-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
    ((group, points),) = project["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {target}" for name, target in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return os.pathsep.join([str(site), str(folder)])


def test_an_environment_works_as_it_is_written(tmp_path: Path) -> None:
    made = create("env", "lamp-walk", tmp_path)
    assert (made.name, made.path) == ("lamp-walk", "lamp_walk.env:LampWalk")
    assert len((made.folder / "lamp_walk" / "env.py").read_text().splitlines()) <= 80
    checked = _agentgym(made.folder, "check", made.path, "--strict", "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert json.loads(checked.stdout)["findings"] == []
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=made.folder, capture_output=True,
        text=True, timeout=200, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert tested.returncode == 0, tested.stdout
    assert "2 passed" in tested.stdout


def test_an_installed_environment_is_known_by_its_name(tmp_path: Path) -> None:
    made = create("env", "lamp-walk", tmp_path)
    path = _installed(made.folder, tmp_path / "site")
    evaluated = _agentgym(tmp_path, "eval", "lamp-walk", "--model", "expert", "--limit", "8", "--json", path=path)
    assert evaluated.returncode == 0, evaluated.stderr
    assert json.loads(evaluated.stdout)["success"] == 1.0
    planned = _agentgym(made.folder, "train", "recipe.yaml", "--dry-run", path=path)
    assert planned.returncode == 0, planned.stderr
    misspelt = _agentgym(tmp_path, "eval", "lamp-walc", "--model", "expert", path=path)
    assert "Did you mean 'lamp-walk'" in misspelt.stderr


def test_a_credit_module_works_and_is_known_by_its_name(tmp_path: Path) -> None:
    made = create("credit", "novelty", tmp_path)
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=made.folder, capture_output=True,
        text=True, timeout=200, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert "1 passed" in tested.stdout, tested.stdout
    path = _installed(made.folder, tmp_path / "site")
    listed = _agentgym(tmp_path, "credit", "list", "--json", path=path)
    (entry,) = [entry for entry in json.loads(listed.stdout) if entry["name"] == "novelty"]
    assert entry["kind"] == "module"
    assert entry["options"] == {"bonus": 0.05, "cap": 0.25, "weight": 1.0}
    planned = _agentgym(tmp_path, "train", "quest/k2", "credit=[outcome, novelty]", "--dry-run", path=path)
    assert planned.returncode == 0, planned.stderr


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    create("env", "mine", tmp_path)
    (tmp_path / "mine" / "mine" / "env.py").write_text("precious")
    with pytest.raises(AgentGymError, match="exists; nothing was written"):
        create("env", "mine", tmp_path)
    assert (tmp_path / "mine" / "mine" / "env.py").read_text() == "precious"


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("env", "My Env", "lower-case letters"), ("env", "../up", "lower-case letters"), ("env", "", "lower-case"),
        ("env", "a--b", "lower-case"), ("env", "1st", "lower-case"), ("env", "x" * 41, "at most 40"),
        ("env", "class", "try 'my-class'"), ("env", "match", "try 'my-match'"), ("env", "json", "of its own"),
        ("env", "torch", "would hide"), ("env", "quest", "an environment 'quest' already"),
    ],
)  # fmt: skip
def test_names_are_validated(kind: str, name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        create(kind, name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["new", "env", "coin-rooms"]) == 0
    assert "Next: cd coin-rooms && agentgym check coin_rooms.env:CoinRooms" in capsys.readouterr().out
    assert run(["new", "env", "coin-rooms"]) == 1
    assert "nothing was written" in capsys.readouterr().err
    assert run(["new", "credit", "grpo"]) == 2
    assert "a credit part 'grpo' already" in capsys.readouterr().err
    assert run(["new", "credit", "hint-cost"]) == 0
    assert "agentgym train quest/k2 'credit=[outcome, hint_cost.credit:HintCost]'" in capsys.readouterr().out
