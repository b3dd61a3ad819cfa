"""Passages that can be searched, from memory or from a file.

A file may be plain or end in ``.gz`` or ``.xz`` and holds JSON lines or one JSON list of

* ``{"id": ..., "contents": "\"Title\"\\ntext"}``, the layout of Search-R1's corpora and of FlashRAG, or
* ``{"title": ..., "text": ...}``
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, cast

from agentgym.errors import DataError

_LOCK: Final = threading.Lock()
_READ: Final[dict[tuple[str, int, int], Corpus]] = {}


class Passage(NamedTuple):
    """A passage as it was found; ``score`` is the retriever's own and only orders them."""

    title: str
    text: str
    score: float = 0.0


class Corpus(Sequence[tuple[str, str]]):
    """(title, text) pairs in a fixed order. ``source``: where they came from, for messages."""

    def __init__(self, passages: Iterable[tuple[str, str]], source: str) -> None:
        self._passages = list(passages)
        self.source = source
        if not self._passages:
            raise DataError(f"{source}: holds no passage; expected at least one")

    def __len__(self) -> int:
        return len(self._passages)

    def __getitem__(self, index: Any) -> Any:
        return self._passages[index]

    @cached_property
    def hash(self) -> str:
        """Content hash over titles and texts in order; the same on every machine."""
        digest = hashlib.blake2b(digest_size=8)
        for title, text in self._passages:
            digest.update(f"{len(title)} {len(text)} {title}{text}".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def passage(self, index: int, score: float) -> Passage:
        """A passage as it was found."""
        title, text = self._passages[index]
        return Passage(title, text, score)


def split_contents(contents: str) -> tuple[str, str]:
    """Title and text of Search-R1's ``contents``: the first line, without its quotes, is the title."""
    title, _, text = contents.partition("\n")
    title = title.strip()
    if len(title) > 1 and title[0] == title[-1] == '"':
        title = title[1:-1]
    return title, text


def read_corpus(path: Path) -> Corpus:
    """The corpus of a file; read once per process and again only where the file has changed."""
    try:
        stamp = path.stat()
    except OSError as error:
        raise DataError(f"corpus {path}: cannot be read ({error.strerror}). Is the path right?") from error
    key = (str(path), stamp.st_mtime_ns, stamp.st_size)
    with _LOCK:
        if key not in _READ:
            if len(_READ) >= 2:
                _READ.pop(next(iter(_READ)))
            _READ[key] = Corpus((_passage(where, row) for where, row in read_rows(path)), str(path))
        return _READ[key]


def _passage(where: str, row: Any) -> tuple[str, str]:
    title, text, contents = (row.get(key) for key in ("title", "text", "contents"))
    if isinstance(contents, str) and contents.strip():
        return split_contents(contents)
    if isinstance(title, str) and isinstance(text, str) and (title or text):
        return title, text
    raise DataError(f"{where}: a passage needs 'contents', or 'title' and 'text', as texts; it has {sorted(row)[:8]}")


def read_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place for messages, object) of a JSON-lines or JSON-list file. DataError names file, line and cure."""
    line = 0
    try:
        with _open(path) as file:
            if ".jsonl" not in path.name:
                yield from _listed(path, json.load(file))
                return
            for line, text in enumerate(file, 1):
                if text.strip():
                    yield f"{path}, line {line}", _object(f"{path}, line {line}", json.loads(text))
    except (lzma.LZMAError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: damaged or truncated after line {line} ({error}). Copy the file again.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 after line {line} ({error.reason}). Get the file again.") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON, line {line or 1} or after ({error}). Get the file again.") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def _open(path: Path) -> IO[str]:
    if path.suffix == ".xz":
        return cast(IO[str], lzma.open(path, "rt", encoding="utf-8"))
    if path.suffix == ".gz":
        return cast(IO[str], gzip.open(path, "rt", encoding="utf-8"))
    return io.open(path, encoding="utf-8")  # noqa: UP020 - beside its two brothers


def _listed(path: Path, value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if not isinstance(value, list):
        raise DataError(
            f"{path}: expected a JSON list of objects, got {type(value).__name__} (JSON lines: name *.jsonl)"
        )
    for number, row in enumerate(value):
        yield f"{path}, entry {number}", _object(f"{path}, entry {number}", row)


def _object(where: str, row: Any) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise DataError(f"{where}: expected a JSON object, got {type(row).__name__}")
    return dict(row)
