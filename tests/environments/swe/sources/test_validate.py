"""What is proved of a task, and that each way of being wrong is found."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentgym.environments.swe import mini
from agentgym.environments.swe.schema import SWETask, parse_task, read_tasks
from agentgym.environments.swe.sources import validate
from agentgym.environments.swe.sources.archive import tree_hash
from agentgym.environments.swe.sources.repository import history_leaks, make_repository
from agentgym.environments.swe.sources.trees import trees
from agentgym.errors import DataError
from agentgym.sandbox import make
from agentgym.sandbox.grading import Grader
from agentgym.sandbox.grading.patches import make_diff

RIGHT = "def double(x):\n    return x * 2\n\n\ndef half(x):\n    return x / 2\n"
WRONG = RIGHT.replace("x * 2", "x + 2")
TESTS = (
    "from pocket import double, half\n\n\ndef test_half():\n    assert half(8) == 4\n\n\n"
    "def test_double():\n    assert double(3) == 6\n"
)
SHOWN = TESTS.split("\n\n\ndef test_double")[0] + "\n"


def diff(before: dict[str, str], after: dict[str, str]) -> str:
    return make_diff({k: v.encode() for k, v in before.items()}, {k: v.encode() for k, v in after.items()})


def task(**changes: Any) -> SWETask:
    row = {
        "instance_id": "pocket.1",
        "repo": "pocket",
        "problem_statement": "double(3) gives 5",
        "patch": diff({"pocket.py": WRONG}, {"pocket.py": RIGHT}),
        "test_patch": diff({"tests/test_pocket.py": SHOWN}, {"tests/test_pocket.py": TESTS}),
        "FAIL_TO_PASS": ["tests/test_pocket.py::test_double"],
        "PASS_TO_PASS": ["tests/test_pocket.py::test_half"],
        "test_files": ["tests/test_pocket.py"],
        "source": {"kind": "inline", "files": {"pocket.py": WRONG, "tests/test_pocket.py": SHOWN}},
        "allow_globs": ["pocket.py"],
    }
    return parse_task({**row, **changes})


def files(**more: str) -> dict[str, Any]:
    return {"kind": "inline", "files": {"pocket.py": WRONG, "tests/test_pocket.py": SHOWN, **more}}


def test_a_good_task(grader: Grader, tmp_path: Path) -> None:
    proof = validate.prove(task(), tmp_path, grader)
    assert proof.problems == []
    assert (proof.verdict, proof.ok) == ("valid", True)
    assert proof.to_dict()["verdict"] == "valid"


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("solved already", {"source": {"kind": "inline", "files": {"pocket.py": RIGHT, "tests/test_pocket.py": SHOWN}},
                        "patch": diff({"pocket.py": RIGHT}, {"pocket.py": RIGHT + "\n"})}, "pass without the fix"),
    ("fix is none", {"patch": diff({"pocket.py": WRONG}, {"pocket.py": WRONG + "x = 1\n"})}, "not accepted: F2P 0/1"),
    ("fix breaks others", {"patch": diff({"pocket.py": WRONG}, {"pocket.py": RIGHT.replace("x / 2", "x")})}, "P2P 0/1"),
    ("fix does not fit", {"patch": diff({"pocket.py": "other\n"}, {"pocket.py": RIGHT})}, "does not fit"),
    ("tests do not fit", {"test_patch": diff({"tests/test_pocket.py": "a\n"}, {"tests/test_pocket.py": "b\n"})},
     "test_patch"),
    ("no fix", {"patch": ""}, "patch is empty"),
    ("a test that is not there", {"FAIL_TO_PASS": ["tests/test_other.py::test_x"]}, "neither in the tree"),
    ("P2P that fails", {"PASS_TO_PASS": ["tests/test_pocket.py::test_gone"]}, "do not pass on the base"),
    ("fix within the tests", {"patch": diff({"tests/test_pocket.py": TESTS}, {"tests/test_pocket.py": TESTS + "\n"})},
     "holds hidden tests"),
    ("fix where none may change", {"allow_globs": ["src/**/*.py"]}, "no solution may change"),
    ("history", {"source": files(**{".git/config": "x"})}, "history would be handed over"),
    ("a copy of the fix", {"source": files(**{"build/lib/pocket.py": RIGHT})}, "holds the fixed 'pocket.py' as"),
    ("installs itself", {"env": {"requirements": ["Pocket>=2"]}}, "the package itself"),
    ("another tree", {"source": {"kind": "inline", "folder": "tree", "sha256": "0" * 64}}, "no folder"),
    ("tree outside", {"source": {"kind": "inline", "folder": "../tree"}}, "outside"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "said"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_bad_tasks_are_found(grader: Grader, tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    proof = validate.prove(task(**changes), tmp_path, grader)
    assert proof.verdict == "invalid"
    assert said in " | ".join(proof.problems)


def test_tests_that_hang_are_stopped(grader: Grader, tmp_path: Path) -> None:
    slow = TESTS.replace("assert double(3)", "while double(3) != 6: pass\n    assert double(3)")
    found = task(test_patch=diff({"tests/test_pocket.py": SHOWN}, {"tests/test_pocket.py": slow}), env={"timeout": 3})
    proof = validate.prove(found, tmp_path, grader)
    assert "stopped (timeout)" in " ".join(proof.problems)


def test_image_tasks_are_neither_valid_nor_invalid(grader: Grader, tmp_path: Path) -> None:
    found = task(source={"kind": "image"}, env={"image": "a/b:c"})
    proof = validate.prove(found, tmp_path, grader)
    assert (proof.verdict, proof.ok) == ("unchecked", False)
    assert "a/b:c" in proof.skipped


def test_a_folder_is_held_to_its_hash(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.py").write_text("x = 1\n")
    wanted = tree_hash({"a.py": b"x = 1\n"})
    found = task(source={"kind": "inline", "folder": "tree", "sha256": wanted}, test_patch="", patch="")
    assert trees(found, tmp_path).base == {"a.py": b"x = 1\n"}
    (tmp_path / "tree" / "a.py").write_text("x = 2\n")
    other = task(source={"kind": "inline", "folder": "tree", "sha256": wanted.replace("a", "b")}, test_patch="")
    with pytest.raises(DataError, match="not those that the task was made of"):
        trees(other, tmp_path)


def test_one_commit_and_nothing_of_the_future(grader: Grader, tmp_path: Path) -> None:
    """The tree of a commit of a real repository is handed over without the fix that came later."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    hashes = []
    for text in (WRONG, RIGHT):
        (tmp_path / "pocket.py").write_text(text)
        (tmp_path / "tests").mkdir(exist_ok=True)
        (tmp_path / "tests" / "test_pocket.py").write_text(SHOWN)
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
        done = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
        hashes.append(done.stdout.strip())
    source = {"kind": "git", "name": str(tmp_path), "version": hashes[0]}
    found = task(source=source, base_commit=hashes[0], fix_commit=hashes[1])
    base = trees(found, tmp_path).base
    assert base == {"pocket.py": WRONG.encode(), "tests/test_pocket.py": SHOWN.encode()}
    assert list(history_leaks(found, base, grader.host)) == []
    with make(grader.host.backend, **grader.host.options) as box:
        box.load(base)
        make_repository(box)
        log = box.run("git log --all --format=%H%s; git status --short; git show --stat --format= | tail -1").output
        assert log.count("Initial commit") == 1
        assert "2 files changed" in log
        first = box.run("git rev-parse HEAD").output.strip()
        assert first not in hashes
    with make(grader.host.backend, **grader.host.options) as box:
        box.load(base)
        make_repository(box)
        assert box.run("git rev-parse HEAD").output.strip() == first  # the same tree, the same commit


def test_a_future_commit_would_be_found(grader: Grader, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentgym.environments.swe.sources import repository

    more = " && echo fixed > fix && git add -A && git commit -q -m later && git reset -q --hard HEAD^"
    monkeypatch.setattr(repository, "COMMIT", repository.COMMIT + more)
    found = list(history_leaks(task(), {"a.py": b""}, grader.host))
    assert len(found) == 1
    assert "more than one commit" in found[0]


def test_every_embedded_task_is_valid(grader: Grader) -> None:
    where = Path(mini.__file__).parent
    tasks = read_tasks(where / "tasks.jsonl")
    assert len(tasks) >= 12
    proofs = validate.prove_all(tasks, where, grader, 2)
    assert {proof.task: proof.problems for proof in proofs if not proof.ok} == {}
