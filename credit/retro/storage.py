"""The lesson memory's file: SQLite in WAL mode, one writer, whole steps or nothing; readers leave no trace.

A writer holds ``<file>.lock``. A reader works on a private copy, so that not one byte near the file changes. A file
that SQLite cannot read is set aside as ``<file>.damaged-N`` by a writer, and passed over by a reader.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import numpy as np

from agentgym._sqlite import foreign
from agentgym.credit.retro.embeddings import Vectors
from agentgym.credit.retro.entries import Lesson
from agentgym.errors import ConfigError, DataError

log = logging.getLogger(__name__)
APPLICATION_ID, VERSION = 0x41474C4D, 1  # "AGLM"
_COLUMNS = ("id", "task_ids", "task", "text", "split", "source", "step", "success", "utility", "count", "vector")
_REFUSED = (  # the surroundings, not the file, are at fault: nothing is set aside
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN,
)  # fmt: skip
_SCHEMA = """
CREATE TABLE IF NOT EXISTS lessons (
    id TEXT PRIMARY KEY, task_ids TEXT NOT NULL, task TEXT NOT NULL, text TEXT NOT NULL, split TEXT NOT NULL,
    source TEXT NOT NULL, step INTEGER NOT NULL, success INTEGER NOT NULL, utility REAL NOT NULL,
    count INTEGER NOT NULL, vector BLOB);
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


class LessonFile:
    """Rows on disk. ``writable`` takes the lock and creates the file; otherwise nothing on disk changes.

    ``damaged_files``, ``damaged_rows``: what could not be read. Raises ConfigError for a path that is a folder, another
    application's database or a newer version, or that another process writes.
    """

    def __init__(self, path: Path, *, writable: bool) -> None:
        self.path, self.writable = path, writable
        self.damaged_files = self.damaged_rows = 0
        self._lock: IO[str] | None = None
        self._db: sqlite3.Connection | None = None
        if path.is_dir():
            raise ConfigError(f"lesson memory {path} is a folder; give a file, such as {path / 'lessons.sqlite'}")
        if foreign(path):
            raise ConfigError(f"lesson memory {path} is no SQLite file; give another path, or move it away")
        if writable:
            self._lock = _take_lock(path)
            try:
                self._db = self._open()
            except BaseException:
                self.close()
                raise

    def load(self) -> tuple[str, list[tuple[Lesson, Vectors | None]]]:
        """The name of the embedder that made the vectors, and all readable lessons by id."""
        if self._db is not None:
            try:
                return self._read(self._db)
            except sqlite3.DatabaseError as error:
                self._db.close()
                self._db = self._begin_anew(error)
                return "", []
        if not self.path.exists():
            return "", []
        with tempfile.TemporaryDirectory(prefix="agentgym-lessons-") as folder:
            copy = Path(folder) / "copy.sqlite"
            try:
                for suffix in ("", "-wal"):
                    if (source := _beside(self.path, suffix)).exists():
                        shutil.copyfile(source, _beside(copy, suffix))
                with closing(_connect(copy)) as db:
                    _check(db, self.path)
                    return self._read(db)
            except (sqlite3.Error, OSError) as error:
                self.damaged_files += 1
                log.warning("lesson memory %s could not be read (%s); going on without lessons", self.path, error)
                return "", []

    def write(self, embedder: str, changed: Iterable[tuple[Lesson, Vectors]], gone: Iterable[str], anew: bool) -> None:
        """One transaction: ``anew`` empties the table first. Raises DataError where the disk refuses."""
        if self._db is None:
            raise DataError(f"lesson memory {self.path} was opened for reading")
        rows = [_to_columns(lesson, vector) for lesson, vector in changed]
        marks = ", ".join("?" * len(_COLUMNS))
        try:
            with self._db:
                if anew:
                    self._db.execute("DELETE FROM lessons")
                self._db.executemany("DELETE FROM lessons WHERE id = ?", [(key,) for key in gone])
                self._db.executemany(f"INSERT OR REPLACE INTO lessons ({', '.join(_COLUMNS)}) VALUES ({marks})", rows)
                self._db.execute("INSERT OR REPLACE INTO meta VALUES ('embedder', ?)", (embedder,))
        except sqlite3.Error as error:
            raise DataError(
                f"lesson memory {self.path}: {len(rows)} lessons could not be written: {error}. "
                "Is the disk full or the folder read-only? What the file held before is still there"
            ) from error

    def close(self) -> None:
        """Fold the WAL into the file, close it and let the next writer in."""
        if self._db is not None:
            self._db.close()  # the last connection checkpoints and removes -wal and -shm
            self._db = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _open(self) -> sqlite3.Connection:
        try:
            return _prepare(_connect(self.path), self.path)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _REFUSED:
                raise ConfigError(f"lesson memory {self.path} could not be opened: {error}") from error
            return self._begin_anew(error)

    def _begin_anew(self, error: Exception) -> sqlite3.Connection:
        aside = _set_aside(self.path)
        self.damaged_files += 1
        log.warning("lesson memory %s is damaged (%s); kept as %s, beginning anew", self.path, error, aside.name)
        return _prepare(_connect(self.path), self.path)

    def _read(self, db: sqlite3.Connection) -> tuple[str, list[tuple[Lesson, Vectors | None]]]:
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'lessons'").fetchone():
            return "", []
        named = db.execute("SELECT value FROM meta WHERE key = 'embedder'").fetchone()
        out: list[tuple[Lesson, Vectors | None]] = []
        for values in db.execute(f"SELECT {', '.join(_COLUMNS)} FROM lessons ORDER BY id"):
            try:
                row = dict(zip(_COLUMNS, values, strict=True))
                row["task_ids"] = json.loads(row["task_ids"])
                vector = row["vector"]
                kept = np.frombuffer(vector, "<f4").astype(np.float32) if isinstance(vector, bytes) else None
                out.append((Lesson.from_row(row), kept))
            except (ValueError, TypeError, KeyError) as error:
                self.damaged_rows += 1
                log.warning("lesson memory %s: row %r is no lesson and is passed over: %s", self.path, values[0], error)
        return (str(named[0]) if named else ""), out


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=5.0, check_same_thread=False)
    db.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return db


def _prepare(db: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    try:
        _check(db, path)
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'lessons'").fetchone():
            db.execute(f"SELECT {', '.join(_COLUMNS)} FROM lessons LIMIT 1")  # raises before anything is written
        db.execute("PRAGMA page_size = 16384")  # several vectors a page; takes effect where the file is new
        db.execute("PRAGMA journal_mode = WAL")  # where a file system has no shared memory, SQLite keeps its journal
        db.execute("PRAGMA synchronous = FULL")  # one transaction a training step: durability costs nothing there
        db.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; {_SCHEMA}")
    except BaseException:
        db.close()
        raise
    return db


def _check(db: sqlite3.Connection, path: Path) -> None:
    found = db.execute("PRAGMA quick_check(1)").fetchone()
    if found != ("ok",):
        raise sqlite3.DatabaseError(str(found[0]))
    application = db.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID and db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise ConfigError(f"lesson memory {path} is another application's SQLite database; give another path")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise ConfigError(f"lesson memory {path} has version {version}, this agentgym reads up to {VERSION}; update it")


def _take_lock(path: Path) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(_beside(path, ".lock"), "a", encoding="utf-8")  # noqa: SIM115 (held until close)
    except OSError as error:
        raise ConfigError(f"lesson memory {path} could not be created: {error}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise ConfigError(
            f"lesson memory {path} is being written by another training run. Give this run a memory of its own "
            "(retro: {path: ...}), or wait until the other has ended"
        ) from None
    return file


def _set_aside(path: Path) -> Path:
    number = 1
    while _beside(path, f".damaged-{number}").exists():
        number += 1
    aside = _beside(path, f".damaged-{number}")
    for suffix in ("-wal", "-shm", ""):
        if (source := _beside(path, suffix)).exists():
            os.replace(source, _beside(aside, suffix))
    return aside


def _to_columns(lesson: Lesson, vector: Vectors) -> tuple[Any, ...]:
    row: Mapping[str, Any] = {
        **lesson.row(),
        "task_ids": json.dumps(lesson.task_ids),
        "success": int(lesson.success),
        "vector": vector.astype("<f4").tobytes(),
    }
    return tuple(row[name] for name in _COLUMNS)
