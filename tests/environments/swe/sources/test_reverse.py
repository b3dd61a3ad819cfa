"""A diff turned round takes back what it did."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.environments.swe.sources.reverse import reverse_diff
from agentgym.errors import DataError
from agentgym.sandbox.grading.patches import apply_patch, make_diff

#: made by git (`git diff`): a change, a new file, a deleted one, no line feed at the end
BY_GIT = """diff --git a/a.py b/a.py
index 1191247..b35fbb1 100644
--- a/a.py
+++ b/a.py
@@ -1,3 +1,3 @@ def f():
 1
-2
+two
 3
diff --git a/gone.py b/gone.py
deleted file mode 100644
index 587be6b..0000000
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/made.py b/made.py
new file mode 100644
index 0000000..9daeafb
--- /dev/null
+++ b/made.py
@@ -0,0 +1 @@
+test
\\ No newline at end of file
"""
BEFORE = {"a.py": b"1\n2\n3\n", "gone.py": b"x\n"}
AFTER = {"a.py": b"1\ntwo\n3\n", "made.py": b"test"}

LINES = st.lists(
    st.sampled_from(["a\n", "b\n", "--- x\n", "+++ y\n", "@@ -1 +1 @@\n", "-\n", "\n", "\\ z\n"]), max_size=12
)
FILES = st.dictionaries(
    st.sampled_from(["a.py", "b/c.py", "d.txt"]),
    st.tuples(LINES, st.booleans()).map(lambda t: "".join(t[0]).encode()[: -1 if t[1] and t[0] else None]),
)


def test_a_diff_by_git() -> None:
    assert apply_patch(BEFORE, BY_GIT) == AFTER
    assert apply_patch(AFTER, reverse_diff(BY_GIT)) == BEFORE
    assert "index b35fbb1..1191247 100644" in reverse_diff(BY_GIT)
    assert reverse_diff(reverse_diff(BY_GIT)) == BY_GIT


def test_git_agrees(tmp_path: Path) -> None:
    for path, data in AFTER.items():
        (tmp_path / path).write_bytes(data)
    done = subprocess.run(["git", "apply", "-"], input=reverse_diff(BY_GIT).encode(), cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == BEFORE


@given(FILES, FILES)
def test_there_and_back(before: dict[str, bytes], after: dict[str, bytes]) -> None:
    diff = make_diff(before, after)
    assert apply_patch(before, diff) == after
    assert apply_patch(after, reverse_diff(diff)) == before


def test_what_is_no_diff() -> None:
    with pytest.raises(DataError):
        reverse_diff("hello")
    with pytest.raises(DataError):
        reverse_diff(BY_GIT.replace("@@ -1,3 +1,3 @@", "@@ -1,9 +1,9 @@"))
