"""Edit tools for a model: view, create, str_replace, insert, search over a sandbox's workspace.

They run on the host, through :meth:`Sandbox.read` and :meth:`Sandbox.write`, which nothing leads out of the workspace;
``search`` runs grep inside, because a pattern can be written to take for ever. A mistake of the model is a result that
says what to do, never an exception.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from agentgym.sandbox.base import KIB, MIB, Limits, Sandbox, SandboxError
from agentgym.sandbox.output import escape

#: the longest file that is edited, in bytes
FILE_LIMIT = 2 * MIB
#: bytes of text that one answer shows
SHOWN = 32 * KIB
_LINES = 400
_LISTED = 200
_MATCHES = 100


@dataclass(frozen=True, slots=True)
class Edit:
    """What a tool did. ``text`` is for the model; ``path`` (relative) is the file that changed, "" where none did."""

    ok: bool
    text: str
    path: str = ""


class Editor:
    """The edit tools over one started sandbox. Safe to use from several threads as far as their files differ."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def view(self, path: str = "", start: int | None = None, end: int | None = None) -> Edit:
        """A file's lines ``start`` to ``end`` (from 1, inclusive, by default all that fit), or a folder's names."""
        try:
            inside = self.sandbox.relative(path)
            try:
                text = self._text(inside)
            except SandboxError as error:
                if inside and "is a folder" not in str(error):
                    raise
                return self._folder(inside)
        except SandboxError as error:
            return Edit(False, _line(error))
        lines = _split(text)
        first, last = start or 1, end or len(lines)
        if not lines:
            return Edit(True, f"{inside} is empty")
        if not 1 <= first <= len(lines) or last < first:
            return Edit(False, f"{inside} has lines 1 to {len(lines)}; asked for {first} to {last}")
        return Edit(True, _numbered(lines, first, min(last, len(lines)), inside))

    def create(self, path: str, text: str) -> Edit:
        """A new file with its folders. An existing one is refused: it is changed by the other tools."""
        try:
            inside = self.sandbox.relative(path)
            if self._exists(inside):
                return Edit(False, f"{inside} exists already; change it with str_replace or insert")
            self.sandbox.write(inside, _bytes(text))
        except SandboxError as error:
            return Edit(False, _line(error))
        return Edit(True, f"created {inside} ({len(_split(text))} lines)", inside)

    def str_replace(self, path: str, old: str, new: str) -> Edit:
        """Replace the one place where ``old`` stands, to the letter, by ``new``."""
        try:
            inside = self.sandbox.relative(path)
            text = self._text(inside)
            if not old:
                return Edit(False, "old_str is empty; insert puts text at a line")
            if old not in text and "\r\n" in text and "\r" not in old:
                old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
            count = text.count(old)
            if count != 1:
                return Edit(False, _not_once(text, old, inside, count))
            at = text.index(old)
            after = text[:at] + new + text[at + len(old) :]
            self.sandbox.write(inside, _bytes(after))
        except SandboxError as error:
            return Edit(False, _line(error))
        return Edit(True, _around(after, at, len(new), inside), inside)

    def insert(self, path: str, line: int, text: str) -> Edit:
        """Put ``text`` below line ``line``; 0 puts it first."""
        try:
            inside = self.sandbox.relative(path)
            before = self._text(inside)
            lines = _keep(before)
            if not 0 <= line <= len(lines):
                return Edit(
                    False, f"{inside} has {len(lines)} lines; text can go below line 0 to {len(lines)}, not {line}"
                )
            ending = "\r\n" if "\r\n" in before else "\n"
            added = text.replace("\r\n", "\n").replace("\n", ending)
            added += "" if added.endswith(ending) else ending
            head = "".join(lines[:line])
            head += ending if head and not head.endswith("\n") else ""
            after = head + added + "".join(lines[line:])
            self.sandbox.write(inside, _bytes(after))
        except SandboxError as error:
            return Edit(False, _line(error))
        return Edit(True, _around(after, len(head), len(added), inside), inside)

    def search(self, pattern: str, path: str = "", regex: bool = False) -> Edit:
        """Lines that hold ``pattern`` (or match it as an extended regular expression) in a file or below a folder."""
        if not pattern or "\n" in pattern or "\0" in pattern:
            return Edit(False, "the pattern must be one line of text, and not empty")
        try:
            inside = self.sandbox.relative(path)
            kind = "-E" if regex else "-F"
            command = (
                f"grep -rnI --exclude-dir=.git {kind} -e {shlex.quote(pattern)} -- {shlex.quote('./' + inside)} "
                f"| head -n {_MATCHES + 1} | cut -c 1-400; exit ${{PIPESTATUS[0]}}"
            )
            done = self.sandbox.run(command, limits=Limits(timeout=20, output=SHOWN))
        except SandboxError as error:
            return Edit(False, _line(error))
        lines = [line.removeprefix("./") for line in done.output.splitlines()]
        if done.timed_out:
            return Edit(False, "the search took more than 20 s; search a smaller folder, or for a plainer pattern")
        if not lines:
            return Edit(True, f"no line holds {escape(pattern)!r}")
        more = f"\n[... more than {_MATCHES} lines; narrow the search ...]" if len(lines) > _MATCHES else ""
        ok = done.exit_code in (0, 1, 141)
        return Edit(ok, "\n".join(lines[:_MATCHES]) + more)

    def _text(self, inside: str) -> str:
        return self.sandbox.read(inside, FILE_LIMIT).decode("utf-8", "surrogateescape")

    def _exists(self, inside: str) -> bool:
        try:
            self.sandbox.read(inside, 0)
        except SandboxError as error:  # every backend uses these words; see Sandbox.read
            if "no such file" in str(error):
                return False
            if "limit" not in str(error):
                raise
        return True

    def _folder(self, inside: str) -> Edit:
        names = self.sandbox.listing(inside, 2, _LISTED + 1)
        more = f"\n[... more than {_LISTED} names; view a folder further down ...]" if len(names) > _LISTED else ""
        where = f"{self.sandbox.workspace}/{inside}".rstrip("/")
        shown = "\n".join(escape(name).replace("\n", "\\n") for name in names[:_LISTED])
        return Edit(True, f"{where}, two levels:\n{shown}{more}")


def _line(error: SandboxError) -> str:
    return escape(str(error)).replace("\n", "\\n")


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise SandboxError(
            "the text holds half of a surrogate pair, which is no character; nothing was written"
        ) from None


def _split(text: str) -> list[str]:
    """Lines without their ends; only newlines end one."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _keep(text: str) -> list[str]:
    """Lines with their ends."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _numbered(lines: list[str], first: int, last: int, path: str) -> str:
    """Lines with numbers, as many as fit, and where to go on."""
    shown: list[str] = []
    room = SHOWN
    for number in range(first, min(last, first + _LINES - 1) + 1):
        line = escape(lines[number - 1].removesuffix("\r"))
        if len(line) > 1000:
            line = f"{line[:1000]} [... {len(line) - 1000} more characters]"
        room -= len(line) + 8
        if room < 0 and shown:
            break
        shown.append(f"{number:>6}\t{line}")
    reached = first + len(shown) - 1
    if reached < last:
        shown.append(f"[... {path} goes on to line {len(lines)}; view it from line {reached + 1} ...]")
    return "\n".join(shown)


def _around(text: str, at: int, length: int, path: str) -> str:
    """The changed lines with three on either side."""
    first, last = text.count("\n", 0, at) + 1, text.count("\n", 0, at + length) + 1
    lines = _split(text) or [""]
    return f"{path} now reads:\n" + _numbered(lines, max(1, first - 3), min(len(lines), last + 3), path)


def _not_once(text: str, old: str, path: str, count: int) -> str:
    if count:
        at = -1
        numbers: list[int] = []
        while len(numbers) < 10 and (at := text.find(old, at + 1)) >= 0:
            numbers.append(text.count("\n", 0, at) + 1)
        places = ", ".join(map(str, numbers))
        return f"old_str stands {count} times in {path} (lines {places}); add lines until it is unique"
    wanted = next((line.split() for line in old.split("\n") if line.strip()), [])
    for number, line in enumerate(_split(text), 1):
        if wanted and line.split() == wanted:
            return f"old_str is not in {path} to the letter; line {number} differs only in spaces: {escape(line)!r}"
    return f"old_str is not in {path}; view the file and copy the lines exactly, without line numbers"
