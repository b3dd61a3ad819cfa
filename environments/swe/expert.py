"""A scripted expert: look, reproduce with the hidden tests, put the known fix in, test, submit."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator

from agentgym.environments.swe.actions import write
from agentgym.environments.swe.bench import Bench
from agentgym.environments.swe.tasks import Loaded
from agentgym.sandbox.grading.patches import Hunk, read_diff

_CHECK = "check_issue"  # folder of the copies of the hidden tests; not part of what is graded


class Plan:
    """The advice for one episode. It looks at the workspace, so that it finds its way after anybody's actions."""

    def __init__(self, found: Loaded) -> None:
        self._found = found
        self._done: set[str] = set()

    def done(self, action: str) -> None:
        """An action was carried out."""
        self._done.add(action.strip())

    def advise(self, bench: Bench) -> str | None:
        """The next action; None without a known fix."""
        gold = self._found.graded.gold
        if gold is None:
            return None
        tests = [] if self._found.row.env.image else [self._test("before")]
        actions: list[str] = [*self._looks(), *tests]
        for action in actions:
            if action not in self._done:
                return action
        for path, data in sorted(gold.items()):
            if bench.read(path) != data:
                return self._repair(bench, path, data)
        if tests and (last := self._test("after")) not in self._done:
            return last
        return write("submit")

    def _looks(self) -> Iterator[str]:
        for change in read_diff(self._found.row.patch):
            if change.before is not None:
                yield write("edit", command="view", path=change.before)

    def _test(self, when: str) -> str:
        """Run copies of the files that hold the failing tests; times are cut out of the output."""
        lines = [f"# the hidden tests, {when} the change", f"mkdir -p {_CHECK}"]
        names = []
        for path in sorted({name.split("::")[0] for name in self._found.graded.f2p}):
            text = self._found.trees.tested[path].decode("utf-8", "replace")
            copy = f"{_CHECK}/{posixpath.basename(path)}"
            lines.append(f"cat > {copy} <<'END_OF_TESTS'\n{text}\nEND_OF_TESTS")
            names += [copy + name[len(path) :] for name in self._found.graded.f2p if name.split("::")[0] == path]
        wanted = " ".join(shlex.quote(name) for name in names)
        lines.append(f"python -m pytest -q --no-header -p no:cacheprovider {wanted} 2>&1 | sed 's/ in [0-9.]*s//'")
        lines.append(f"rm -r {_CHECK}")
        return write("bash", command="\n".join(lines))

    def _repair(self, bench: Bench, path: str, data: bytes | None) -> str:
        """The next edit that brings a file nearer to the fix: a hunk that fits once, else the whole file."""
        if data is None:
            return write("bash", command=f"rm {shlex.quote(path)}")
        present = bench.read(path)
        text = data.decode("utf-8", "replace")
        if present is None:
            return write("edit", command="create", path=path, file_text=text)
        shown = present.decode("utf-8", "replace")
        for hunk in self._hunks(path):
            old, new = "".join(hunk.old), "".join(hunk.new)
            if old and shown.count(old) == 1 and new not in shown:
                old, new = _narrowed(hunk, shown)
                return write("edit", command="str_replace", path=path, old_str=old, new_str=new)
        return write(
            "bash", command=f"cat > {shlex.quote(path)} <<'END_OF_FILE'\n{text.removesuffix(chr(10))}\nEND_OF_FILE"
        )

    def _hunks(self, path: str) -> Iterator[Hunk]:
        return (hunk for change in read_diff(self._found.row.patch) if change.path == path for hunk in change.hunks)


def _narrowed(hunk: Hunk, text: str) -> tuple[str, str]:
    """The hunk without as much of its unchanged beginning and end as still leaves a unique place, and whole lines."""
    old, new = list(hunk.old), list(hunk.new)
    while len(old) > 1 and new and old[0] == new[0] and text.count("".join(old[1:])) == 1:
        old, new = old[1:], new[1:]
    while len(old) > 1 and new and old[-1] == new[-1] and text.count("".join(old[:-1])) == 1:
        old, new = old[:-1], new[:-1]
    a, b = "".join(old), "".join(new)
    return (a[:-1], b[:-1]) if a.endswith("\n") and b.endswith("\n") else (a, b)
