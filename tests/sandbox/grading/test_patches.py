"""Diffs between trees in memory; the reference is ``git apply``."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import DataError
from agentgym.sandbox.grading.patches import apply_patch, make_diff, read_diff

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "  d", "é"]), max_size=12)
FILE = st.builds(lambda lines, end: ("\n".join(lines) + end).encode(), LINES, st.sampled_from(["", "\n"]))
TREE = st.dictionaries(st.sampled_from(["a.py", "b/c.py", "d e.txt"]), FILE.filter(bool), max_size=3)


def git_apply(folder: Path, tree: dict[str, bytes], patch: str) -> dict[str, bytes]:
    for path, data in tree.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    if patch:
        command = ["git", "apply", "--whitespace=nowarn", "-"]
        subprocess.run(command, cwd=folder, input=patch.encode(), check=True, capture_output=True)
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@given(TREE, TREE)
@settings(max_examples=100)
def test_a_diff_leads_from_one_tree_to_the_other_and_back(before: dict[str, bytes], after: dict[str, bytes]) -> None:
    assert apply_patch(before, make_diff(before, after)) == after
    assert apply_patch(after, make_diff(after, before)) == before


@given(TREE, TREE)
@settings(max_examples=15)
def test_git_reads_our_diffs_alike(tmp_path_factory: pytest.TempPathFactory, before: dict[str, bytes], after: dict[str, bytes]) -> None:  # fmt: skip # noqa: E501
    folder = tmp_path_factory.mktemp("git")
    assert git_apply(folder, before, make_diff(before, after)) == after


def test_bytes_that_are_no_text_survive() -> None:
    before, after = {"a": b"\xff\n\r\nx"}, {"a": b"\xff\n\r\n\xfe\x0cy\x1c\n"}
    assert apply_patch(before, make_diff(before, after)) == after


def test_hunks_that_moved_fit_and_others_are_refused() -> None:
    before = b"".join(b"%d\n" % i for i in range(30))
    patch = make_diff({"a": before}, {"a": before.replace(b"20\n", b"twenty\n")})
    moved = apply_patch({"a": b"new\n" * 5 + before}, patch)
    assert moved["a"] == b"new\n" * 5 + before.replace(b"20\n", b"twenty\n")
    with pytest.raises(DataError, match=r"gold: hunk 1 of 'a' \(line 18\) does not fit"):
        apply_patch({"a": before.replace(b"19\n", b"x\n")}, patch, "gold")


def test_new_deleted_and_renamed_files(tmp_path: Path) -> None:
    tree = {"old.py": b"a\nb\n", "gone.py": b"x\n", "empty": b""}
    patch = (
        "diff --git a/old.py b/sub/new.py\nsimilarity index 60%\nrename from old.py\nrename to sub/new.py\n"
        "--- a/old.py\n+++ b/sub/new.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
        "diff --git a/gone.py b/gone.py\ndeleted file mode 100644\n--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        "diff --git a/made.py b/made.py\nnew file mode 100644\n--- /dev/null\n+++ b/made.py\n@@ -0,0 +1 @@\n+y\n"
    )
    expected = {"sub/new.py": b"a\nc\n", "made.py": b"y\n", "empty": b""}
    assert apply_patch(tree, patch) == expected == git_apply(tmp_path, tree, patch)


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("hello", "no unified diff"),
        ("--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n", "not a path inside"),
        ("--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n-a\n", "ends before"),
        ("--- a/x\n+++ b/x\n@@ nonsense @@\n", "no hunk header"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n?a\n", "begins with a blank"),
        ("diff --git a/x b/x\nGIT binary patch\nliteral 3\n", "binary"),
        ("diff --git a/x b/y\ncopy from x\ncopy to y\n", "copies"),
        ("--- a/no\n+++ b/no\n@@ -1 +1 @@\n-a\n+b\n", "not in the tree"),
        ("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b\n", "exists already"),
        ("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "does not know"),
    ],
)
def test_what_cannot_be_applied_is_named(patch: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        apply_patch({"x": b"a\nmore\n"}, patch)


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    for patch in (text, "--- a/x\n+++ b/x\n@@ -1 +1 @@\n" + text, "diff --git a/x b/x\n" + text):
        with contextlib.suppress(DataError):
            read_diff(patch)
