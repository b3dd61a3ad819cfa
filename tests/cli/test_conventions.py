"""What holds for all commands: completion, JSON listings, colours, exit codes."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from agentgym import cli
from agentgym.config.loader import recipe_names
from agentgym.registry import names

AGENTGYM = [sys.executable, "-m", "agentgym"]


def completed(words: str, number: int) -> list[str]:
    env = {**os.environ, "COMP_WORDS": words, "COMP_CWORD": str(number), "_AGENTGYM_COMPLETE": "bash_complete"}
    code = "from agentgym.cli import cli; cli(prog_name='agentgym')"
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    return [line.partition(",")[2] for line in out.stdout.splitlines()]


def test_commands_options_and_names_are_completed() -> None:
    assert set(completed("agentgym re", 1)) == {"report", "recipes"}
    assert "--model" in completed("agentgym eval --m", 2)
    assert completed("agentgym train quest/", 2) == [n for n in recipe_names() if n.startswith("quest/")]
    assert completed("agentgym play so", 2) == [n for n in names() if n.startswith("so")]
    assert "household-generated" in completed("agentgym eval house", 2)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["completion", shell]) == 0
    assert "_AGENTGYM_COMPLETE" in capsys.readouterr().out


def commands(group: click.Group, prefix: tuple[str, ...] = ()) -> dict[tuple[str, ...], click.Command]:
    found: dict[tuple[str, ...], click.Command] = {}
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            found |= commands(command, (*prefix, name))
        else:
            found[(*prefix, name)] = command
    return found


def test_what_lists_takes_json() -> None:
    listing = {path: c for path, c in commands(cli.cli).items() if (c.short_help or "").startswith(("List", "Check"))}
    assert {("envs",), ("recipes",), ("tasks",), ("boards",), ("doctor",), ("check",)} <= listing.keys()
    listing.pop(("leaderboard", "add"))  # it lists a result on a board: that makes an entry
    lacking = [" ".join(path) for path, c in listing.items() if not any("--json" in p.opts for p in c.params)]
    assert not lacking


@pytest.mark.parametrize(
    "line", [["envs"], ["recipes"], ["boards"], ["tasks", "quest", "valid", "--limit", "2"], ["credit", "list"]]
)
def test_listings_are_json(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*line, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def on_a_terminal(line: list[str], **env: str) -> str:
    """What a command writes to a pseudo-terminal."""
    main, side = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "TERM")}
    process = subprocess.Popen(
        [*AGENTGYM, *line], stdin=side, stdout=side, stderr=side, env={**environment, "TERM": "xterm-256color", **env}
    )
    os.close(side)
    out = b""
    while True:
        try:
            more = os.read(main, 65536)
        except OSError:  # Linux: the other side is closed
            break
        if not more:
            break
        out += more
    os.close(main)
    assert process.wait(timeout=60) == 0, out.decode()
    return out.decode()


COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3|4|9|10)[0-8](?:;\d+)*m")


def test_colours_are_for_terminals_that_want_them(tmp_path: Path) -> None:
    line = ["eval", "bandit", "--model", "random", "--limit", "2"]
    assert "\x1b[" in on_a_terminal(line)
    assert not COLOUR.search(on_a_terminal(line, NO_COLOR="1"))
    piped = subprocess.run([*AGENTGYM, *line], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert "\x1b" not in piped.stdout + piped.stderr


def test_exit_codes_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    assert re.findall(r"^\| (\d+) \|", page, re.M) == ["0", "1", "2", "130"]
    assert cli.run(["envs", "--json"]) == 0
    assert cli.run(["eval", "qest", "--model", "random"]) == 2
    assert cli.run(["view", "README.md"]) in (1, 2)


def test_ctrl_c_ends_with_130(tmp_path: Path) -> None:
    line = ["eval", "alfworld", "--model", "random", "--limit", "200", "--attempts", "50", "--out", str(tmp_path / "o")]
    process = subprocess.Popen(
        [*AGENTGYM, *line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not (tmp_path / "o").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130, out
    assert "Traceback" not in out
