"""What runs the blocks notices what it should."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs.doc_blocks import Block, blocks, commands, execute


def page(folder: Path, text: str) -> Path:
    file = folder / "page.md"
    file.write_text(text)
    return file


def test_marks_are_read_and_unknown_ones_refused(tmp_path: Path) -> None:
    text = "<!-- test: may fail it hangs on the machine -->\n```bash\nfalse\n```\n\n```yaml\n# a.yaml\nx: 1\n```\n"
    first, second = blocks(page(tmp_path, text))
    assert (first.kind, first.detail, first.is_run) == ("may fail", "it hangs on the machine", True)
    assert (second.kind, second.file_name) == ("", "a.yaml")
    with pytest.raises(AssertionError, match="unknown mark 'skipp it'"):
        blocks(page(tmp_path, text.replace("may fail it hangs on the machine", "skipp it")))


def test_what_is_not_installed_is_not_run() -> None:
    assert Block("bash", "true", "needs", "json re").is_run
    assert not Block("bash", "true", "needs", "json no_such_module").is_run
    assert not Block("bash", "true", "skip", "a reason").is_run


@pytest.mark.parametrize(
    "block",
    [
        Block("bash", "true\nfalse\ntrue"),
        Block("bash", "false | cat"),
        Block("bash", "echo $unset_variable"),
        Block("bash", "echo 'Traceback (most recent call last):' >&2"),
        Block("bash", "exit 2", "may fail"),
        Block("python", "assert 1 == 2"),
        Block("bash", "echo nothing serves", "server"),
    ],
)
def test_a_block_that_fails_is_noticed(block: Block, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        execute(block, tmp_path)


def test_blocks_that_work(tmp_path: Path) -> None:
    execute(Block("bash", "exit 1", "may fail"), tmp_path)
    execute(Block("python", "# kept.py\nx = 1\n"), tmp_path)
    execute(Block("python", "import kept\nassert kept.x == 1\n"), tmp_path)
    execute(Block("bash", 'test "$HOME" = "$PWD"\ntest -z "${AGENTGYM_DATA:-}"'), tmp_path)


def test_overrides_go_to_trainings_but_not_to_resumed_ones(tmp_path: Path) -> None:
    block = Block("bash", "agentgym train a --resume\nagentgym train a\nagentgym eval a\n", "train", "x=1 y=2")
    shown = 'agentgym() { sed "s/^exec .*/echo \\"\\$@\\" >> said/" .bin/agentgym > fake; sh fake "$@"; }\n'
    execute(Block("bash", shown + block.text, block.kind, block.detail), tmp_path)
    assert (tmp_path / "said").read_text().splitlines() == ["train a --resume", "train a x=1 y=2", "eval a"]


def test_commands_are_taken_apart() -> None:
    block = Block("bash", "agentgym a 'b c' | grep x  # what\nmake y && \\\n  pip z\n")
    assert commands(block) == [["agentgym", "a", "b c"], ["grep", "x"], ["make", "y"], ["pip", "z"]]
