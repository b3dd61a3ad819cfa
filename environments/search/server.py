"""A retrieval server with Search-R1's ``/retrieve`` interface (FastAPI). Started by ``agentgym serve retriever``."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from agentgym.environments.search.corpus import Passage
from agentgym.errors import MissingDependency

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
#: status in the log of a request whose client went before its searches were made
GONE: Final = 499


class Searcher(Protocol):
    """A corpus that can be searched from several threads."""

    def search(self, query: str, k: int) -> list[Passage]:
        """The up to ``k`` best passages, best first."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may ask, and what all together may take.

    ``queries`` of a request, ``characters`` of a query, passages for each (``topk``), bytes of the request (``body``);
    ``searches`` that run at once, others wait; ``seconds`` in which a body must have come; ``discard``: most bytes of
    one that is too long that are read and thrown away, so that its sender gets to see the answer.
    """

    queries: int = 256
    characters: int = 4000
    topk: int = 100
    body: int = 4 * 2**20
    searches: int = 8
    seconds: float = 30.0
    discard: int = 64 * 2**20


class RetrieveRequest(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(extra="ignore", strict=True)

    queries: list[str]
    topk: int | None = None
    return_scores: bool = False


def make_app(searcher: Searcher, limits: Limits | None = None, default_topk: int = 3, corpus: str = "") -> Any:
    """The application. ``POST /retrieve`` searches; ``GET /health`` says the corpus's hash. No authentication."""
    try:
        from fastapi import FastAPI, Response
        from fastapi.concurrency import run_in_threadpool
        from fastapi.responses import JSONResponse
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"the retrieval server needs the package {error.name!r}: pip install 'agentgym-turns[serve]'"
        ) from error
    bounds = limits or Limits()
    app = FastAPI(title="agentgym retriever", docs_url=None, redoc_url=None, openapi_url=None)
    slots = asyncio.Semaphore(bounds.searches)

    async def retrieve(request: Any) -> Any:
        # read here and not by the framework: its message repeats the input, and fails where that holds NaN
        try:
            asked = RetrieveRequest.model_validate_json(await request.body())
        except ValidationError as error:
            detail = error.errors(include_url=False, include_context=False, include_input=False)
            return JSONResponse({"detail": detail}, 422)
        status, problem = _problem(asked, bounds)
        if problem:
            return JSONResponse({"detail": problem}, status)
        topk = default_topk if asked.topk is None else asked.topk
        result = []
        async with slots:
            for query in asked.queries:
                if await request.is_disconnected():
                    return Response(status_code=GONE)
                passages = await run_in_threadpool(searcher.search, query, topk)
                result.append([_row(passage, asked.return_scores) for passage in passages])
        return JSONResponse({"result": result})

    app.add_route("/retrieve", retrieve, methods=["POST"])

    @app.get("/health")
    def health() -> dict[str, Any]:
        return {"status": "ok", "corpus": corpus}

    app.add_middleware(_BodyLimit, limits=bounds)
    return app


def _problem(request: RetrieveRequest, limits: Limits) -> tuple[int, str]:
    """Status and words for a request that is not answered; empty words where it is."""
    longest = max(map(len, request.queries), default=0)
    if len(request.queries) > limits.queries:
        return 413, f"{len(request.queries)} queries in one request, at most {limits.queries}"
    if longest > limits.characters:
        return 413, f"a query of {longest} characters, at most {limits.characters}"
    if request.topk is not None and request.topk > limits.topk:
        return 413, f"topk {request.topk}, at most {limits.topk}"
    if request.topk is not None and request.topk < 1:
        return 422, f"topk must be >= 1, got {request.topk}"
    return 200, ""


def _row(passage: Passage, scored: bool) -> dict[str, Any]:
    document = {"contents": f'"{passage.title}"\n{passage.text}'}
    return {"document": document, "score": passage.score} if scored else document


class _BodyLimit:
    """Refuses a request whose body is too long, before it is held in memory, or does not come to its end in time."""

    def __init__(self, app: Any, limits: Limits) -> None:
        self._app, self._limits = app, limits

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = self._limits.body
        whole: list[dict[str, Any]] = []
        try:
            async with asyncio.timeout(self._limits.seconds):
                body = await _body(receive, most)
        except TimeoutError:
            await _refuse(send, 408, f"the request's body did not come within {self._limits.seconds:g} seconds")
            return
        if body is None:  # the client has gone
            return
        if len(body) > most:
            await _refuse(send, 413, f"the request is longer than {most} bytes", self._rest(receive))
            return
        whole.append({"type": "http.request", "body": body, "more_body": False})

        async def replay() -> Any:
            return whole.pop() if whole else await receive()

        await self._app(scope, replay, send)

    async def _rest(self, receive: Receive) -> None:
        """Read on and keep nothing: a connection closed over unread bytes is reset, and the answer on it lost."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.seconds):
                left, more = self._limits.discard, True
                while more and left > 0:
                    message = await receive()
                    left -= len(message.get("body", b""))
                    more = message.get("more_body", False)


async def _body(receive: Receive, most: int) -> bytes | None:
    """The body, or its beginning where it is longer than ``most`` bytes; None where the client leaves."""
    body, more = bytearray(), True
    while more and len(body) <= most:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)


async def _refuse(send: Send, status: int, problem: str, meanwhile: Awaitable[None] | None = None) -> None:
    """The whole answer; the connection is closed after it, and after ``meanwhile``."""
    text = json.dumps({"detail": problem}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close"),
               (b"content-length", str(len(text)).encode())]  # fmt: skip
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text, "more_body": True})
    if meanwhile is not None:
        await meanwhile
    await send({"type": "http.response.body", "body": b"", "more_body": False})
