"""What lies in the workspace of a run: which test files under which names, and which ids stand for which."""

from __future__ import annotations

import posixpath
import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentgym.sandbox.grading.canaries import GENERAL, GENERAL_TESTS, random_name, wrong_copy
from agentgym.sandbox.grading.filtering import overlay
from agentgym.sandbox.grading.patches import Tree
from agentgym.sandbox.grading.verdict import GradingTask
from agentgym.seeding import derive_seed


@dataclass(slots=True)
class Layout:
    """``true``: id in the run -> id of the task; ``inside``: the way back; ``wrong``: file of a wrong copy ->
    the task's file, ``functions``: which of its functions are run; ``general``: ids of general canaries."""

    tree: Tree
    files: list[str] = field(default_factory=list)
    true: dict[str, str] = field(default_factory=dict)
    inside: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)
    general: list[str] = field(default_factory=list)
    order: int | None = None

    @property
    def wanted(self) -> list[str]:
        """Ids to be run, and functions all of whose tests are (the ids of a wrong copy may hold its values)."""
        return [*self.true, *self.functions, *self.general]

    def copy_id(self, inside: str) -> str:
        """An id of a wrong copy under the name of the task's file; empty for other ids."""
        file, _, name = inside.partition("::")
        return f"{self.wrong[file]}::{name}" if file in self.wrong else ""

    def add_true(self, name: str, inside: str) -> None:
        """A test of the task and the id it has in this run."""
        self.true[inside], self.inside[name] = name, inside


def plain(task: GradingTask, files: Mapping[str, bytes | None]) -> Layout:
    """The first run: hidden tests under their own names, one file of general canaries beside them."""
    layout = Layout(_tree(task, files))
    for name in (*task.f2p, *task.p2p):
        layout.add_true(name, name)
    layout.files = [path for path in task.test_files if path in layout.tree]
    _add_general(layout, task, secrets.SystemRandom())
    return layout


def disguised(task: GradingTask, files: Mapping[str, bytes | None]) -> Layout:
    """The second run: every test file under a random name, a copy with wrong values beside it, in shuffled order.

    Names are drawn anew each time: nobody can know them. Wrong values and order come from the task's name, so that two
    runs of a task ask the same.
    """
    draw, seed = secrets.SystemRandom(), derive_seed("grading", task.name)
    layout = Layout(_tree(task, files), order=seed)
    for path in task.test_files:
        source = layout.tree.pop(path, None)
        if source is None:
            continue
        ids = [name for name in (*task.f2p, *task.p2p) if name.split("::")[0] == path]
        folder = posixpath.dirname(path)
        copy = random_name(folder, draw)
        layout.tree[copy] = source
        layout.files.append(copy)
        for name in ids:
            layout.add_true(name, copy + name[len(path) :])
        wrong = wrong_copy(source, {_function(name) for name in ids}, derive_seed(seed, path))
        if wrong is not None:
            twin = random_name(folder, draw)
            layout.tree[twin] = wrong
            layout.files.append(twin)
            layout.wrong[twin] = path
            layout.functions += sorted({f"{twin}::{_function(name)}" for name in ids})
    _add_general(layout, task, draw)
    draw.shuffle(layout.files)
    return layout


def _function(name: str) -> str:
    """``TestA::test_b`` of ``file.py::TestA::test_b[1-x]``."""
    return name.partition("::")[2].split("[")[0]


def _tree(task: GradingTask, files: Mapping[str, bytes | None]) -> Tree:
    return overlay(overlay(dict(task.base), files), task.hidden)


def _add_general(layout: Layout, task: GradingTask, draw: random.Random) -> None:
    folder = posixpath.dirname(task.test_files[0]) if task.test_files else ""
    path = random_name(folder, draw)
    layout.tree[path] = GENERAL.encode()
    layout.files.append(path)
    layout.general = [f"{path}::{name}" for name in GENERAL_TESTS]
