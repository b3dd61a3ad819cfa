"""A retrieval server with Search-R1's ``/retrieve`` interface (FastAPI). Started by ``agentgym serve retriever``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

from agentgym.environments.search.corpus import Passage
from agentgym.errors import MissingDependency


class Searcher(Protocol):
    """A corpus that can be searched from several threads."""

    def search(self, query: str, k: int) -> list[Passage]:
        """The up to ``k`` best passages, best first."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may ask: queries, characters of a query, passages for each, bytes of the request."""

    queries: int = 256
    characters: int = 4000
    topk: int = 100
    body: int = 4 * 2**20


class RetrieveRequest(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(extra="ignore", strict=True)

    queries: list[str]
    topk: int | None = None
    return_scores: bool = False


def make_app(searcher: Searcher, limits: Limits | None = None, default_topk: int = 3, corpus: str = "") -> Any:
    """The application. ``POST /retrieve`` searches; ``GET /health`` says the corpus's hash. No authentication."""
    try:
        from fastapi import FastAPI, HTTPException
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"the retrieval server needs the package {error.name!r}: pip install 'agentgym-turns[serve]'"
        ) from error
    bounds = limits or Limits()
    app = FastAPI(title="agentgym retriever", docs_url=None, redoc_url=None, openapi_url=None)

    @app.post("/retrieve")
    def retrieve(request: RetrieveRequest) -> dict[str, Any]:
        problem = _problem(request, bounds)
        if problem:
            raise HTTPException(413, problem)
        topk = default_topk if request.topk is None else request.topk
        if topk < 1:
            raise HTTPException(422, f"topk must be >= 1, got {topk}")
        found = [searcher.search(query, topk) for query in request.queries]
        return {"result": [[_row(p, request.return_scores) for p in passages] for passages in found]}

    @app.get("/health")
    def health() -> dict[str, Any]:
        return {"status": "ok", "corpus": corpus}

    app.add_middleware(_BodyLimit, most=bounds.body)
    return app


def _problem(request: RetrieveRequest, limits: Limits) -> str:
    if len(request.queries) > limits.queries:
        return f"{len(request.queries)} queries in one request, at most {limits.queries}"
    longest = max(map(len, request.queries), default=0)
    if longest > limits.characters:
        return f"a query of {longest} characters, at most {limits.characters}"
    if request.topk is not None and request.topk > limits.topk:
        return f"topk {request.topk}, at most {limits.topk}"
    return ""


def _row(passage: Passage, scored: bool) -> dict[str, Any]:
    document = {"contents": f'"{passage.title}"\n{passage.text}'}
    return {"document": document, "score": passage.score} if scored else document


class _BodyLimit:
    """Refuses a request whose body is too long, before it is held in memory."""

    def __init__(self, app: Any, most: int) -> None:
        self._app, self._most = app, most

    async def __call__(self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._most:
                await self._refuse(send)
                return

        whole = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replay() -> Any:
            return whole.pop() if whole else await receive()

        await self._app(scope, replay, send)

    async def _refuse(self, send: Any) -> None:
        text = f'{{"detail":"the request is longer than {self._most} bytes"}}'.encode()
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": text})
