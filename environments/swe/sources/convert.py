"""One function for each public format: from its row to the fields of a task.

Layouts as published on Hugging Face: princeton-nlp/SWE-bench and SWE-bench_Verified, SWE-Gym/SWE-Gym,
SWE-bench/SWE-smith, R2E-Gym/R2E-Gym-Subset. Fields that say nothing about the task are dropped here and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.environments.swe.sources import images, r2e
from agentgym.environments.swe.sources.layout import is_test
from agentgym.environments.swe.sources.reverse import reverse_diff
from agentgym.errors import DataError
from agentgym.sandbox.grading.patches import make_diff, read_diff

_SHARED: tuple[str, ...] = (
    "instance_id", "repo", "base_commit", "patch", "test_patch", "problem_statement", "hints_text", "created_at",
    "version", "environment_setup_commit", "difficulty",
)  # fmt: skip
#: runs the named tests of SWE-bench-like images and prints one line for each
_PYTEST = "pytest -rA --color=no -p no:cacheprovider"


def swe_bench(row: Mapping[str, Any]) -> dict[str, Any]:
    """SWE-bench and SWE-bench-Verified: FAIL_TO_PASS and PASS_TO_PASS are JSON strings, the image hangs on the id."""
    return _bench(row, images.swe_bench)


def swe_gym(row: Mapping[str, Any]) -> dict[str, Any]:
    """SWE-Gym: as SWE-bench, with lists, and images of its own."""
    return _bench(row, images.swe_gym)


def _bench(row: Mapping[str, Any], image: Any) -> dict[str, Any]:
    out: dict[str, Any] = {name: _text(row, name) for name in _SHARED if row.get(name) is not None}
    name = _text(row, "instance_id")
    _diff(row, "patch")
    files = [change.path for change in _diff(row, "test_patch")]
    given = next((str(row[key]) for key in ("image_name", "docker_image") if row.get(key)), "")
    where = images.checked(given) if given else image(name)
    out |= _tests(row)
    out["test_files"] = files
    out["source"] = {"kind": "image", "name": _text(row, "repo"), "version": _text(row, "base_commit")}
    out["env"] = {"image": where, "setup": images.CONDA, "test_cmd": f"{_PYTEST} {' '.join(files)}", "timeout": 1800}
    return out


def swe_smith(row: Mapping[str, Any]) -> dict[str, Any]:
    """SWE-smith: ``patch`` puts the bug in, so the fix is its reverse and the base tree has it applied."""
    out: dict[str, Any] = {name: _text(row, name) for name in _SHARED if name != "patch" and row.get(name) is not None}
    changed = _diff(row, "patch")
    if not changed:
        raise DataError("patch: empty; a SWE-smith row holds the bug there")
    bug = _text(row, "patch")
    tests = _tests(row)
    files = sorted({test.split("::")[0] for test in (*tests["FAIL_TO_PASS"], *tests["PASS_TO_PASS"])})
    image = _text(row, "image_name")
    if not image:
        raise DataError("image_name: missing or empty; the tree of a SWE-smith row is in its image")
    out |= tests
    out["patch"] = reverse_diff(bug)
    out["test_files"] = files
    out["source"] = {"kind": "image", "name": _text(row, "repo"), "patch": bug}
    out["env"] = {"image": images.swe_smith(image), "setup": images.CONDA, "timeout": 1800,
                  "test_cmd": f"{_PYTEST} {' '.join(files)}"}  # fmt: skip
    return out


def r2e_gym(row: Mapping[str, Any]) -> dict[str, Any]:
    """R2E-Gym: no lists; the parsed log of all tests must equal ``expected_output_json``.

    FAIL_TO_PASS and PASS_TO_PASS are worked out where the row has the log from before the fix, for shares and tables;
    ``expected`` decides.
    """
    commit, repository = _text(row, "commit_hash"), _text(row, "repo_name")
    expected = r2e.expected(_object(row, "expected_output_json"))
    image = images.checked(_text(row, "docker_image") or f"namanjain12/{repository}_final:{commit}")
    if not commit or not repository:
        raise DataError("commit_hash and repo_name must not be empty")
    execution = _object(row, "execution_result_content") if row.get("execution_result_content") else {}
    before = r2e.parse_log(str(execution.get("old_commit_res_stdout") or ""))
    out: dict[str, Any] = {
        "instance_id": f"{repository}__{commit}",
        "repo": repository,
        "fix_commit": commit,
        "problem_statement": r2e.issue(_text(row, "problem_statement")),
        "expected": expected,
        "source": {"kind": "image", "name": repository, "version": commit},
        "env": {"image": image, "setup": images.R2E_VENV, "test_cmd": "bash run_tests.sh", "timeout": 300},
        "test_files": [f"r2e_tests/{name}" for name in _names(execution)],
    }
    if before:
        passing = [name for name, status in expected.items() if status == "PASSED"]
        out["FAIL_TO_PASS"] = [name for name in passing if before.get(name) != "PASSED"]
        out["PASS_TO_PASS"] = [name for name in passing if before.get(name) == "PASSED"]
        if not out["FAIL_TO_PASS"]:
            raise DataError("expected_output_json: every test that passes with the fix passed before it, too")
    if parsed := _object(row, "parsed_commit_content") if row.get("parsed_commit_content") else {}:
        out["patch"] = _commit_diff(parsed)
        out["base_commit"] = _text(parsed, "old_commit_hash")
    return out


def _names(execution: Mapping[str, Any]) -> list[str]:
    names = execution.get("test_file_names") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError("execution_result_content: test_file_names is no list of names")
    return [name.rsplit("/", 1)[-1] for name in names]


def _commit_diff(parsed: Mapping[str, Any]) -> str:
    """The fix, without tests, from the old and new contents that R2E-Gym keeps of every file of a commit."""
    before: dict[str, bytes] = {}
    after: dict[str, bytes] = {}
    for change in parsed.get("file_diffs") or []:
        if not isinstance(change, dict):
            raise DataError("parsed_commit_content: a file_diff is no mapping")
        header = change.get("header") or {}
        path = str((header.get("file") or {}).get("path") or "") if isinstance(header, dict) else ""
        if not path or is_test(path) or change.get("is_binary_file"):
            continue
        for key, side in (("old_file_content", before), ("new_file_content", after)):
            if isinstance(change.get(key), str) and change[key]:
                side[path] = change[key].encode("utf-8", "surrogatepass")
    return make_diff(before, after)


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        if isinstance(value, int | float) and name in ("version", "created_at"):
            return str(value)
        if hasattr(value, "isoformat"):
            return str(value.isoformat())
        raise DataError(f"{name}: expected text, got {value!r:.60}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DataError(f"{name}: holds half a character (a lone surrogate)") from None
    return value


def _diff(row: Mapping[str, Any], name: str) -> list[Any]:
    """The files of a row's diff. Raises DataError naming the field."""
    try:
        return read_diff(_text(row, name))
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


def _object(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = row.get(name)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise DataError(f"{name}: not JSON: {error.msg}") from None
    if not isinstance(value, dict):
        raise DataError(f"{name}: expected a mapping or its JSON text, got {value!r:.60}")
    return value


def _tests(row: Mapping[str, Any]) -> dict[str, list[str]]:
    """FAIL_TO_PASS and PASS_TO_PASS, lists or JSON strings of lists; some sets name a test in both: it is F2P."""
    out = {}
    for name in ("FAIL_TO_PASS", "PASS_TO_PASS"):
        value: Any = row.get(name)
        if isinstance(value, str):
            try:
                value = json.loads(value) if value.strip() else []
            except json.JSONDecodeError as error:
                raise DataError(f"{name}: neither a list nor a JSON list: {error.msg}") from None
        if value is None:
            value = []
        if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(v, str) for v in value):
            raise DataError(f"{name}: expected a list of test names, got {value!r:.60}")
        out[name] = list(dict.fromkeys(value))
    out["PASS_TO_PASS"] = [test for test in out["PASS_TO_PASS"] if test not in set(out["FAIL_TO_PASS"])]
    if not out["FAIL_TO_PASS"]:
        raise DataError("FAIL_TO_PASS: empty; nothing could be solved")
    return out
