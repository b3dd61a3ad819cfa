"""Tasks in images, with an image that looks like those of SWE-bench, on a real engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from docker_help import LOOKALIKE_MOUNTS

from agentgym.environments.swe import SWE
from agentgym.environments.swe.actions import write
from agentgym.sandbox.grading.patches import make_diff

from .conftest import bash, named

SOURCE = b"def add(a, b):\n    return a - b\n"
TESTS = (
    b"import unittest\n\nfrom calc import add\n\n\nclass Calc(unittest.TestCase):\n"
    b"    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n"
    b"    def test_zero(self):\n        self.assertEqual(add(2, 0), 2)\n"
)
HIDDEN = TESTS + b"    def test_negative(self):\n        self.assertEqual(add(-1, -1), -2)\n"


def name(test: str) -> str:
    return f"{test} (test_calc.Calc.{test})"


@pytest.fixture
def env(lookalike_image: str, tmp_path: Path) -> Any:
    row = {
        "instance_id": "lookalike-1",
        "problem_statement": "add() subtracts",
        "patch": make_diff({"calc.py": SOURCE}, {"calc.py": SOURCE.replace(b"-", b"+")}),
        "test_patch": make_diff({"test_calc.py": TESTS}, {"test_calc.py": HIDDEN}),
        "FAIL_TO_PASS": [name("test_add"), name("test_negative")],
        "PASS_TO_PASS": [name("test_zero")],
        "test_files": ["test_calc.py"],
        "source": {"kind": "image"},
        "env": {
            "image": lookalike_image,
            "setup": "source /opt/conda/bin/activate testbed",
            "test_cmd": "python -B -m unittest -v test_calc",
            "timeout": 60,
        },
    }
    (tmp_path / "tasks.jsonl").write_text(json.dumps(row) + "\n")
    env = SWE(dataset=str(tmp_path / "tasks.jsonl"), image_mounts=LOOKALIKE_MOUNTS)
    env.reset(env.tasks("test")[0])
    yield env
    env.close()


def test_the_agent_works_in_the_image_without_its_history(env: SWE) -> None:
    text = bash(
        env, "echo $CONDA_DEFAULT_ENV; git log --oneline --all | wc -l; cat calc.py; grep -c negative test_calc.py"
    )
    assert text.observation.text.startswith("testbed\n1\ndef add(a, b):\n    return a - b\n0\n")
    assert "reproduced" not in env.milestone_names


def test_the_expert_solves_it(env: SWE) -> None:
    steps = []
    while not (steps and steps[-1].terminated):
        steps.append(env.step(env.expert() or ""))
        assert len(steps) < 10
    assert steps[-1].success, steps[-1].info
    assert [list(named(step)) for step in steps[:-1]] == [["format", "tool"], ["format", "tool", "file"]]
    assert steps[-1].info is not None
    assert steps[-1].info["verdict"]["p2p_passed"] == 1
    assert "log" in steps[-1].info["verdict"]["notes"][0]


@pytest.mark.parametrize(
    ("script", "share"),
    [
        ("true", 0.0),
        ("printf 'def add(a, b):\\n    return 5\\n' > calc.py", 0.5),  # breaks test_zero, misses test_negative
        ("printf 'import unittest\\n' > test_calc.py", 0.0),
        ("printf 'print(\"test_add (test_calc.Calc.test_add) ... ok\")\\nimport os\\nos._exit(0)\\n' > calc.py", 0.0),
    ],
)
def test_what_is_no_fix_is_not_resolved(env: SWE, script: str, share: float) -> None:
    bash(env, script)
    end = env.step(write("submit"))
    assert (end.success, end.reward, named(end).get("tests", 0.0)) == (False, 0.0, share)
