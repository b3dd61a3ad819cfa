"""Output of commands: bounded capture of bytes, and text that is safe to show to models, logs and browsers."""

from __future__ import annotations

import re
import unicodedata

#: terminal sequences that only colour, move or name things: CSI, OSC/DCS/PM/APC/SOS strings, two-byte ones (ECMA-48)
_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[ -/]*[0-Z\\^-~]"
)
_SUSPECT = re.compile("[^\t\n -~\u00a1-\u00ac\u00ae-\u02ff]")
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp", "Cn", "Co"}


def clean(text: str) -> str:
    """``text`` without terminal sequences; other control, format, bidi and unassigned characters are escaped.

    Keeps newlines and tabs; carriage returns become newlines. What is left prints as it reads: nothing of it can
    move a cursor, reorder a line or hide.
    """
    text = _SEQUENCES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _SUSPECT.sub(_escaped, text)


def escape(text: str) -> str:
    """``text`` with all control, format, bidi and unassigned characters escaped but newlines and tabs: for files,
    where what is hidden matters."""
    return _SUSPECT.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if unicodedata.category(character) in _HIDDEN:
        return character.encode("unicode_escape", "backslashreplace").decode("ascii")
    return character


class Capture:
    """Keeps the head and the tail of a stream within ``limit`` bytes; memory stays flat however much comes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._head_room = limit - limit // 2
        self._tail_room = limit // 2
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes | memoryview) -> None:
        """The next bytes."""
        self.total += len(data)
        missing = self._head_room - len(self._head)
        if missing > 0:
            self._head += data[:missing]
            data = data[missing:]
        if len(data) >= self._tail_room:
            self._tail[:] = data[len(data) - self._tail_room :]
        elif data:
            self._tail += data
            if len(self._tail) > 2 * self._tail_room:
                del self._tail[: len(self._tail) - self._tail_room]

    @property
    def tail(self) -> bytes:
        """The last bytes, at most half of the limit."""
        return bytes(self._tail[max(0, len(self._tail) - self._tail_room) :])

    @property
    def raw(self) -> bytes:
        """The kept bytes; the gap is not marked."""
        return bytes(self._head) + self.tail

    @property
    def left_out(self) -> int:
        """Bytes seen and not kept."""
        return self.total - len(self._head) - len(self.tail)

    def text(self) -> str:
        """The kept output as safe text, with a line that says how much is missing in the middle."""
        if not self.left_out:
            return clean(self.raw.decode("utf-8", "replace"))
        head, tail = _whole_end(bytes(self._head)), _whole_start(self.tail)
        dropped = self.total - len(head) - len(tail)
        gap = f"\n[... {dropped} bytes left out ...]\n"
        return clean(head.decode("utf-8", "replace")) + gap + clean(tail.decode("utf-8", "replace"))


def _whole_end(data: bytes) -> bytes:
    """``data`` without a UTF-8 character that is cut off at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        size = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if size > back else data
    return data


def _whole_start(data: bytes) -> bytes:
    """``data`` without the rest of a UTF-8 character at its start."""
    for start in range(min(4, len(data))):
        if data[start] & 0xC0 != 0x80:
            return data[start:]
    return data
