"""Rows as the public sets lay them out; their content is invented."""

from __future__ import annotations

import json
from typing import Any

FIX = """diff --git a/lib/core.py b/lib/core.py
--- a/lib/core.py
+++ b/lib/core.py
@@ -1,2 +1,2 @@
 def double(x):
-    return x + 2
+    return x * 2
"""
BUG = FIX.replace("-    return x + 2\n+    return x * 2", "-    return x * 2\n+    return x + 2")
TESTS = """diff --git a/tests/test_core.py b/tests/test_core.py
--- a/tests/test_core.py
+++ b/tests/test_core.py
@@ -1,1 +1,4 @@
 from lib.core import double
+
+def test_double():
+    assert double(3) == 6
"""
F2P = ["tests/test_core.py::test_double"]
P2P = ["tests/test_core.py::test_zero", "tests/test_core.py::test_two"]


def swe_bench(**changes: Any) -> dict[str, Any]:
    """princeton-nlp/SWE-bench: the lists are JSON strings. Verified adds ``difficulty``."""
    return {
        "repo": "Acme-Corp/lib",
        "instance_id": "Acme-Corp__lib-123",
        "base_commit": "a" * 40,
        "patch": FIX,
        "test_patch": TESTS,
        "problem_statement": "double(3) gives 5",
        "hints_text": "",
        "created_at": "2021-03-04T05:06:07Z",
        "version": "1.2",
        "FAIL_TO_PASS": json.dumps(F2P),
        "PASS_TO_PASS": json.dumps(P2P),
        "environment_setup_commit": "b" * 40,
        "difficulty": "<15 min fix",
        **changes,
    }


def swe_gym(**changes: Any) -> dict[str, Any]:
    """SWE-Gym/SWE-Gym: lists, no environment_setup_commit."""
    row = swe_bench(FAIL_TO_PASS=F2P, PASS_TO_PASS=P2P, instance_id="acme__lib-7", repo="acme/lib")
    return {k: v for k, v in {**row, **changes}.items() if k not in ("environment_setup_commit", "difficulty")}


def swe_smith(**changes: Any) -> dict[str, Any]:
    """SWE-bench/SWE-smith: ``patch`` is the bug; no tests' patch, no base commit."""
    return {
        "instance_id": "acme__lib.0a1b2c3d.func_pm_op_change__x9y8z7",
        "repo": "swesmith/acme__lib.0a1b2c3d",
        "patch": BUG,
        "FAIL_TO_PASS": F2P,
        "PASS_TO_PASS": P2P,
        "image_name": "swebench/swesmith.x86_64.acme_1776_lib.0a1b2c3d",
        "problem_statement": "double(3) gives 5",
        **changes,
    }


def log(statuses: dict[str, str]) -> str:
    """The end of ``pytest -rA``, in colour as R2E-Gym's logs have it."""
    lines = [f"\x1b[3{2 if s == 'PASSED' else 1}m{s}\x1b[0m r2e_tests/test_1.py::\x1b[1m{n.replace('.', '::')}\x1b[0m" +
             (" - AssertionError: assert 5 == 6" if s == "FAILED" else "") for n, s in statuses.items()]  # fmt: skip
    head = "\x1b[36m\x1b[1m=========================== short test summary info ============================\x1b[0m"
    return "\n".join(["collected 3 items", "", head, *lines, "=== 1 failed ==="])


def r2e_gym(**changes: Any) -> dict[str, Any]:
    """R2E-Gym/R2E-Gym-Subset: commit and execution as JSON texts, a map of expected results."""
    before = {"TestCore.test_double": "FAILED", "test_zero": "PASSED", "test_known": "FAILED"}
    commit = {
        "old_commit_hash": "c" * 40,
        "new_commit_hash": "d" * 40,
        "file_diffs": [
            {
                "old_file_content": "def double(x):\n    return x + 2\n",
                "new_file_content": "def double(x):\n    return x * 2\n",
                "header": {"file": {"path": "lib/core.py"}, "misc_line": None},
                "is_binary_file": False,
            },
            {
                "old_file_content": "",
                "new_file_content": "def test(): pass\n",
                "header": {"file": {"path": "tests/test_core.py"}, "misc_line": "new file mode 100644"},
            },
        ],
    }
    execution = {
        "repo_name": "lib",
        "new_commit_hash": "d" * 40,
        "test_file_names": ["test_1.py"],
        "test_file_codes": ["def test_double(): ..."],
        "old_commit_res_stdout": log(before),
        "new_commit_res_stdout": log({**before, "TestCore.test_double": "PASSED"}),
    }
    return {
        "repo_name": "lib",
        "docker_image": "namanjain12/lib_final:" + "d" * 40,
        "commit_hash": "d" * 40,
        "parsed_commit_content": json.dumps(commit),
        "execution_result_content": json.dumps(execution),
        "expected_output_json": json.dumps({**before, "TestCore.test_double": "PASSED"}),
        "modified_files": ["lib/core.py"],
        "relevant_files": ["lib/core.py"],
        "modified_entity_summaries": [],
        "num_non_test_files": 1,
        "num_non_test_func_methods": 1,
        "num_non_test_lines": 2,
        "prompt": "Write an issue",
        "problem_statement": "[ISSUE]\ndouble(3) gives 5\n[/ISSUE]",
        **changes,
    }


ALL = {"swe-bench": swe_bench, "swe-gym": swe_gym, "swe-smith": swe_smith, "r2e-gym": r2e_gym}
