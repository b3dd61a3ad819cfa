"""The episode store: one append-only, compressed file that survives ``kill -9``.

A file is a header (schema version, field order) and self-delimiting frames: marker, length, number of episodes,
checksums, then a zlib block of records (see :mod:`agentgym._episode_codec`). A frame is written in one go; after a
crash at most the last one is torn. Memory stays flat: 16 bytes a frame for the index, nothing else is kept.
"""

from __future__ import annotations

import bisect
import contextlib
import fcntl
import json
import logging
import os
import struct
import threading
import time
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentgym import _episode_codec as codec
from agentgym.errors import AgentGymError, DataError
from agentgym.types import Episode

if TYPE_CHECKING:
    import pandas
    import pyarrow

log = logging.getLogger(__name__)

SCHEMA = 1
_FILE_MARK = b"AGYMEPIS"
_FRAME_MARK = b"EPF1"
_FILE = struct.Struct("<8sII")  # marker, length and checksum of the JSON that follows
_FRAME = struct.Struct("<4sIIII")  # marker, payload length, episodes, payload checksum, checksum of these 16 bytes
_MAX_BLOCK = 1 << 20  # uncompressed bytes, after which a block is written without waiting

Table = Literal["episodes", "turns", "rows"]


class EpisodeStore:
    """Episodes in a file: ``append`` to write, iterate, ``len`` and ``store[i]`` to read, to Arrow, pandas, Parquet.

    ``flush_seconds``  an appended episode is in the file after at most this time, whatever then happens to the
                       process; 0: at once, at some cost in size. ``flush()`` writes what is waiting.
    ``fsync``          also force it to the disk, against power failure

    Writing takes the file's lock at the first ``append`` (or ``lock``); a second writer is refused, readers never
    are. A torn end is cut off then, logged, and counted in ``repaired_bytes``. Reading stops before a torn end
    (``torn_bytes``). Damage before the end is a DataError that names file and offset.
    """

    def __init__(self, path: str | os.PathLike[str], *, flush_seconds: float = 1.0, fsync: bool = False) -> None:
        self.path = Path(path)
        self.repaired_bytes = 0
        self.torn_bytes = 0
        self._flush_seconds, self._fsync = flush_seconds, fsync
        self._guard = threading.RLock()
        self._fd: int | None = None
        self._writing = False
        self._waiting: list[bytes] = []
        self._waiting_size = 0
        self._timer: threading.Timer | None = None
        self._failure: Exception | None = None
        self._last_flush = -float("inf")
        self._end = 0  # file offset after the last whole frame known
        self._offsets = array("Q")
        self._counts = array("Q")  # episodes up to and including each frame
        self._task_fields: tuple[str, ...] = codec.TASK_FIELDS
        self._turn_fields: tuple[str, ...] = codec.TURN_FIELDS
        self._cached: tuple[int, list[tuple[memoryview, memoryview]]] = (-1, [])

    def __enter__(self) -> EpisodeStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    # ---- writing

    def lock(self) -> None:
        """Become the one writer: create the file, or repair its torn end. AgentGymError if there is another writer."""
        with self._guard:
            if self._writing:
                return
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
            if self._fd is not None:
                os.close(self._fd)
            self._fd = fd
            self._repair()
            self._writing = True

    def _repair(self) -> None:
        assert self._fd is not None
        size = os.fstat(self._fd).st_size
        if size < _FILE.size:  # new, or died while the header was written
            self._reset_index()
            text = json.dumps(
                {"schema": SCHEMA, "task_fields": codec.TASK_FIELDS, "turn_fields": codec.TURN_FIELDS}
            ).encode()
            os.ftruncate(self._fd, 0)
            self._end = 0
            self._write(_FILE.pack(_FILE_MARK, len(text), zlib.crc32(text)) + text)
            return
        self._scan()
        if self._offsets:  # a crash of the machine can leave a last frame of the right length and wrong content
            try:
                self._block(len(self._offsets) - 1)
            except DataError:
                self._end = self._offsets.pop()
                self._counts.pop()
        if size > self._end:
            self.repaired_bytes = size - self._end
            self.torn_bytes = 0
            os.ftruncate(self._fd, self._end)
            log.warning(
                "%s: cut %d bytes of a torn last write; %d whole episodes remain",
                self.path, self.repaired_bytes, len(self),
            )  # fmt: skip
        if (self._task_fields, self._turn_fields) != (codec.TASK_FIELDS, codec.TURN_FIELDS):
            raise DataError(f"{self.path} was begun by another version with other fields; append to a new file")

    def append(self, episode: Episode) -> None:
        """Add one episode. TypeError if its info or data is not JSON-compatible; OSError if the disk refuses."""
        record = codec.encode(episode)
        with self._guard:
            self.lock()
            self._raise_failure()
            self._waiting.append(record)
            self._waiting_size += len(record)
            if self._waiting_size >= _MAX_BLOCK or time.monotonic() - self._last_flush >= self._flush_seconds:
                self.flush()
            elif self._timer is None:
                self._timer = threading.Timer(self._flush_seconds, self._flush_late)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Write all waiting episodes into the file."""
        with self._guard:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._raise_failure()
            if not self._waiting:
                return
            payload = zlib.compress(b"".join(self._waiting), 1)
            head = _FRAME.pack(_FRAME_MARK, len(payload), len(self._waiting), zlib.crc32(payload), 0)[:-4]
            start = self._end
            self._write(head + struct.pack("<I", zlib.crc32(head)) + payload)
            self._offsets.append(start)
            self._counts.append((self._counts[-1] if self._counts else 0) + len(self._waiting))
            self._waiting, self._waiting_size = [], 0
            self._last_flush = time.monotonic()

    def _write(self, data: bytes) -> None:
        assert self._fd is not None
        view = memoryview(data)
        try:
            done = 0
            while done < len(view):
                done += os.pwrite(self._fd, view[done:], self._end + done)
        except OSError:
            with contextlib.suppress(OSError):  # a half-written frame must not be followed by another
                os.ftruncate(self._fd, self._end)
            raise
        if self._fsync:
            os.fsync(self._fd)
        self._end += len(data)

    def _flush_late(self) -> None:
        with self._guard:
            self._timer = None
            try:
                self.flush()
            except Exception as error:  # raised to the next caller: nobody sees a timer's exception
                self._failure = error

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Flush, give up the lock. Reading and writing open the file again."""
        with self._guard:
            try:
                if self._writing:
                    self.flush()
            finally:
                self._writing = False
                if self._fd is not None:
                    os.close(self._fd)
                    self._fd = None

    # ---- reading

    def __len__(self) -> int:
        """Whole episodes in the file now, those of another writer included."""
        with self._guard:
            self._look()
            return self._counts[-1] if self._counts else 0

    def __iter__(self) -> Iterator[Episode]:
        """All episodes in order of writing, one block in memory at a time."""
        frame = 0
        while True:
            with self._guard:
                self._look()
                if frame >= len(self._offsets):
                    return
                records = self._block(frame)
            for text, arrays in records:
                yield codec.decode(text, arrays, self._task_fields, self._turn_fields)
            frame += 1

    def __getitem__(self, index: int) -> Episode:
        """Episode by number, negative from the end; decompresses one block."""
        with self._guard:
            count = len(self)
            place = index + count if index < 0 else index
            if not 0 <= place < count:
                raise IndexError(f"episode {index} of {count} in {self.path}")
            frame = bisect.bisect_right(self._counts, place)
            text, arrays = self._block(frame)[place - (self._counts[frame - 1] if frame else 0)]
            return codec.decode(text, arrays, self._task_fields, self._turn_fields)

    def _look(self) -> None:
        """Take note of frames that are new in the file."""
        if self._writing:
            self.flush()
            return
        if self._fd is None:
            try:
                self._fd = os.open(self.path, os.O_RDONLY)
            except FileNotFoundError:
                raise DataError(f"no episode store at {self.path}") from None
        self._scan()

    def _reset_index(self) -> None:
        self._end, self._offsets, self._counts = 0, array("Q"), array("Q")
        self._cached = (-1, [])

    def _scan(self) -> None:
        assert self._fd is not None
        size = os.fstat(self._fd).st_size
        if self._end == 0:
            self._read_header(size)
        while self._end < size:
            head = os.pread(self._fd, _FRAME.size, self._end)
            if len(head) < _FRAME.size:
                break
            mark, length, count, _, check = _FRAME.unpack(head)
            if mark != _FRAME_MARK or check != zlib.crc32(head[:-4]):
                later = self._find_frame(self._end + 1)
                if later is not None:
                    raise DataError(
                        f"{self.path}: damaged at offset {self._end}: no frame there, the next whole one is at {later}"
                    )
                break
            if self._end + _FRAME.size + length > size:
                break
            self._offsets.append(self._end)
            self._counts.append((self._counts[-1] if self._counts else 0) + count)
            self._end += _FRAME.size + length
        self.torn_bytes = size - self._end

    def _read_header(self, size: int) -> None:
        assert self._fd is not None
        mark, length, check = _FILE.unpack(os.pread(self._fd, _FILE.size, 0).ljust(_FILE.size, b"\0"))
        text = os.pread(self._fd, length, _FILE.size) if mark == _FILE_MARK else b""
        if mark != _FILE_MARK or zlib.crc32(text) != check:
            raise DataError(f"{self.path}: offset 0: not an episode store, or its header is damaged ({size} bytes)")
        header = json.loads(text)
        if header["schema"] != SCHEMA:
            raise DataError(f"{self.path}: schema {header['schema']}, this version reads {SCHEMA}; upgrade agentgym")
        self._task_fields, self._turn_fields = tuple(header["task_fields"]), tuple(header["turn_fields"])
        self._end = _FILE.size + length

    def _find_frame(self, start: int) -> int | None:
        """The offset of the first whole frame header at or after ``start``."""
        assert self._fd is not None
        at, step = start, 1 << 20
        while chunk := os.pread(self._fd, step + _FRAME.size, at):
            found = chunk.find(_FRAME_MARK)
            while 0 <= found < step:
                head = chunk[found : found + _FRAME.size]
                if len(head) == _FRAME.size and _FRAME.unpack(head)[4] == zlib.crc32(head[:-4]):
                    return at + found
                found = chunk.find(_FRAME_MARK, found + 1)
            at += step
        return None

    def _block(self, frame: int) -> list[tuple[memoryview, memoryview]]:
        if self._cached[0] == frame:
            return self._cached[1]
        assert self._fd is not None
        start = self._offsets[frame]
        head = os.pread(self._fd, _FRAME.size, start)
        _, length, count, check, _ = _FRAME.unpack(head)
        payload = os.pread(self._fd, length, start + _FRAME.size)
        if len(payload) != length or zlib.crc32(payload) != check:
            raise DataError(f"{self.path}: damaged at offset {start}: checksum of {count} episodes does not match")
        records = codec.split(zlib.decompress(payload))
        self._cached = (frame, records)
        return records

    # ---- tables

    def to_arrow(self, table: Table = "episodes") -> pyarrow.Table:
        """All ``episodes``, ``turns`` or token ``rows`` as an Arrow table; the three join on ``episode``."""
        from agentgym import _episode_tables as tables

        return tables.arrow(self, table)

    def to_pandas(self, table: Table = "episodes") -> pandas.DataFrame:
        """The same as a pandas frame."""
        return self.to_arrow(table).to_pandas()

    def to_parquet(self, path: str | os.PathLike[str], table: Table = "episodes") -> None:
        """The same as a Parquet file, written in parts with flat memory."""
        from agentgym import _episode_tables as tables

        tables.parquet(self, path, table)
