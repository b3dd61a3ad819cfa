"""The make targets run every test file there is: what no target collects guards nothing."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: a test, in a file that pytest collects only where it is named
TEST = re.compile(r"^(    )?def test_", re.M)


def commands(makefile: str) -> list[list[Path]]:
    """The paths under tests/ that each pytest command of a Makefile names."""
    lines = makefile.replace("\\\n", " ").splitlines()
    return [
        [Path(word) for word in shlex.split(line) if word.startswith("tests/")]
        for line in lines
        if line.startswith("\t") and " -m pytest" in line
    ]


def swallowed(paths: list[Path]) -> list[Path]:
    """Files that pytest 9 does not collect: it drops an argument that lies in another, and of a folder's files it
    takes those called test_*.py."""
    return [path for path in paths if not path.name.startswith("test_") and set(path.parents) & set(paths)]


def unnamed(root: Path, named: list[list[Path]]) -> list[Path]:
    """Files with tests that neither their name nor a command has collected."""
    known = {path for paths in named for path in paths}
    files = (path.relative_to(root) for path in sorted(root.glob("tests/**/*.py")))
    return [
        path
        for path in files
        if not path.name.startswith("test_") and path not in known and TEST.search((root / path).read_text())
    ]


MAKEFILE = (ROOT / "Makefile").read_text()


def test_no_argument_of_pytest_is_swallowed_by_another() -> None:
    found = commands(MAKEFILE)
    assert len(found) > 8
    assert [swallowed(paths) for paths in found] == [[]] * len(found)
    assert all((ROOT / path).exists() for paths in found for path in paths if "*" not in path.name)


def test_every_file_with_tests_is_run_by_a_target() -> None:
    #: programs that the sandbox's graders are tried on; their "tests" are the material
    material = [Path("tests/sandbox/grading/hacks.py")]
    assert unnamed(ROOT, commands(MAKEFILE)) == material


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        ("pytest tests/a tests/a/engine_b.py", ["tests/a/engine_b.py"]),
        ("pytest tests/a \\\n\t\ttests/a/b/engine_c.py tests/d/test_e.py", ["tests/a/b/engine_c.py"]),
        ("pytest tests/a tests/a/test_b.py", []),
        ("pytest tests/a/engine_b.py tests/a/test_c.py", []),
    ],
)
def test_what_would_be_swallowed(line: str, lost: list[str]) -> None:
    (paths,) = commands(f"x:\n\tpython -m {line}\n")
    assert [str(path) for path in swallowed(paths)] == lost


def test_a_file_that_nobody_names_is_found(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    for name in ("test_a.py", "engine_b.py", "engine_c.py", "help.py"):
        (tmp_path / "tests" / name).write_text("def test_x():\n    pass\n" if name != "help.py" else "x = 1\n")
    assert unnamed(tmp_path, [[Path("tests/engine_b.py")]]) == [Path("tests/engine_c.py")]
