"""The README keeps up with the tree: environments, extras, and a status table that says what is not there yet."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from agentgym.registry import ADAPTERS, BUILT_IN

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS = ROOT / "benchmarks" / "results"


def section(title: str) -> str:
    return TEXT.split(f"## {title}\n")[1].split("\n## ")[0]


def first_cells(title: str) -> set[str]:
    """The names in backquotes in the first column of a section's table."""
    rows = re.findall(r"^\| (`.+?) \|", section(title), re.M)
    return {word for row in rows for word in re.findall(r"`([\w:-]+)`", row)}


def test_every_environment_is_listed() -> None:
    """Those of other libraries have a page of their own, docs/adapters.md; the README need not name all."""
    listed = {word.partition(":")[0] for word in first_cells("Environments")}
    assert set(BUILT_IN) - set(ADAPTERS) <= listed <= set(BUILT_IN)


def test_every_extra_is_listed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    assert extras - set(ADAPTERS) - {"dev"} <= first_cells("Install") <= extras


def test_it_quotes_the_demo_once_it_was_measured() -> None:
    quoted = re.search(r"<!-- results: demo -->\n(.*?)<!-- end of results -->", TEXT, re.S)
    assert quoted is not None
    assert bool(quoted[1].strip()) == any(RESULTS.glob("*demo*"))


def test_the_status_says_what_was_not_measured_yet() -> None:
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", section("Status"), re.M)
    state = {what: state for what, state, _ in rows}
    assert ("not yet" in state["what credit methods gain in learning"]) == (not (RESULTS / "study.json").exists())
    assert all(re.search(r"`.+`|\]\(", shown_by) for what, _, shown_by in rows[1:] if what != "---"), (
        "by which command?"
    )
    for script in re.findall(r"`(benchmarks/[\w/]+\.py)`", section("Status")):
        assert (ROOT / script).is_file(), script
