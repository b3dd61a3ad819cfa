"""``agentgym swe``: arguments, exit codes, messages. What the commands do is tested beside the sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentgym.cli import run
from agentgym.environments.swe.schema import SWETask, read_tasks, task_lines
from agentgym.environments.swe.sources import pair, validate
from agentgym.environments.swe.sources.validate import Proof

ROW: dict[str, Any] = {
    "instance_id": "p.1",
    "problem_statement": "x",
    "FAIL_TO_PASS": ["t.py::test_a"],
    "source": {"kind": "inline", "files": {"p.py": ""}},
}


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps(ROW) + "\n" + json.dumps({**ROW, "instance_id": "p.2"}) + "\n")
    return path


def proofs(monkeypatch: pytest.MonkeyPatch, *verdicts: str) -> None:
    def prove(task: SWETask, where: Path, grader: object) -> Proof:
        verdict = verdicts[int(task.instance_id[-1]) - 1]
        return Proof(task.instance_id, ["bad\x1b[31m"] * (verdict == "invalid"), [], "image" * (verdict == "unchecked"))

    monkeypatch.setattr(validate, "prove", prove)


@pytest.mark.parametrize(
    ("verdicts", "code"), [(("valid", "valid"), 0), (("valid", "invalid"), 1), (("unchecked", "valid"), 1)]
)
def test_validate(
    tasks: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    verdicts: tuple[str, str],
    code: int,
) -> None:
    proofs(monkeypatch, *verdicts)
    assert run(["swe", "validate", str(tasks), "--jobs", "1"]) == code
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines() if line[0] != " "] == list(verdicts)
    assert "\x1b" not in out
    assert run(["swe", "validate", str(tasks), "--json"]) == code
    data = json.loads(capsys.readouterr().out)
    assert [task["verdict"] for task in data["tasks"]] == list(verdicts)
    assert data["valid"] == verdicts.count("valid")


def test_validate_of_some(tasks: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    proofs(monkeypatch, "valid", "invalid")
    assert run(["swe", "validate", str(tasks), "--limit", "1"]) == 0
    assert "p.2" not in capsys.readouterr().out


def test_a_bad_file_is_named_with_its_line(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks.write_text(tasks.read_text() + '{"instance_id": "p.3", "sauce": 1}\n')
    assert run(["swe", "validate", str(tasks)]) == 1
    assert f"{tasks}:3: software task 'p.3'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sandbox", "bubblewarp"], "bubblewrap"),
        (["--sandbox", "unsafe-local"], "--unsafe-local"),
        (["--jobs", "0"], "0"),
        (["--max-failing", "2"], "2"),
    ],
)
def test_wrong_options(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert run(["swe", "mutate", "p==1", "--out", str(tmp_path / "o.jsonl"), *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "o.jsonl").exists()


def test_mutate_of_what_is_no_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["swe", "mutate", "cachetools", "--out", str(tmp_path / "o.jsonl")]) == 2
    assert "NAME==VERSION" in capsys.readouterr().err


def test_import(tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.jsonl"
    assert run(["swe", "import", str(tasks), "--out", str(out), "--split", "train"]) == 0
    assert [(task.instance_id, task.split) for task in read_tasks(out)] == [("p.1", "train"), ("p.2", "train")]
    assert "2 tasks" in capsys.readouterr().out
    assert run(["swe", "import", str(tasks), "--out", str(out)]) == 2
    assert "exists" in capsys.readouterr().err
    tasks.write_text(tasks.read_text() + "{\n")
    assert run(["swe", "import", str(tasks), "--out", str(out), "--force", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["tasks"], len(data["refused"])) == (2, 1)
    assert ":3: not JSON" in data["refused"][0]
    assert len(read_tasks(out)) == 2


def test_pairs_are_appended_once(
    tasks: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = SWETask.model_validate({**ROW, "instance_id": "p-1-to-2.abc"})
    seen: list[Any] = []

    def release_pair(*arguments: Any) -> SWETask:
        seen.append(arguments)
        return made

    monkeypatch.setattr(pair, "release_pair", release_pair)
    for _ in range(2):
        assert run(["swe", "pair", "p", "1", "2", "--out", str(tasks), "--with", "six"]) == 0
    assert seen[0] == ("p", "1", "2", ("six",), "auto")
    assert [task.instance_id for task in read_tasks(tasks)] == ["p.1", "p.2", "p-1-to-2.abc"]
    assert "already" in capsys.readouterr().out
    assert tasks.read_text() == "".join(task_lines(read_tasks(tasks)))
