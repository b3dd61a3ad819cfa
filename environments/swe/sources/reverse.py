"""A unified diff turned round."""

from __future__ import annotations

import re

from agentgym.sandbox.grading.patches import read_diff

_HUNK = re.compile(r"@@ -(\S+) \+(\S+) @@(.*)", re.DOTALL)
_SWAPPED = (
    ("new file mode", "deleted file mode"),
    ("rename from", "rename to"),
    ("copy from", "copy to"),
    ("old mode", "new mode"),
)


def reverse_diff(text: str) -> str:
    """The diff that takes ``text`` back. Raises DataError for what is no diff that can be applied."""
    read_diff(text)
    lines = text.split("\n")
    out: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if match := _HUNK.fullmatch(line):
            at = _reverse_hunk(lines, at, match, out)
            continue
        if line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            out += [f"--- {_side(lines[at + 1][4:], 'a')}", f"+++ {_side(line[4:], 'b')}"]
            at += 2
            continue
        out.append(_header(line))
        at += 1
    return "\n".join(out)


def _side(name: str, letter: str) -> str:
    return f"{letter}/{name[2:]}" if name[:2] in ("a/", "b/") else name


def _header(line: str) -> str:
    if match := re.fullmatch(r"diff --git a/(.*) b/(.*)", line):
        return f"diff --git a/{match[2]} b/{match[1]}"
    if match := re.fullmatch(r"index ([0-9a-f]+)\.\.([0-9a-f]+)(.*)", line):
        return f"index {match[2]}..{match[1]}{match[3]}"
    for left, right in _SWAPPED:
        if line.startswith(left):
            return right + line[len(left) :]
        if line.startswith(right):
            return left + line[len(right) :]
    return line


def _count(span: str) -> int:
    return int(span.split(",")[1]) if "," in span else 1


def _reverse_hunk(lines: list[str], at: int, match: re.Match[str], out: list[str]) -> int:
    """One hunk, its lines counted by the header; removed lines before added ones, as diffs have it."""
    left, right = _count(match[1]), _count(match[2])
    out.append(f"@@ -{match[2]} +{match[1]} @@{match[3]}")
    removed: list[str] = []
    added: list[str] = []
    last = out
    at += 1
    while at < len(lines) and (left or right or lines[at].startswith("\\")):
        line = lines[at]
        at += 1
        if line.startswith("\\"):
            last.append(line)
        elif line.startswith("-"):
            left, last = left - 1, added
            added.append("+" + line[1:])
        elif line.startswith("+"):
            right, last = right - 1, removed
            removed.append("-" + line[1:])
        else:
            left, right = left - 1, right - 1
            out += [*removed, *added, line]
            removed, added, last = [], [], out
    out += [*removed, *added]
    return at
