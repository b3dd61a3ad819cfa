"""The episode store: one append-only, compressed file with flat memory that survives ``kill -9``.

Each block of episodes is one zlib frame, written in one go (see :mod:`agentgym._frames`), so that after a crash at most
the last frame is torn. Episodes come back exactly as they were, tokens bit for bit (:mod:`agentgym._episode_codec`).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentgym import _episode_codec as codec
from agentgym._frames import FrameFile
from agentgym.types import Episode

if TYPE_CHECKING:
    import pandas
    import pyarrow

_MAX_BLOCK = 1 << 20  # uncompressed bytes, after which a block is written without waiting

Table = Literal["episodes", "turns", "rows"]


class EpisodeStore:
    """Episodes in a file: ``append`` to write, iterate, ``len`` and ``store[i]`` to read, to Arrow, pandas, Parquet.

    ``flush_seconds``  an appended episode is in the file after at most this time, whatever then happens to the
                       process; 0: at once, at some cost in size. ``flush()`` writes what is waiting.
    ``fsync``          also force it to the disk, against power failure

    Writing takes the file's lock at the first ``append`` (or ``lock``); a second writer is refused with an
    AgentGymError, readers never are. A torn end is cut off then, logged, and counted in ``repaired_bytes``; reading
    alone stops before it and changes nothing. Damage before the end is a DataError that names file and offset.
    Safe to use from several threads.
    """

    def __init__(self, path: str | os.PathLike[str], *, flush_seconds: float = 1.0, fsync: bool = False) -> None:
        self.path = Path(path)
        self.repaired_bytes = 0
        self._flush_seconds, self._fsync = flush_seconds, fsync
        self._file = FrameFile(self.path)
        self._guard = threading.RLock()
        self._waiting: list[bytes] = []
        self._waiting_size = 0
        self._timer: threading.Timer | None = None
        self._failure: Exception | None = None
        self._last_flush = -float("inf")

    def __enter__(self) -> EpisodeStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    @property
    def torn_bytes(self) -> int:
        """Bytes of an unfinished write behind the last whole episode, as of the last look."""
        return self._file.torn

    def lock(self) -> None:
        """Become the one writer: create the file, or repair its torn end. AgentGymError if there is another writer."""
        with self._guard:
            if not self._file.writing:
                self.repaired_bytes = self._file.open_to_write()

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
        """Write all waiting episodes into the file. After an OSError they wait on."""
        with self._guard:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._raise_failure()
            if self._waiting:
                self._file.add(zlib.compress(b"".join(self._waiting), 1), len(self._waiting), self._fsync)
                self._waiting, self._waiting_size = [], 0
                self._last_flush = time.monotonic()

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
        """Flush and give up the lock. Reading or appending opens the file again."""
        with self._guard:
            try:
                self.flush()
            finally:
                self._file.close()

    def _look(self) -> None:
        """Take note of episodes that are new in the file."""
        if self._file.writing:
            self.flush()
        else:
            self._file.open_to_read()
            self._file.scan()

    def __len__(self) -> int:
        """Whole episodes in the file now, those of another writer included."""
        with self._guard:
            self._look()
            return self._file.records

    def __iter__(self) -> Iterator[Episode]:
        """All episodes in order of writing, one block in memory at a time."""
        frame = 0
        while True:
            with self._guard:
                self._look()
                if frame >= len(self._file.offsets):
                    return
                records = self._file.block(frame)
            for text, arrays in records:
                yield codec.decode(text, arrays, self._file.task_fields, self._file.turn_fields)
            frame += 1

    def __getitem__(self, index: int) -> Episode:
        """Episode by number, negative from the end; decompresses one block."""
        with self._guard:
            count = len(self)
            place = index + count if index < 0 else index
            if not 0 <= place < count:
                raise IndexError(f"episode {index} of {count} in {self.path}")
            text, arrays = self._file.record(place)
            return codec.decode(text, arrays, self._file.task_fields, self._file.turn_fields)

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
