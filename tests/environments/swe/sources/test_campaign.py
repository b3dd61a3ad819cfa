"""Many bugs in parallel: the same file whatever the job count, and after any kill."""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest

from agentgym.environments.swe.schema import Source, SWETask, read_tasks
from agentgym.environments.swe.sources import campaign
from agentgym.environments.swe.sources.edits import Edit
from agentgym.environments.swe.sources.mutant import Examined, Rules
from agentgym.environments.swe.sources.probing import Baseline
from agentgym.environments.swe.sources.subject import Subject
from agentgym.errors import ConfigError, DataError

RULES = Rules({"kind": "inline", "folder": "tree"})


def subject(n: int = 30, seed: int = 0) -> Subject:
    found = tuple(Edit("m.py", i, i + 1, b"x", "constant", "f", (1, 1)) for i in range(n))
    base = Baseline(("t.py::test_a",), {}, {}, 0.1, ())
    fetched: Any = type("F", (), {"sha256": "0" * 64, "label": "p-1", "name": "p"})()
    return Subject(fetched, cast(Any, None), (), cast(Any, None), base, found, (), seed)


def task(index: int) -> SWETask:
    return SWETask(instance_id=f"p.{index}", problem_statement="Ünicode \u2028 line", FAIL_TO_PASS=["t.py::test_a"],
                   source=Source(kind="inline", folder="tree"))  # fmt: skip


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Two of three bugs are kept; each takes a moment, in disorder."""
    seen: list[int] = []

    def examine(_: Subject, edit: Edit, rules: Rules) -> Examined:
        index = edit.start
        seen.append(index)
        time.sleep(random.Random(index).random() / 200)
        return Examined("survived", "why") if index % 3 == 1 else Examined("kept", "", task(index))

    monkeypatch.setattr(campaign, "examine", examine)
    return seen


def names(path: Path) -> list[str]:
    return [found.instance_id for found in read_tasks(path)]


WANTED = [f"p.{i}" for i in range(30) if i % 3 != 1][:10]


@pytest.mark.parametrize("jobs", [1, 2, 7])
def test_the_job_count_changes_nothing(tmp_path: Path, calls: list[int], jobs: int) -> None:
    out = tmp_path / "tasks.jsonl"
    done = campaign.run(subject(), RULES, out, 10, jobs)
    assert names(out) == WANTED == [found.instance_id for found in done.tasks]
    assert done.counts == {"kept": 10, "survived": 5}
    assert len(calls) <= 15 + 4 * jobs


def test_all_bugs_tried(tmp_path: Path, calls: list[int]) -> None:
    done = campaign.run(subject(), RULES, tmp_path / "t.jsonl", 99, 3)
    assert len(done.tasks) == 20
    assert sorted(calls) == list(range(30))


def test_a_finished_run_is_not_repeated_and_can_be_extended(tmp_path: Path, calls: list[int]) -> None:
    out = tmp_path / "t.jsonl"
    campaign.run(subject(), RULES, out, 5, 1)
    before = len(calls)
    assert campaign.run(subject(), RULES, out, 5, 1).resumed == before
    assert len(calls) == before
    campaign.run(subject(), RULES, out, 10, 1)
    assert names(out) == WANTED
    assert len(calls) == len(set(calls))
    campaign.run(subject(), RULES, out, 3, 1)
    assert names(out) == WANTED[:3]


def test_killed_anywhere_it_goes_on_to_the_same_file(tmp_path: Path, calls: list[int]) -> None:
    out = tmp_path / "t.jsonl"
    campaign.run(subject(), RULES, out, 10, 3)
    whole, wanted = campaign.log_path(out).read_bytes(), out.read_bytes()
    draw = random.Random(0)
    for cut in [0, 1, len(whole) - 1, *(draw.randrange(len(whole)) for _ in range(12))]:
        campaign.log_path(out).write_bytes(whole[:cut])
        out.unlink(missing_ok=True)
        campaign.run(subject(), RULES, out, 10, 2)
        assert out.read_bytes() == wanted


def test_a_bug_of_ours_loses_no_verdict(tmp_path: Path, calls: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    good = campaign.examine
    started = threading.Event()

    def examine(made: Subject, edit: Edit, rules: Rules) -> Examined:
        if edit.start == 6:
            started.set()
            raise RuntimeError("broken")
        return good(made, edit, rules)

    monkeypatch.setattr(campaign, "examine", examine)
    with pytest.raises(RuntimeError, match="broken"):
        campaign.run(subject(), RULES, tmp_path / "t.jsonl", 10, 1)
    assert started.is_set()
    monkeypatch.setattr(campaign, "examine", good)
    campaign.run(subject(), RULES, tmp_path / "t.jsonl", 10, 1)
    assert names(tmp_path / "t.jsonl") == WANTED
    assert len(calls) == len(set(calls))


def test_what_is_not_ours_is_not_overwritten(tmp_path: Path, calls: list[int]) -> None:
    out = tmp_path / "t.jsonl"
    out.write_text("precious\n")
    with pytest.raises(ConfigError, match="no log beside it"):
        campaign.run(subject(), RULES, out, 1)
    campaign.log_path(out).write_text('{"log": "something else"}\n')
    with pytest.raises(ConfigError, match="is not a log"):
        campaign.run(subject(), RULES, out, 1)
    assert out.read_text() == "precious\n"
    campaign.run(subject(), RULES, out, 1, resume=False)
    assert names(out) == WANTED[:1]


@pytest.mark.parametrize(
    ("other", "rules", "said"),
    [
        (subject(seed=1), RULES, "seed"),
        (subject(29), RULES, "bugs"),
        (subject(), Rules(RULES.source, 0.2), "max_failing"),
        (subject(), Rules(RULES.source, hide=False), "hide"),
        (subject(), Rules(RULES.source, timeout=60.0), "timeout"),
    ],
)
def test_another_run_cannot_go_on_in_its_place(
    tmp_path: Path, calls: list[int], other: Subject, rules: Rules, said: str
) -> None:
    out = tmp_path / "t.jsonl"
    campaign.run(subject(), RULES, out, 2)
    with pytest.raises(ConfigError, match=said):
        campaign.run(other, rules, out, 2)
    assert names(out) == WANTED[:2]


@pytest.mark.parametrize(
    "line", ["nonsense", "{}", '{"bug": "x", "verdict": 1, "detail": ""}', '{"bug": 3, "task": 5}']
)
def test_a_damaged_log_is_named_with_its_line(tmp_path: Path, calls: list[int], line: str) -> None:
    out = tmp_path / "t.jsonl"
    campaign.run(subject(), RULES, out, 2)
    with campaign.log_path(out).open("a") as stream:
        stream.write(line + "\n")
    with pytest.raises(DataError, match=r"t.jsonl.log:\d+"):
        campaign.run(subject(), RULES, out, 2)


def test_tests_too_slow_for_the_timeout(tmp_path: Path, calls: list[int]) -> None:
    with pytest.raises(ConfigError, match="--timeout 1"):
        campaign.run(subject(), Rules(RULES.source, timeout=0.5), tmp_path / "t.jsonl", 2)
    assert not calls


def test_the_log_holds_every_verdict(tmp_path: Path, calls: list[int]) -> None:
    out = tmp_path / "t.jsonl"
    campaign.run(subject(), RULES, out, 10, 2)
    rows = [json.loads(line) for line in campaign.log_path(out).read_text().split("\n")[1:-1]]
    bugs = [row["bug"] for row in rows]
    assert set(range(15)) <= set(bugs) <= set(calls)
    assert len(bugs) == len(set(bugs)) >= len(calls) - 2  # what was under way at the end is dropped
    assert {row["verdict"] for row in rows} == {"kept", "survived"}
    assert all(row["kind"] == "constant" for row in rows)
