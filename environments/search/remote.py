"""A client for retrieval servers with Search-R1's ``/retrieve`` interface.

``POST {"queries": [...], "topk": k, "return_scores": true}`` is answered by
``{"result": [[{"document": {"contents": "\"Title\"\\ntext"}, "score": s}, ...], ...]}``. A server that fails is a
failure of the environment, never an observation: the policy is not told that nothing was found.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Final

from agentgym.environments.search.corpus import Passage, split_contents
from agentgym.errors import ConfigError, EnvironmentFault

#: most bytes of an answer that are read
MOST_BYTES: Final = 32 * 2**20
#: longest timeout or deadline: a day
MOST_SECONDS: Final = 86_400
_CHUNK: Final = 1 << 16


class _Passing(Exception):
    """A failure that may pass: try again."""


class RemoteRetriever:
    """Asks a server. Thread-safe: every call has its own connection.

    ``url``       ``http://HOST:PORT/retrieve``; without a path ``/retrieve`` is added
    ``timeout``   seconds that one try may be silent
    ``deadline``  seconds of all tries of a query together
    ``retries``   more tries after 429, 5xx, a refused or lost connection or a timeout
    ``backoff``   seconds before the second try, doubled each time
    """

    def __init__(
        self, url: str, timeout: float = 10.0, deadline: float = 30.0, retries: int = 4, backoff: float = 0.2
    ) -> None:
        self.url = _checked_url(url)
        for name, value in (("timeout", timeout), ("deadline", deadline)):
            check_seconds(f"retriever {url}: {name}", value)
        self.timeout, self.deadline, self.retries, self.backoff = timeout, deadline, retries, backoff
        self._opener = _opener(self.url)

    def search(self, query: str, k: int) -> list[Passage]:
        """The server's ``k`` best passages. Raises EnvironmentFault."""
        body = json.dumps({"queries": [query], "topk": k, "return_scores": True}).encode()
        return self._read(self._ask(body))[:k]

    def _ask(self, body: bytes) -> bytes:
        end, pause = time.monotonic() + self.deadline, self.backoff
        for tries in range(1, self.retries + 2):
            try:
                return self._post(body, end)
            except _Passing as error:
                last = error
            if tries > self.retries or time.monotonic() + pause >= end:
                break
            time.sleep(pause)
            pause *= 2
        raise EnvironmentFault(
            f"retriever {self.url} failed {tries} times within its deadline of {self.deadline:g} s; last: {last}. "
            "Is it running? 'agentgym serve retriever' starts one. Options: retriever_timeout, retriever_deadline."
        ) from last

    def _post(self, body: bytes, end: float) -> bytes:
        request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})
        limit = max(0.001, min(self.timeout, end - time.monotonic()))
        try:
            with self._opener.open(request, timeout=limit) as response:
                return self._drain(response, end)
        except urllib.error.HTTPError as error:
            with error:
                detail = error.read(300).decode("utf-8", "replace")
            if error.code == 429 or error.code >= 500:
                raise _Passing(f"HTTP {error.code} {detail}") from error
            raise EnvironmentFault(f"retriever {self.url} refused the query: HTTP {error.code} {detail}") from error
        except (OSError, http.client.HTTPException) as error:
            raise _Passing(f"{type(error).__name__}: {error}") from error

    def _drain(self, response: Any, end: float) -> bytes:
        parts: list[bytes] = []
        size = 0
        while part := response.read1(_CHUNK):
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES:
                raise EnvironmentFault(f"retriever {self.url} sent more than {MOST_BYTES} bytes for one query")
            if time.monotonic() > end:
                raise _Passing("the answer came too slowly")
        if response.length:
            raise _Passing(f"the answer ended {response.length} bytes early")
        return b"".join(parts)

    def _read(self, raw: bytes) -> list[Passage]:
        try:
            rows = json.loads(raw)["result"]
            if not isinstance(rows, list) or len(rows) != 1 or not isinstance(rows[0], list):
                raise ValueError("'result' must hold one list for the one query")
            return [_passage(row) for row in rows[0]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise EnvironmentFault(
                f"retriever {self.url} does not speak Search-R1's interface ({type(error).__name__}: {error}); its "
                f"answer begins {raw[:120]!r}. Expected {{'result': [[{{'document': {{'contents': ...}}}}]]}}"
            ) from error


def check_seconds(what: str, value: Any) -> None:
    """ConfigError unless ``value`` is a number of seconds above 0 and up to a day, which sockets can wait."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST_SECONDS:
        raise ConfigError(f"{what} must be a number of seconds > 0 and <= {MOST_SECONDS}, got {value!r:.80}")


def _passage(row: Any) -> Passage:
    document = row.get("document", row) if isinstance(row, dict) else None
    if not isinstance(document, dict) or not isinstance(document.get("contents"), str):
        raise ValueError("a document has no text 'contents'")
    return Passage(*split_contents(document["contents"]), float(row.get("score") or 0.0))


def _checked_url(url: str) -> str:
    try:
        parts = urllib.parse.urlsplit(url)
        printable = url.isascii() and url.isprintable() and " " not in url
        sound = (
            printable
            and parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and (parts.port is None or parts.port > 0)
        )
    except ValueError:
        sound = False
    if not sound:
        raise ConfigError(f"environment 'search': expected a retriever like http://HOST:PORT/retrieve, got {url!r}")
    return url if parts.path.strip("/") else f"{url.rstrip('/')}/retrieve"


def _opener(url: str) -> urllib.request.OpenerDirector:
    """Loopback servers are asked directly, whatever proxies the process has."""
    host = urllib.parse.urlsplit(url).hostname or ""
    try:
        near = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        near = False
    return urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if near else []))
