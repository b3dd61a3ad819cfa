"""docs/papers.md: every method is on it, and every name and test it gives exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from agentgym.credit.registry import catalogue

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+?) \| (.+?) \| `([\w/.]+\.py):(\w+)` \| `(tests/[\w/.]+\.py)::(\w+)` \|$", TEXT, re.M)


def defined(path: Path) -> set[str]:
    """Top-level functions and classes of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}


def test_every_row_is_read() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and "held by" not in line]
    assert len(ROWS) == len(rows) > 40


@pytest.mark.parametrize(("file", "name"), sorted({(a, b) for *_, a, b, _, _ in ROWS} | {(a, b) for *_, a, b in ROWS}))
def test_code_and_tests_exist(file: str, name: str) -> None:
    path = ROOT / file
    assert path.is_file(), f"there is no {file}"
    assert name in defined(path), f"{file} defines no {name}"


def test_every_credit_method_is_listed() -> None:
    for title, kind in (("Credit modules", "module"), ("Estimators", "estimator")):
        part = TEXT.split(f"## {title}")[1].split("\n## ")[0]
        listed = set(re.findall(r"^\| `(\w+)`", part, re.M))
        assert {entry["name"] for entry in catalogue() if entry["kind"] == kind} == listed


def test_every_arxiv_number_of_the_project_is_listed() -> None:
    number = re.compile(r"arXiv[ :]+(\d{4}\.\d{4,5})")
    listed = set(number.findall(TEXT))
    assert len(listed) > 20
    for folder in ("agentgym", "credit", "environments", "trainers", "sandbox", "leaderboards"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            missing = set(number.findall(path.read_text(encoding="utf-8"))) - listed
            assert not missing, f"{path.relative_to(ROOT)} cites {sorted(missing)}, docs/papers.md does not"
    credit = (ROOT / "docs" / "credit.md").read_text(encoding="utf-8")
    cited = set(number.findall(credit)) - {"2510.01132"}  # a recipe whose figures are quoted; no method of ours
    assert cited <= listed
