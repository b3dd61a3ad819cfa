"""The file under :class:`agentgym.store.EpisodeStore`: a header, then self-delimiting checksummed frames.

A frame is marker, payload length, number of records, payload checksum, checksum of these 16 bytes, and the payload.
With a checksum on the header of each frame, a torn end (cut it off) and damage before the end (an error) are told
apart for certain. The index takes 16 bytes a frame.
"""

from __future__ import annotations

import bisect
import contextlib
import fcntl
import json
import logging
import os
import stat
import struct
import zlib
from array import array
from pathlib import Path

from agentgym import _episode_codec as codec
from agentgym.errors import AgentGymError, DataError

log = logging.getLogger(__name__)

SCHEMA = 1
_FILE_MARK = b"AGYMEPIS"
_FRAME_MARK = b"EPF1"
_FILE = struct.Struct("<8sII")  # marker, length and checksum of the JSON that follows
_FRAME = struct.Struct("<4sIIII")
_CHUNK = 1 << 20

Record = tuple[memoryview, memoryview]


def _header() -> bytes:
    content = {"schema": SCHEMA, "task_fields": codec.TASK_FIELDS, "turn_fields": codec.TURN_FIELDS}
    text = json.dumps(content).encode()
    return _FILE.pack(_FILE_MARK, len(text), zlib.crc32(text)) + text


class FrameFile:
    """One open file. Not locked against threads; the store does that.

    ``end``: offset behind the last whole frame known; ``torn``: bytes behind it; ``writing``: this is the writer.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fd: int | None = None
        self.writing = False
        self.end = 0
        self.torn = 0
        self.offsets = array("Q")
        self.counts = array("Q")  # records up to and including each frame
        self.task_fields: tuple[str, ...] = codec.TASK_FIELDS
        self.turn_fields: tuple[str, ...] = codec.TURN_FIELDS
        self._cached: tuple[int, list[Record]] = (-1, [])

    @property
    def records(self) -> int:
        """Records in whole frames."""
        return self.counts[-1] if self.counts else 0

    def open_to_read(self) -> None:
        """Open, unless open. DataError where there is no file."""
        if self.fd is None:
            try:
                self.fd = os.open(self.path, os.O_RDONLY)
            except (FileNotFoundError, NotADirectoryError):
                raise DataError(f"no episode store at {self.path}") from None
            if not stat.S_ISREG(os.fstat(self.fd).st_mode):
                self.close()
                raise DataError(f"{self.path} is not a file, expected an episode store")

    def open_to_write(self) -> int:
        """Lock, create or repair; gives the number of torn bytes cut off."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise AgentGymError(
                f"{self.path} is being written by another process or store. Reading it is fine; to write, "
                "close the other writer or give another path."
            ) from None
        self.close()
        self.fd = fd
        try:
            cut = self._repair()
        except BaseException:
            self.close()
            raise
        self.writing = True
        return cut

    def _repair(self) -> int:
        assert self.fd is not None
        header, size = _header(), os.fstat(self.fd).st_size
        if size < len(header) and header.startswith(os.pread(self.fd, size, 0)):  # new, or died in the header
            self.end = 0
            self._write(header)
            return 0
        self.scan()
        if (self.task_fields, self.turn_fields) != (codec.TASK_FIELDS, codec.TURN_FIELDS):
            raise DataError(f"{self.path} was begun by another version with other fields; append to a new file")
        if self.offsets:  # a crash of the machine can leave a last frame of the right length and wrong content
            try:
                self.block(len(self.offsets) - 1)
            except DataError:
                self.end = self.offsets.pop()
                self.counts.pop()
        cut = size - self.end
        if cut:
            os.ftruncate(self.fd, self.end)
            self.torn = 0
            log.warning("%s: cut %d bytes of a torn last write; %d whole episodes remain", self.path, cut, self.records)
        return cut

    def add(self, payload: bytes, count: int, sync: bool) -> None:
        """Write one frame. After an OSError the file is as before."""
        head = _FRAME.pack(_FRAME_MARK, len(payload), count, zlib.crc32(payload), 0)[:-4]
        start = self.end
        self._write(head + struct.pack("<I", zlib.crc32(head)) + payload)
        if sync and self.fd is not None:
            os.fsync(self.fd)
        self.offsets.append(start)
        self.counts.append(self.records + count)

    def _write(self, data: bytes) -> None:
        assert self.fd is not None
        view, done = memoryview(data), 0
        try:
            while done < len(view):
                done += os.pwrite(self.fd, view[done:], self.end + done)
        except OSError:
            with contextlib.suppress(OSError):  # a half-written frame must not be followed by another
                os.ftruncate(self.fd, self.end)
            raise
        self.end += len(data)

    def scan(self) -> None:
        """Take note of frames that are new in the file. DataError for damage that is not a torn end."""
        assert self.fd is not None
        size = os.fstat(self.fd).st_size
        if self.end == 0 and not self._read_header(size):
            return
        while self.end < size:
            head = os.pread(self.fd, _FRAME.size, self.end)
            if len(head) < _FRAME.size:
                break
            mark, length, count, _, check = _FRAME.unpack(head)
            if mark != _FRAME_MARK or check != zlib.crc32(head[:-4]):
                later = self._find_frame(self.end + 1)
                if later is None:
                    break
                raise DataError(f"{self.path}: damaged at offset {self.end}: the next whole frame begins at {later}")
            if self.end + _FRAME.size + length > size:
                break
            self.offsets.append(self.end)
            self.counts.append(self.records + count)
            self.end += _FRAME.size + length
        self.torn = size - self.end

    def _read_header(self, size: int) -> bool:
        assert self.fd is not None
        start = os.pread(self.fd, _FILE.size, 0)
        mark, length, check = _FILE.unpack(start.ljust(_FILE.size, b"\0"))
        text = os.pread(self.fd, min(length, size), _FILE.size) if mark == _FILE_MARK else b""
        if mark != _FILE_MARK or not 0 < len(text) == length or zlib.crc32(text) != check:
            if _header().startswith(start + text):  # its writer is just beginning, or died then
                self.torn = size
                return False
            raise DataError(f"{self.path}: offset 0: not an episode store, or its header is damaged ({size} bytes)")
        header = json.loads(text)
        if header["schema"] != SCHEMA:
            raise DataError(f"{self.path}: schema {header['schema']}, this version reads {SCHEMA}; upgrade agentgym")
        self.task_fields, self.turn_fields = tuple(header["task_fields"]), tuple(header["turn_fields"])
        self.end = _FILE.size + length
        return True

    def _find_frame(self, start: int) -> int | None:
        """The offset of the first whole frame header at or after ``start``."""
        assert self.fd is not None
        at = start
        while chunk := os.pread(self.fd, _CHUNK + _FRAME.size, at):
            found = chunk.find(_FRAME_MARK)
            while 0 <= found < _CHUNK:
                head = chunk[found : found + _FRAME.size]
                if len(head) == _FRAME.size and _FRAME.unpack(head)[4] == zlib.crc32(head[:-4]):
                    return at + found
                found = chunk.find(_FRAME_MARK, found + 1)
            at += _CHUNK
        return None

    def block(self, frame: int) -> list[Record]:
        """The records of a frame; the last one asked for is kept."""
        if self._cached[0] == frame:
            return self._cached[1]
        assert self.fd is not None
        start = self.offsets[frame]
        _, length, count, check, _ = _FRAME.unpack(os.pread(self.fd, _FRAME.size, start))
        payload = os.pread(self.fd, length, start + _FRAME.size)
        if len(payload) != length or zlib.crc32(payload) != check:
            raise DataError(f"{self.path}: damaged at offset {start}: checksum of {count} episodes does not match")
        records = codec.split(zlib.decompress(payload))
        self._cached = (frame, records)
        return records

    def record(self, place: int) -> Record:
        """Record number ``place``, counted from 0."""
        frame = bisect.bisect_right(self.counts, place)
        return self.block(frame)[place - (self.counts[frame - 1] if frame else 0)]

    def close(self) -> None:
        """Close, give up the lock, forget the index."""
        self.writing = False
        if self.fd is not None:
            os.close(self.fd)
        self.fd, self.end, self.torn = None, 0, 0
        self.offsets, self.counts = array("Q"), array("Q")
        self._cached = (-1, [])
