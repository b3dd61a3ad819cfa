"""What start-up imports, how errors end, and what is suggested."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym.cli import COMMANDS, run

#: packages that cost more than the whole start-up may
HEAVY = {"torch", "numpy", "pydantic", "transformers", "yaml", "rich", "pyarrow", "openai", "scipy", "jinja2"}


def _cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "agentgym", *arguments], capture_output=True, text=True, timeout=200)


def _imported(*arguments: str) -> set[str]:
    command = [sys.executable, "-X", "importtime", "-m", "agentgym", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200)
    return set(re.findall(r"\|\s+([\w.]+)$", done.stderr, re.MULTILINE))


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_start_up_imports_little(arguments: list[str]) -> None:
    modules = _imported(*(arguments or ["-h"]))
    assert not {name.partition(".")[0] for name in modules} & HEAVY
    own = {name for name in modules if name.startswith("agentgym")}
    assert own <= {"agentgym", "agentgym.cli", "agentgym.errors", "agentgym.__main__"}
    assert len(modules) < 250  # 150 ms on a slow machine


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_commands_help_imports_neither_torch_nor_pydantic(command: str) -> None:
    modules = _imported(command, "--help")
    assert not {name.partition(".")[0] for name in modules} & (HEAVY - {"numpy"})


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_table_and_command_agree(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: agentgym {command}")
    assert run(["--help"]) == 0
    assert COMMANDS[command][2] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["trian"], 2, "Did you mean 'train'"),
        (["zzzzz"], 2, "no command 'zzzzz'"),
        (["envs", "--jso"], 2, "--json"),
        (["train"], 2, "RECIPE"),
        (["train", "alfworld/tinny", "--dry-run"], 2, "Did you mean 'alfworld/tiny'"),
        (["train", "alfworld/tiny", "rl.stepz=3", "--dry-run"], 2, "Did you mean 'rl.steps'"),
        (["train", "alfworld/tiny", "env.name=alfwrld", "--dry-run"], 2, "Did you mean 'alfworld'"),
        (["train", "alfworld/tiny", "env.train.split=generate", "--dry-run"], 2, "Did you mean 'generated'"),
        (["train", "alfworld/tiny", "env.options.expret=x", "--dry-run"], 2, "Did you mean 'expert'"),
        (["tasks", "alfworld", "generatd"], 2, "Did you mean 'generated'"),
        (["tasks", "alfworld", "generated", "--task-option", "presett=tiny"], 2, "preset"),
        (["tasks", "alfworld", "generated", "--task-option", "n"], 2, "expected key=value"),
        (["play", "nowhere"], 2, "unknown environment 'nowhere'"),
        (["view", "no/such/path"], 2, "no/such/path"),
        (["report", "no/such/run"], 2, "not a run folder"),
        (["recipes", "alfworld/nope"], 2, "no recipe 'alfworld/nope'"),
    ],
)
def test_mistakes_get_one_clear_message(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert "Traceback" not in err


def test_missing_data_is_a_failure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("AGENTGYM_DATA", raising=False)
    assert run(["tasks", "alfworld", "valid_seen"]) == 1
    assert "AGENTGYM_DATA" in capsys.readouterr().err


def test_debug_shows_the_traceback_wherever_it_stands() -> None:
    for arguments in (["--debug", "recipes", "nope"], ["recipes", "nope", "--debug"]):
        done = subprocess.run(
            [sys.executable, "-m", "agentgym", *arguments], capture_output=True, text=True, timeout=60
        )
        assert "Traceback" in done.stderr
        assert "ConfigError" in done.stderr


def test_interrupt_is_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("agentgym.registry.names", stop)
    assert run(["envs"]) == 130
    assert capsys.readouterr().err.strip() == "agentgym: stopped"


def test_a_closed_pipe_is_quiet() -> None:
    command = f"{sys.executable} -m agentgym recipes --schema | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=200)
    assert done.stderr == ""


def test_no_escape_codes_in_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in (["--help"], ["recipes"], ["envs"]):
        done = subprocess.run(
            [sys.executable, "-m", "agentgym", *arguments], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0
        assert "\x1b" not in done.stdout


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr("agentgym.registry.names", broken)
    with pytest.raises(RuntimeError, match="a bug of ours"):
        run(["envs"])


def test_unreadable_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.yaml").mkdir()
    assert run(["train", str(tmp_path / "r.yaml")]) == 2
    assert "is a folder" in capsys.readouterr().err
