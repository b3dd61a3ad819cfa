"""Rows of public sets become tasks; those that cannot are refused with file, row and field, and never lost silently."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from agentgym.environments.swe.schema import SWETask, read_tasks, task_lines
from agentgym.environments.swe.sources import images, r2e, rows
from agentgym.errors import ConfigError, DataError, UnknownNameError
from agentgym.sandbox.grading.patches import apply_patch

_spec = importlib.util.spec_from_file_location("public_rows", Path(__file__).with_name("public_rows.py"))
assert _spec is not None
assert _spec.loader is not None
public = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(public)

BROKEN = {"lib/core.py": b"def double(x):\n    return x + 2\n"}
MENDED = {"lib/core.py": b"def double(x):\n    return x * 2\n"}


def write(path: Path, found: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in found))
    return path


def one(tmp_path: Path, row: dict[str, Any], form: str = "auto") -> SWETask:
    loaded = rows.load(write(tmp_path / "rows.jsonl", [row]), form)
    assert loaded.refused == []
    return loaded.tasks[0]


def refused(tmp_path: Path, row: Any, form: str = "auto") -> str:
    loaded = rows.load(write(tmp_path / "rows.jsonl", [row]), form)
    assert loaded.tasks == []
    assert len(loaded.refused) == 1
    return loaded.refused[0]


def test_swe_bench(tmp_path: Path) -> None:
    task = one(tmp_path, public.swe_bench())
    assert task.env.image == "swebench/sweb.eval.x86_64.acme-corp_1776_lib-123:latest"
    assert (task.FAIL_TO_PASS, task.PASS_TO_PASS) == (public.F2P, public.P2P)
    assert (task.source.kind, task.source.version) == ("image", "a" * 40)
    assert task.test_files == ["tests/test_core.py"]
    assert (task.difficulty, task.environment_setup_commit) == ("<15 min fix", "b" * 40)
    assert task.env.test_cmd.endswith("tests/test_core.py")
    assert apply_patch(BROKEN, task.patch) == MENDED


def test_swe_gym(tmp_path: Path) -> None:
    task = one(tmp_path, public.swe_gym())
    assert task.env.image == "xingyaoww/sweb.eval.x86_64.acme_s_lib-7:latest"
    assert task.FAIL_TO_PASS == public.F2P


def test_swe_smith_is_turned_round(tmp_path: Path) -> None:
    task = one(tmp_path, public.swe_smith())
    assert apply_patch(BROKEN, task.patch) == MENDED
    assert apply_patch(MENDED, task.source.patch) == BROKEN
    assert task.env.image == "swebench/swesmith.x86_64.acme_1776_lib.0a1b2c3d"
    assert task.test_files == ["tests/test_core.py"]


def test_r2e_gym(tmp_path: Path) -> None:
    task = one(tmp_path, public.r2e_gym())
    assert task.env.image == "namanjain12/lib_final:" + "d" * 40
    assert task.expected == {"TestCore.test_double": "PASSED", "test_zero": "PASSED", "test_known": "FAILED"}
    assert (task.FAIL_TO_PASS, task.PASS_TO_PASS) == (["TestCore.test_double"], ["test_zero"])
    assert task.problem_statement == "double(3) gives 5"
    assert (task.base_commit, task.fix_commit) == ("c" * 40, "d" * 40)
    assert apply_patch(BROKEN, task.patch) == MENDED
    assert task.test_files == ["r2e_tests/test_1.py"]


def test_r2e_rows_without_the_log_of_before_keep_the_map_alone(tmp_path: Path) -> None:
    task = one(tmp_path, public.r2e_gym(execution_result_content="{}"))
    assert task.FAIL_TO_PASS == []
    assert task.expected["test_zero"] == "PASSED"


def test_r2e_names_and_comparison() -> None:
    found = r2e.parse_log(public.log({"A.test_x[1 - 2]": "FAILED", "test_y": "PASSED"}))
    assert found == {"A.test_x[1": "FAILED", "test_y": "PASSED"}  # the set's own way cuts there, too
    assert r2e.parse_log("no summary") == {}
    assert r2e.same({"a": "PASSED"}, {"a": "PASSED"})
    assert not r2e.same({"a": "PASSED"}, {"a": "PASSED", "b": "FAILED"})
    assert not r2e.same({"a": "PASSED", "b": "FAILED"}, {"a": "PASSED"})


@pytest.mark.parametrize("kind", public.ALL)
def test_detection(kind: str) -> None:
    assert rows.detect(public.ALL[kind]()) == kind


@pytest.mark.parametrize("kind", ["swe-bench", "swe-gym"])
def test_a_row_that_names_its_image_keeps_it(tmp_path: Path, kind: str) -> None:
    for field in ("image_name", "docker_image"):
        assert one(tmp_path, public.ALL[kind](**{field: "registry:5000/x/y:1"})).env.image == "registry:5000/x/y:1"


def test_image_names() -> None:
    assert images.swe_bench("astropy__astropy-12907") == "swebench/sweb.eval.x86_64.astropy_1776_astropy-12907:latest"
    assert images.swe_gym("getmoto__moto-7365") == "xingyaoww/sweb.eval.x86_64.getmoto_s_moto-7365:latest"
    assert images.swe_smith("swesmith.x86_64.a__b.0a1b2c3d") == "jyangballin/swesmith.x86_64.a_1776_b.0a1b2c3d"
    for bad in ("a b", "", "../x", "x;rm -rf /", "-v", "a//b"):
        with pytest.raises(DataError, match="name"):
            images.checked(bad)
    with pytest.raises(DataError, match="image"):
        images.swe_bench("a b")


def test_every_file_kind_gives_the_same_tasks(tmp_path: Path) -> None:
    found = [make() for make in (public.swe_gym, public.swe_smith)]
    names = sorted({key for row in found for key in row})
    write(tmp_path / "a.jsonl", found)
    (tmp_path / "a.json").write_text(json.dumps(found))
    tasks = rows.load(tmp_path / "a.jsonl").tasks
    assert len(tasks) == 2
    assert rows.load(tmp_path / "a.json").tasks == tasks
    gym = [{key: row.get(key) for key in names} for row in found[:1]]
    parquet.write_table(pyarrow.Table.from_pylist(gym), tmp_path / "a.parquet")
    assert rows.load(tmp_path / "a.parquet", "swe-gym").tasks == tasks[:1]


def test_a_written_file_is_read_back(tmp_path: Path) -> None:
    loaded = rows.load(write(tmp_path / "rows.jsonl", [make() for make in public.ALL.values()]), split="train")
    assert loaded.formats == dict.fromkeys(public.ALL, 1)
    (tmp_path / "tasks.jsonl").write_text("".join(task_lines(loaded.tasks)))
    assert read_tasks(tmp_path / "tasks.jsonl") == loaded.tasks
    assert {task.split for task in loaded.tasks} == {"train"}
    assert rows.load(tmp_path / "tasks.jsonl").tasks == loaded.tasks


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("swe-bench", {"FAIL_TO_PASS": "[not json"}, "FAIL_TO_PASS"),
    ("swe-bench", {"FAIL_TO_PASS": "[]"}, "FAIL_TO_PASS"),
    ("swe-bench", {"FAIL_TO_PASS": "[1]"}, "FAIL_TO_PASS"),
    ("swe-gym", {"PASS_TO_PASS": {"a": 1}}, "PASS_TO_PASS"),
    ("swe-bench", {"patch": "hello"}, "patch"),
    ("swe-bench", {"test_patch": "@@ nonsense"}, "test_patch"),
    ("swe-bench", {"patch": public.FIX.replace("b/lib/core.py", "b/../../etc/passwd")}, "patch"),
    ("swe-bench", {"instance_id": None}, "image's name"),
    ("swe-bench", {"instance_id": "a b"}, "image's name"),
    ("swe-bench", {"problem_statement": ""}, "problem_statement"),
    ("swe-bench", {"problem_statement": 7}, "problem_statement"),
    ("swe-bench", {"problem_statement": "\ud800"}, "problem_statement"),
    ("swe-smith", {"patch": ""}, "patch"),
    ("swe-smith", {"image_name": ""}, "image_name"),
    ("r2e-gym", {"expected_output_json": "{}"}, "expected_output_json"),
    ("r2e-gym", {"expected_output_json": "[1]"}, "expected_output_json"),
    ("r2e-gym", {"expected_output_json": '{"a": "FINE"}'}, "expected_output_json"),
    ("r2e-gym", {"expected_output_json": '{"test_zero": "PASSED"}'}, "expected_output_json"),
    ("r2e-gym", {"commit_hash": ""}, "commit_hash"),
    ("r2e-gym", {"docker_image": "x y"}, "image"),
    ("r2e-gym", {"parsed_commit_content": "{"}, "parsed_commit_content"),
]


@pytest.mark.parametrize(("kind", "changes", "field"), BAD, ids=lambda v: str(v)[:40])
def test_bad_rows_are_refused_with_place_and_field(
    tmp_path: Path, kind: str, changes: dict[str, Any], field: str
) -> None:
    said = refused(tmp_path, public.ALL[kind](**changes), kind)
    assert said.startswith(f"{tmp_path / 'rows.jsonl'}:1: ")
    assert field in said


def test_the_good_rows_of_a_bad_file_are_read(tmp_path: Path) -> None:
    lines = [json.dumps(public.swe_gym()), "{", "[1]", "", '{"x": 1}', json.dumps(public.swe_gym()), "\udcff",
             json.dumps(public.swe_gym(instance_id="acme__lib-8"))]  # fmt: skip
    (tmp_path / "rows.jsonl").write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    loaded = rows.load(tmp_path / "rows.jsonl")
    assert [task.instance_id for task in loaded.tasks] == ["acme__lib-7", "acme__lib-8"]
    places = [said.split(": ")[0].rsplit(":", 1)[1] for said in loaded.refused]
    assert places == ["2", "3", "5", "6", "7"]
    assert "stands in" in loaded.refused[3]


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 nothing PAR1")
    (tmp_path / "a.json").write_text("[1, ")
    (tmp_path / "a.txt").write_text("")
    for name, error in (("a.parquet", DataError), ("a.json", DataError), ("a.txt", ConfigError), ("b.json", DataError)):
        with pytest.raises(error, match=name):
            rows.load(tmp_path / name)
    with pytest.raises(UnknownNameError, match="swe-bench"):
        rows.load(tmp_path / "a.json", "swebench")
