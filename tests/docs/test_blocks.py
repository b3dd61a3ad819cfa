"""Every code block of README, docs and CONTRIBUTING runs; every example runs; every link leads somewhere.

How a block is run, and how it says that it cannot be: ``doc_blocks.py``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
import yaml
from docs.doc_blocks import PAGES, ROOT, Block, blocks, commands, environment, execute

from agentgym.cli import cli
from agentgym.config.recipe import Recipe

#: how many blocks of a page are not run: they need the network, hardware, hours, or an endpoint. Few, please.
SKIPPED = {
    "CONTRIBUTING.md": 1,
    "README.md": 2,
    "docs/alfworld.md": 1,
    "docs/data.md": 1,
    "docs/environments/search.md": 1,
    "docs/leaderboards.md": 1,
    "docs/sandbox.md": 1,
    "docs/scaling.md": 1,
    "docs/swe-tasks.md": 1,
    "docs/tutorial.md": 1,
    "docs/verl.md": 2,
}
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"])


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


pages = pytest.mark.parametrize("page", PAGES, ids=name)


def needs(page: Path) -> None:
    """Skip a page whose blocks need a sandbox where none works; AGENTGYM_REQUIRE_SANDBOX=1 (CI) runs it anyway."""
    from agentgym.sandbox import backends

    if page.name in ("sandbox.md", "swe.md") and os.environ.get("AGENTGYM_REQUIRE_SANDBOX") != "1":
        failing = [backend.detail for backend in backends() if backend.name != "unsafe-local" and not backend.works]
        if len(failing) == 2:
            pytest.skip(" ".join(failing))


@pytest.mark.timeout(1800)  # seconds on a quiet machine
@pages
def test_blocks_run(page: Path, tmp_path: Path) -> None:
    needs(page)
    for block in blocks(page):
        if block.is_run:
            execute(block, tmp_path)


@pages
def test_no_block_goes_unseen(page: Path) -> None:
    """Every fence is one of a block that is read, in a language that is run or checked; commands are not 'text'."""
    found = blocks(page)
    assert len(re.findall(r"^\s*(?:```|~~~)", page.read_text(encoding="utf-8"), re.M)) == 2 * len(found)
    for block in found:
        assert block.language in ("python", "bash", "yaml", "mermaid", "text"), block.language
        if block.language == "text":
            lines = re.findall(r"^(?:\$ )?(?:agentgym (?!core)|pip |python |make |apt-get ).*", block.text, re.M)
            assert not lines, "commands belong into a bash block"
        if block.language == "yaml" and page.name != "credit.md":  # test_credit_page.py builds those
            Recipe.model_validate({k: v for k, v in yaml.safe_load(block.text).items() if k != "extends"})


def test_few_blocks_are_skipped() -> None:
    skipped = {name(page): sum(block.kind == "skip" for block in blocks(page)) for page in PAGES}
    assert {page: count for page, count in skipped.items() if count} == SKIPPED


@pages
def test_commands_that_are_not_run_exist(page: Path) -> None:
    for block in blocks(page):
        if block.kind == "skip":
            assert len(block.detail) > 10, "say why the block is skipped"
        if block.language == "bash" and block.kind in ("skip", "needs"):
            for words in commands(block):
                known(words)


@pages
def test_commands_in_the_text_exist(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for code in re.findall(r"`((?:agentgym|make|pip install|python) [^`]+)`", text):
        for words in commands(Block("bash", code)):
            known(words)


def known(words: list[str]) -> None:
    """The command, make target, script or extra is there, and the options are. Nothing is executed."""
    if words[0] == "make":
        targets = [word for word in words[1:] if "=" not in word]
        for target in targets:
            assert re.search(rf"^{target}:", MAKEFILE, re.M), f"there is no make target {target}"
    elif words[0] == "agentgym" and not words[1].startswith("-") and words[1].islower():
        parses(words[1:])
    elif words[0] == "python" and words[1].endswith(".py"):
        assert (ROOT / words[1]).is_file(), words[1]
    elif "install" in words[:4]:
        for extra in re.findall(r"\[(.+?)\]", " ".join(words)):
            assert set(extra.split(",")) <= EXTRAS, f"there is no extra {extra}"


def parses(words: list[str]) -> None:
    """The command exists and takes these options; words in capitals, ``...`` and KEY=VALUE stand for anything."""
    command: click.Command | None = cli
    context = click.Context(cli)
    while isinstance(command, click.Group):
        if not words or words[0].startswith("-") or "|" in words[0]:
            return
        command, words = command.get_command(context, words[0]), words[1:]
        assert command is not None, f"there is no command {words[0]}"
    options = {text for option in command.params for text in (*option.opts, *option.secondary_opts)} | {"--help", "-h"}
    for word in words:
        if word.startswith("--"):
            assert word.partition("=")[0].rstrip(",") in options | {"--debug"}, f"{command.name} has no option {word}"


@pages
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pages
def test_no_placeholder_is_left(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"\b(?:TODO|FIXME|TBD|XXX|lorem ipsum)\b", text, re.I)


def test_the_page_of_the_command_line_lists_every_command() -> None:
    rows = re.findall(r"^\| (`.+?`) \| ", (ROOT / "docs" / "cli.md").read_text(encoding="utf-8"), re.M)
    listed = [word for row in rows for word in re.findall(r"`([a-z]+)`", row)]
    assert sorted(listed) == sorted(cli.list_commands(click.Context(cli)))


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
