"""A report in Chromium: complete, readable in the dark and on a phone, and deaf to what its texts attack with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from browsers import CONTRAST, PROBLEMS, Opener, overflow
from viewer_episodes import ATTACK, NAME, write_store

from agentgym.report import write_report


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("run")
    (run / "recipe.yaml").write_text(f"name: {json.dumps(NAME)}\n")
    lines = [
        {"phase": "rl", "step": i, "train/outcome": i / 4, f"credit/{NAME}/mean": 0.1, "credit/outcome/mean": i / 5,
         "gap/logprob_max": 1e-5, "credit/dead_groups": 0.5, "loss/entropy": 1.0, "train/turns": 9.0}
        for i in range(4)
    ]  # fmt: skip
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = {"success": 0.5, "tasks": 20, "panel": NAME, "kinds": {NAME: {"success": 0.5, "tasks": 3}}}
    (run / "evaluations.json").write_text(json.dumps({f"sft/{NAME}": result, f"trained/{NAME}": result}))
    (run / "facts.json").write_text(json.dumps({ATTACK: ATTACK}))
    (run / "episodes").mkdir()
    write_store(run / "episodes" / "trained-test.agym")
    return write_report(run)


def test_it_opens_and_nothing_in_it_runs(open_page: Opener, report: Path) -> None:
    page = open_page(report).page
    shown = page.inner_text("body")
    for title in ("Gap between sampler and trainer", "Dead groups", "Entropy", "Reward components", "Turns"):
        assert title in shown
    assert r"\x1b[2J" in shown
    assert page.evaluate("document.scripts.length") == 0
    assert page.evaluate(PROBLEMS) == []
    assert page.locator("figure svg").count() >= 6


@pytest.mark.parametrize("dark", [False, True])
def test_phone_and_dark(open_page: Opener, report: Path, dark: bool) -> None:
    page = open_page(report, phone=True, dark=dark).page
    assert overflow(page) <= 0
    for selector in ("td", "th", ".note", "figcaption span", ".empty", "pre", ".problems li"):
        assert page.evaluate(CONTRAST, selector) >= 4.5, selector
    line = page.evaluate("getComputedStyle(document.querySelector('figure svg text')).fill")
    assert line != ("rgb(0, 0, 0)" if dark else "rgb(255, 255, 255)")
