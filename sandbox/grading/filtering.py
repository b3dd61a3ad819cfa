"""From the tree that an agent left to the source changes that may be graded."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from agentgym.sandbox.grading.patches import Tree, make_diff

MAX_FILE = 1_000_000  # bytes of one changed file
_NEVER = frozenset({"conftest.py", "sitecustomize.py", "usercustomize.py", "pytest.py", "setup.py"})
_ENDINGS = frozenset({".pyc", ".pyo", ".pth", ".so", ".pyd", ".dll", ".ini", ".cfg", ".toml", ".egg-link", ".zip"})
_FOLDERS = re.compile(r"(^|/)(__pycache__|_pytest|\.git|[^/]*\.(egg-info|dist-info))(/|$)")
_TESTS = re.compile(r"(^|/)(tests?|testing)/|(^|/)test_[^/]*\.py$|_test\.py$|(^|/)tests?\.py$")


@dataclass(frozen=True, slots=True)
class Change:
    """What is graded: ``files`` path -> content (None: deleted) against the base, the ``patch`` as text, and what was
    ``rejected``, path -> reason."""

    files: dict[str, bytes | None]
    patch: str
    rejected: dict[str, str]


@lru_cache(maxsize=512)
def _glob(pattern: str) -> re.Pattern[str]:
    out, at = "", 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            out, at = out + "(?:.*/)?", at + 3
        elif pattern.startswith("**", at):
            out, at = out + ".*", at + 2
        else:
            one = pattern[at]
            out += {"*": "[^/]*", "?": "[^/]"}.get(one) or re.escape(one)
            at += 1
    return re.compile(out + r"\Z")


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Does a glob fit the whole path? ``*`` and ``?`` stay within a folder, ``**`` does not."""
    return any(_glob(pattern).match(path) for pattern in patterns)


def refusal(
    path: str, tests: Iterable[str], allow: Iterable[str], pythonpath: Iterable[str], fixed: Iterable[str] = ()
) -> str:
    """Why a changed file is left out; empty: it is graded. ``fixed``: files that the known fix changes."""
    name = PurePosixPath(path)
    if path in tests or (_TESTS.search(path) and path not in fixed):
        return "tests are the task's own"
    if name.name in _NEVER or name.suffix in _ENDINGS or _FOLDERS.search(path):
        return "configuration of tests and interpreter is the task's own"
    if not path.isprintable():
        return "odd characters in its name"
    if not matches(path, allow):
        return f"not among the files that may change ({', '.join(allow)})"
    for folder in pythonpath:
        inside = PurePosixPath(folder, "x").parent
        if name.is_relative_to(inside) and (parts := name.relative_to(inside).parts):
            top = parts[0].removesuffix(".py")
            if top in sys.stdlib_module_names or top in ("pytest", "_pytest", "pluggy", "py", "hypothesis"):
                return f"it would hide the module {top!r}"
    return ""


def source_change(
    base: Mapping[str, bytes],
    tree: Mapping[str, bytes],
    tests: Iterable[str],
    allow: tuple[str, ...],
    pythonpath: tuple[str, ...],
    fixed: Iterable[str] = (),
) -> Change:
    """The part of ``tree`` (an export: regular files only) that may be graded. Links and other odd files of the agent
    are not in an export; where they stand in place of a file of the base, that file counts as deleted."""
    files: dict[str, bytes | None] = {}
    rejected: dict[str, str] = {}
    known = frozenset(tests)
    for path in sorted(base.keys() | tree.keys()):
        new = tree.get(path)
        if new == base.get(path):
            continue
        reason = refusal(path, known, allow, () if path in base else pythonpath, fixed)
        if not reason and new is not None and len(new) > MAX_FILE:
            reason = f"{len(new)} bytes, at most {MAX_FILE} are graded"
        if reason:
            rejected[path] = reason
        else:
            files[path] = new
    after: Tree = dict(base)
    overlay(after, files)
    return Change(files, make_diff(base, after), rejected)


def overlay(tree: Tree, files: Mapping[str, bytes | None]) -> Tree:
    """``files`` laid over ``tree`` (changed in place and given back); None takes a file away."""
    for path, data in files.items():
        if data is None:
            tree.pop(path, None)
        else:
            tree[path] = data
    return tree
