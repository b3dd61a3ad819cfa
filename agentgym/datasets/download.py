"""Downloads that go on where they stopped: HTTP ranges, retries with backoff, a hash at the end.

``httpx2`` (what the openai client is built on) honours HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY and SSL_CERT_FILE.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from agentgym.datasets.manifest import file_hash
from agentgym.errors import AgentGymError, DataError

TRIES = 5
#: seconds before the second try; doubled each time
BACKOFF = 1.0
#: answers after which another try makes sense
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


def download(
    url: str,
    target: Path,
    sha256: str = "",
    progress: Callable[[int, int | None], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Fetch ``url`` to ``target``; returns its SHA-256. A ``target`` that has the hash already is not fetched again.

    What an earlier try left in ``TARGET.part`` is gone on with where the server knows ranges. ``progress`` gets bytes
    so far and in all. Raises AgentGymError where the server gives up, DataError for a wrong hash (the file is removed).
    """
    if sha256 and target.is_file() and file_hash(target) == sha256:
        return sha256
    part = target.with_name(target.name + ".part")
    target.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(TRIES):
        try:
            _fetch(url, part, progress)
            break
        except _Again as again:
            if attempt == TRIES - 1:
                raise AgentGymError(
                    f"{url}: {again}, {TRIES} times. What came is kept in {part}; the same command goes on with it"
                ) from again
            sleep(BACKOFF * 2**attempt)
    seen = file_hash(part)
    if sha256 and seen != sha256:
        part.unlink()
        raise DataError(
            f"{url}: expected SHA-256 {sha256}, seen {seen}. The file was removed; try again or ask its owner"
        )
    os.replace(part, target)
    return seen


class _Again(Exception):
    """The try failed in a way that may pass."""


def _fetch(url: str, part: Path, progress: Callable[[int, int | None], None] | None) -> None:
    import httpx2 as httpx

    have = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    timeout = httpx.Timeout(30.0, read=60.0)
    try:
        with httpx.stream("GET", url, headers=headers, timeout=timeout, follow_redirects=True) as answer:
            if answer.status_code == 416 and _complete(answer.headers.get("content-range", ""), have):
                return
            if answer.status_code == 416:
                part.unlink()
                raise _Again("what was there before is longer than the file")
            if answer.status_code in PASSING:
                raise _Again(f"the server answered {answer.status_code}")
            if answer.status_code not in (200, 206):
                raise AgentGymError(f"{url}: the server answered {answer.status_code} {answer.reason_phrase}")
            resumed = have if answer.status_code == 206 else 0
            length = answer.headers.get("content-length")
            total = resumed + int(length) if length is not None and "content-encoding" not in answer.headers else None
            got = resumed
            with part.open("ab" if resumed else "wb") as file:
                for piece in answer.iter_bytes():
                    file.write(piece)
                    got += len(piece)
                    if progress is not None:
                        progress(got, total)
            if total is not None and got != total:
                raise _Again(f"{got} of {total} bytes came")
    except httpx.TransportError as error:
        raise _Again(f"{type(error).__name__}: {error}".rstrip(": ")) from error
    except httpx.InvalidURL as error:
        raise AgentGymError(f"{url}: {error}") from error


def _complete(content_range: str, have: int) -> bool:
    """Whether ``bytes */N`` says that nothing is missing."""
    return content_range.rpartition("/")[2] == str(have)
