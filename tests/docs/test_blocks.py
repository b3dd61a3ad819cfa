"""Every code block of README, docs and CONTRIBUTING runs; every example runs; every link leads somewhere.

The blocks of a page run in order in one empty folder. A Python or YAML block whose first line is ``# NAME.py`` or
``# NAME.yaml`` is also written to that file. A block after ``<!-- test: skip REASON -->`` is not executed, but its
``agentgym`` commands must parse and its make targets must exist.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from agentgym.cli import cli

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"(?:<!-- test: skip (?P<reason>.*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    language: str
    text: str
    reason: str

    @property
    def file_name(self) -> str:
        first = self.text.partition("\n")[0]
        found = re.fullmatch(r"# ([\w-]+\.(?:py|yaml))", first)
        return found[1] if found else ""


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(m["language"], m["text"], m["reason"] or "") for m in BLOCK.finditer(text)]


def environment(folder: Path) -> dict[str, str]:
    """Variables for a block: ``agentgym`` and ``python`` are those of this run; no data but generated."""
    tools = folder / ".bin"
    tools.mkdir(exist_ok=True)
    for name, arguments in (("agentgym", "-m agentgym"), ("python", "")):
        script = tools / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    variables = {key: value for key, value in os.environ.items() if key != "AGENTGYM_DATA"}
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    return {**variables, "PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def execute(block: Block, folder: Path) -> None:
    if block.file_name:
        (folder / block.file_name).write_text(block.text)
    if block.language == "python":
        command = [sys.executable, "-c", block.text]
    elif block.language == "bash":
        command = ["bash", "-euo", "pipefail", "-c", block.text]
    else:
        return
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=280,
    )
    assert done.returncode == 0, f"{block.text}\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}"


def needs(page: Path) -> None:
    """Skip a page whose blocks need a sandbox where none works; AGENTGYM_REQUIRE_SANDBOX=1 (CI) runs it anyway."""
    from agentgym.sandbox import backends

    if page.name == "sandbox.md" and os.environ.get("AGENTGYM_REQUIRE_SANDBOX") != "1":
        failing = [backend.detail for backend in backends() if backend.name != "unsafe-local" and not backend.works]
        if len(failing) == 2:
            pytest.skip(" ".join(failing))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_run(page: Path, tmp_path: Path) -> None:
    needs(page)
    for block in blocks(page):
        assert block.language in ("python", "bash", "yaml", "mermaid", "text"), f"{page.name}: {block.language!r}"
        if not block.reason:
            execute(block, tmp_path)


def commands(block: Block) -> list[list[str]]:
    """The simple commands of a bash block, split into words, comments left out."""
    lines = [shlex.split(line, comments=True) for line in block.text.splitlines()]
    found: list[list[str]] = []
    for words in lines:
        current: list[str] = []
        for word in [*words, "&&"]:
            if word in ("&&", "|", ">", ";"):
                found.append(current)
                current = []
            else:
                current.append(word)
    return [words for words in found if words]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_skipped_commands_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for block in blocks(page):
        if not block.reason or block.language != "bash":
            continue
        assert len(block.reason) > 10, f"{page.name}: say why the block is skipped"
        for words in commands(block):
            if words[0] == "make":
                assert re.search(rf"^{words[1]}:", makefile, re.M), f"there is no make target {words[1]}"
            elif words[0] == "agentgym":
                parses(words[1:])


def parses(words: list[str]) -> None:
    """The command exists and takes these options. Nothing is executed."""
    command = cli.get_command(click.Context(cli), words[0])
    assert command is not None, f"there is no command {words[0]}"
    with command.make_context(words[0], list(words[1:])):
        pass


def test_training_lines_of_the_readme_resolve(tmp_path: Path) -> None:
    lines = [
        words
        for block in blocks(ROOT / "README.md")
        for words in (commands(block) if block.language == "bash" else [])
        if words[:2] == ["agentgym", "train"] and not words[2].startswith("runs/")
    ]
    assert lines
    for block in blocks(ROOT / "README.md"):
        if block.file_name:
            (tmp_path / block.file_name).write_text(block.text)
    for words in lines:
        execute(Block("bash", shlex.join([*dict.fromkeys([*words, "--dry-run"])]), ""), tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_placeholder_is_left(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"\b(?:TODO|FIXME|TBD|XXX|lorem ipsum)\b", text, re.I)


def test_the_readme_quotes_the_demo_once_it_was_measured() -> None:
    quoted = re.search(r"<!-- results: demo -->\n(.*?)<!-- end of results -->", (ROOT / "README.md").read_text(), re.S)
    assert quoted is not None
    assert bool(quoted[1].strip()) == any((ROOT / "benchmarks" / "results").glob("*demo*"))


EXAMPLES = {
    "custom_env.py": [],
    "eval_random.py": [],
    "train_tiny.py": ["run", "sft.steps=3", "sft.episodes=8", "rl.steps=1", "rl.groups=2", "rl.group_size=2",
                      "env.train.options.n=20", "env.eval.limit=2", "env.test.limit=2", "sft.noise=0.1"],
}  # fmt: skip


def test_every_example_is_listed() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *EXAMPLES[name]],
        cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


def test_the_example_environment_keeps_the_contract() -> None:
    command = [sys.executable, "-m", "agentgym", "check", "custom_env:Coin", "--strict"]
    done = subprocess.run(command, cwd=ROOT / "examples", capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr

