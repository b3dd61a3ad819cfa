"""Unified diffs between trees held in memory: made, read and applied without running git anywhere.

A tree is a mapping from a path with ``/`` to the bytes of a file. Diffs are text in git's form; bytes that are no UTF-8
travel as surrogates.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentgym.errors import DataError

Tree = dict[str, bytes]
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NO_NEWLINE = "\\ No newline at end of file"


@dataclass(frozen=True, slots=True)
class Hunk:
    """``old`` lines at line ``start`` (from 1) become ``new`` lines; ``added``: which of the new ones are new."""

    start: int
    old: tuple[str, ...]
    new: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(slots=True)
class FileDiff:
    """What a diff does to one file: ``before`` None for a new file, ``after`` None for a deleted one."""

    before: str | None
    after: str | None
    hunks: list[Hunk] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The file's name afterwards, or before if it is deleted."""
        return self.after or self.before or ""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _lines(data: bytes) -> list[str]:
    """Lines with their ends, split at line feeds only."""
    parts = _text(data).split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def make_diff(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """The unified diff from one tree to another, files in order of their names; empty where nothing differs."""
    out: list[str] = []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        out.append(f"diff --git a/{path} b/{path}\n")
        if old is None:
            out.append("new file mode 100644\n")
        if new is None:
            out.append("deleted file mode 100644\n")
        names = ("/dev/null" if old is None else f"a/{path}", "/dev/null" if new is None else f"b/{path}")
        for line in difflib.unified_diff(_lines(old or b""), _lines(new or b""), *names):
            out.append(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}\n")
    return "".join(out)


def read_diff(text: str) -> list[FileDiff]:
    """The files of a unified diff. Raises DataError with the line for what is no diff, and for binary changes."""
    files: list[FileDiff] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("diff --git "):
            at, found = _header(lines, at)
            files.append(found)
        elif line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            files.append(FileDiff(_name(line), _name(lines[at + 1])))
            at += 2
        elif _HUNK.match(line) and files:
            at, hunk = _hunk(lines, at)
            files[-1].hunks.append(hunk)
        elif line.startswith(("GIT binary patch", "Binary files ")):
            raise DataError(f"diff, line {at + 1}: a binary change cannot be applied")
        elif line.startswith("@@"):
            raise DataError(f"diff, line {at + 1}: no hunk header: {line!r:.80}")
        else:
            at += 1  # index lines, prose between diffs
    if not files and text.strip():
        raise DataError(f"no unified diff: it begins with {text.strip()!r:.60}")
    return [found for found in files if found.hunks or found.before != found.after]


def _name(line: str) -> str | None:
    name = line[4:].split("\t")[0].rstrip("\r")
    if name == "/dev/null":
        return None
    if name.startswith('"') and name.endswith('"'):  # git quotes odd names in C style
        name = name[1:-1].encode("utf-8", "surrogateescape").decode("unicode_escape")
        name = name.encode("latin-1", "replace").decode("utf-8", "surrogateescape")
    name = name[2:] if name[:2] in ("a/", "b/") else name
    if name.startswith("/") or ".." in name.split("/") or not name:
        raise DataError(f"diff: {name!r} is not a path inside the repository")
    return name


def _header(lines: list[str], at: int) -> tuple[int, FileDiff]:
    """From ``diff --git`` to the first hunk or the next file."""
    both = re.fullmatch(r'diff --git "?a/(.*?)"? "?b/(.*?)"?\r?', lines[at])
    if both is None:
        raise DataError(f"diff, line {at + 1}: no names in {lines[at]!r:.80}")
    before: str | None = _name(f"--- a/{both[1]}")
    after: str | None = _name(f"+++ b/{both[2]}")
    at += 1
    while at < len(lines) and not lines[at].startswith(("@@", "diff --git ", "GIT binary", "Binary files ")):
        line = lines[at]
        at += 1
        if line.startswith("new file"):
            before = None
        elif line.startswith("deleted file"):
            after = None
        elif line.startswith("rename from "):
            before = _name("--- a/" + line.removeprefix("rename from "))
        elif line.startswith("rename to "):
            after = _name("+++ b/" + line.removeprefix("rename to "))
        elif line.startswith("copy from "):
            raise DataError(f"diff, line {at}: copies are not understood; write the copy as a new file")
        elif line.startswith("--- ") and at < len(lines) and lines[at].startswith("+++ "):
            before, after = _name(line), _name(lines[at])
            at += 1
            break
    return at, FileDiff(before, after)


def _hunk(lines: list[str], at: int) -> tuple[int, Hunk]:
    head = _HUNK.match(lines[at])
    assert head is not None
    left, right = int(head[2] or 1), int(head[4] or 1)
    first, old, new, added = at, list[str](), list[str](), list[str]()
    last = ""
    at += 1
    end = len(lines) - (lines[-1] == "")  # what stands behind the last line feed is no line
    while at < end and (left or right or lines[at].startswith("\\")):
        mark, rest = lines[at][:1] or " ", lines[at][1:] + "\n"
        at += 1
        if mark == "\\":  # the line before has no line feed
            for side in (old if last in " -" else [], new if last in " +" else []):
                side[-1:] = [line.removesuffix("\n") for line in side[-1:]]
            continue
        if mark not in " -+":
            raise DataError(f"diff, line {at}: a line of a hunk begins with a blank, + or -, got {lines[at - 1]!r:.60}")
        if mark != "+":
            old.append(rest)
            left -= 1
        if mark != "-":
            new.append(rest)
            right -= 1
        if mark == "+":
            added.append(rest)
        last = mark
    if left or right:
        raise DataError(f"diff, line {first + 1}: the hunk ends before the lines that its header announces")
    return at, Hunk(int(head[1]), tuple(old), tuple(new), tuple(added))


def apply_patch(tree: Mapping[str, bytes], text: str, what: str = "patch") -> Tree:
    """The tree with a diff applied. Hunks may have moved, their lines must be there as they stand (as ``git apply``).

    Raises DataError naming ``what``, the file and the hunk.
    """
    out = dict(tree)
    for change in read_diff(text) if text.strip() else ():
        if change.before is None and change.path in tree:
            raise DataError(f"{what}: {change.path!r} is to be made but exists already")
        if change.before is not None and change.before not in out:
            raise DataError(f"{what}: {change.before!r} is to be changed but is not in the tree")
        data = b"" if change.before is None else out[change.before]
        lines = _patched(_lines(data), change, what)
        if change.before is not None and change.before != change.after:
            del out[change.before]
        if change.after is not None:
            out[change.after] = "".join(lines).encode("utf-8", "surrogateescape")
        elif lines:
            raise DataError(
                f"{what}: {change.before!r} is to be deleted, but it holds lines that the diff does not know"
            )
    return out


def _patched(lines: list[str], change: FileDiff, what: str) -> list[str]:
    out, done = [], 0
    for number, hunk in enumerate(change.hunks, 1):
        wanted = max(hunk.start - 1, 0) if hunk.old else hunk.start
        found = _find(lines, hunk.old, wanted, done)
        if found is None:
            raise DataError(f"{what}: hunk {number} of {change.path!r} (line {hunk.start}) does not fit the file")
        out += [*lines[done:found], *hunk.new]
        done = found + len(hunk.old)
    return out + lines[done:]


def _find(lines: list[str], old: tuple[str, ...], wanted: int, least: int) -> int | None:
    """The place nearest to ``wanted``, not before ``least``, where ``old`` stands."""
    if not old:
        return min(max(wanted, least), len(lines))
    places = [at for at in range(least, len(lines) - len(old) + 1) if tuple(lines[at : at + len(old)]) == old]
    return min(places, key=lambda at: (abs(at - wanted), at), default=None)
