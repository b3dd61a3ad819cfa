"""The application: FastAPI for what is rare, and a plain ASGI handler for steps, which are many."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any, Final

from agentgym.environment import Environment
from agentgym.errors import MissingDependency
from agentgym.registry import make
from agentgym.serving.episodes import Episodes, Limits, Refused, task_row

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
_PREFIX: Final = "/episodes/"
_STEP: Final = "/step"


def make_app(env: str, options: Mapping[str, Any] | None = None, limits: Limits | None = None, token: str = "") -> Any:
    """The ASGI application that serves the environment ``env``.

    ``token``: every request but ``GET /health`` must carry ``Authorization: Bearer TOKEN``; empty: no authentication.
    Raises as :func:`agentgym.make` does, and MissingDependency without FastAPI.
    """
    try:
        from fastapi import FastAPI, Request
        from fastapi.responses import JSONResponse, Response
    except ModuleNotFoundError as error:
        raise MissingDependency(f"serving needs {error.name}: pip install 'agentgym-turns[serve]'") from error
    bounds = limits or Limits()
    lister = make(env, **(options or {}))
    episodes = Episodes(env, dict(options or {}), bounds, lister)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        watch = asyncio.create_task(episodes.watch())
        yield
        watch.cancel()
        episodes.end()

    app = FastAPI(title="agentgym environment", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)

    async def refused(_: Any, error: Exception) -> Any:
        assert isinstance(error, Refused)
        return JSONResponse({"detail": str(error)}, error.status)

    app.add_exception_handler(Refused, refused)

    async def health(_: Request) -> Any:
        return JSONResponse({"status": "ok"})

    async def spec(_: Request) -> Any:
        return JSONResponse(
            {
                "env": env, "spec": asdict(lister.spec), "open": len(episodes.sessions),
                "comparable": type(lister).comparable is not Environment.comparable,
            }
        )  # fmt: skip

    async def tasks(request: Request) -> Any:
        asked = _object(await request.body())
        found = episodes.tasks(_split(asked, lister.spec.splits), _options(asked))
        return JSONResponse({"name": found.name, "tasks": [task_row(task) for task in found[: bounds.tasks]]})

    async def comparable(request: Request) -> Any:
        text = _object(await request.body()).get("text")
        if not isinstance(text, str):
            raise Refused(422, f"text must be text, got {type(text).__name__}")
        return Response(json.dumps({"text": lister.comparable(text)}), media_type="application/json")

    async def start(request: Request) -> Any:
        asked = _object(await request.body())
        split = _split(asked, lister.spec.splits)
        return JSONResponse(await episodes.open(split, _options(asked), str(asked.get("task", ""))), 201)

    async def expert(request: Request) -> Any:
        return JSONResponse(await episodes.expert(request.path_params["episode"]))

    async def close(request: Request) -> Any:
        episodes.close(request.path_params["episode"])
        return Response(status_code=204)

    for path, function, method in (
        ("/health", health, "GET"), ("/spec", spec, "GET"), ("/tasks", tasks, "POST"),
        ("/comparable", comparable, "POST"), ("/episodes", start, "POST"),
        ("/episodes/{episode}/expert", expert, "POST"), ("/episodes/{episode}", close, "DELETE"),
    ):  # fmt: skip
        app.add_route(path, function, methods=[method])
    return _Front(app, episodes, bounds, token)


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise Refused(422, f"the body is no JSON: {str(error)[:120]}") from error
    if not isinstance(found, dict):
        raise Refused(422, f"the body must be a JSON object, got {type(found).__name__}")
    return found


def _split(asked: Mapping[str, Any], splits: tuple[str, ...]) -> str:
    split = asked.get("split", splits[0] if splits else "train")
    if not isinstance(split, str):
        raise Refused(422, f"split must be text, got {type(split).__name__}")
    return split


def _options(asked: Mapping[str, Any]) -> dict[str, Any]:
    options = asked.get("options") or {}
    if not isinstance(options, dict):
        raise Refused(422, f"options must be an object, got {type(options).__name__}")
    return options


class _Front:
    """Checks the token, reads the body within its limits, answers steps; all else goes to the application."""

    def __init__(self, app: Any, episodes: Episodes, limits: Limits, token: str) -> None:
        self.app, self.episodes, self.limits = app, episodes, limits
        self._expected = f"Bearer {token}".encode() if token else b""

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path: str = scope["path"]
        try:
            if self._expected and path != "/health":
                self._authorise(scope["headers"])
            body = await self._body(receive)
            if body is None:  # the client has gone
                return
            if scope["method"] == "POST" and path.startswith(_PREFIX) and path.endswith(_STEP):
                asked = _object(body)
                key = path[len(_PREFIX) : -len(_STEP)]
                await _answer(send, 200, await self.episodes.step(key, asked.get("action"), asked.get("turn")))
                return
        except Refused as refused:
            await _answer(
                send, refused.status, json.dumps({"detail": str(refused)}).encode(), refused.status in (401, 408, 413)
            )
            return
        whole = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Any:
            return whole.pop() if whole else await receive()

        await self.app(scope, replay, send)

    def _authorise(self, headers: list[tuple[bytes, bytes]]) -> None:
        given = next((value for name, value in headers if name == b"authorization"), b"")
        if not hmac.compare_digest(given, self._expected):
            raise Refused(401, "the request needs the header 'Authorization: Bearer TOKEN' with the server's token")

    async def _body(self, receive: Receive) -> bytes | None:
        message = await self._next(receive)
        if message["type"] != "http.request":
            return None
        body: bytes = message.get("body", b"")
        while message.get("more_body", False):
            if len(body) > self.limits.body:
                break
            message = await self._next(receive)
            if message["type"] != "http.request":
                return None
            body += message.get("body", b"")
        if len(body) > self.limits.body:
            raise Refused(413, f"the request is longer than {self.limits.body} bytes")
        return body

    async def _next(self, receive: Receive) -> Any:
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await receive()
        except TimeoutError:
            raise Refused(408, f"the request's body did not come within {self.limits.seconds:g} seconds") from None


async def _answer(send: Send, status: int, body: bytes, close: bool = False) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
