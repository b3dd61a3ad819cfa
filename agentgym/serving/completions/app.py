"""The application: routes, authentication, limits, errors in OpenAI's form."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from agentgym.errors import AgentGymError, ContextOverflow, MissingDependency, nearest
from agentgym.policy import Policy
from agentgym.serving.completions.asked import CompletionLimits, Refused, read_request
from agentgym.serving.completions.engine import Engine
from agentgym.serving.completions.work import Work

Handler = Callable[[Any], Awaitable[Any]]


def make_policy_app(policy: Policy, name: str, limits: CompletionLimits | None = None, token: str = "") -> Any:
    """The ASGI application that answers chat completions with ``policy`` (an HFPolicy or a VLLMPolicy) as ``name``.

    ``token``: every request but ``GET /health`` must carry it as OpenAI's API key; empty: no authentication.
    Raises ConfigError for a policy without a language model, MissingDependency without FastAPI.
    """
    try:
        from fastapi import FastAPI
        from fastapi.responses import JSONResponse
        from starlette.exceptions import HTTPException
    except ModuleNotFoundError as error:
        raise MissingDependency(f"serving needs {error.name}: pip install 'agentgym-turns[serve]'") from error
    bounds = limits or CompletionLimits()
    engine = Engine(policy, 2 * bounds.deadline, bounds.kept)
    started = int(time.time())

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        yield
        await engine.close()

    app = FastAPI(title="agentgym policy", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.state.engine = engine

    async def refused(_: Any, error: Exception) -> Any:
        if isinstance(error, HTTPException):  # no such path, or not this method
            error = Refused(error.status_code, f"{error.detail}. There are /v1/models and /v1/chat/completions.")
        assert isinstance(error, Refused)
        return JSONResponse(error.body(), error.status)

    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(HTTPException, refused)

    def guarded(handler: Handler) -> Handler:
        async def guard(request: Any) -> Any:
            given = request.headers.get("authorization", "").encode()
            if token and not hmac.compare_digest(given, f"Bearer {token}".encode()):
                raise Refused(401, "give the server's token as the API key (Authorization: Bearer TOKEN)", None,
                              "invalid_api_key")  # fmt: skip
            return await handler(request)

        return guard

    async def health(_: Any) -> Any:
        return JSONResponse({"status": "ok"})

    def card() -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "created": started,
            "owned_by": "agentgym",
            "max_model_len": engine.window,
        }

    async def models(_: Any) -> Any:
        return JSONResponse({"object": "list", "data": [card()]})

    async def model(request: Any) -> Any:
        _check_model(request.path_params["model"], name)
        return JSONResponse(card())

    async def chat(request: Any) -> Any:
        return await _chat(request, engine, name, bounds)

    app.add_route("/health", health, methods=["GET"])
    app.add_route("/v1/models", guarded(models), methods=["GET"])
    app.add_route("/v1/models/{model:path}", guarded(model), methods=["GET"])
    app.add_route("/v1/chat/completions", guarded(chat), methods=["POST"])
    return app


async def _chat(request: Any, engine: Engine, name: str, limits: CompletionLimits) -> Any:
    from fastapi.responses import JSONResponse, StreamingResponse

    asked, messages = read_request(await _body(request, limits), limits)
    _check_model(asked.model, name)
    if engine.open + (asked.n or 1) > limits.requests:
        raise Refused(
            429, f"{engine.open} answers are under way, at most {limits.requests}", None, "rate_limit_exceeded"
        )
    with _errors():
        work = Work(engine, asked, messages, name, limits)
    if asked.stream:
        return StreamingResponse(_events(work), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
    with _errors():
        return JSONResponse(await work.whole(request.is_disconnected))


async def _events(work: Work) -> AsyncIterator[bytes]:
    """Server-sent events; an error after the first byte becomes an event of its own."""
    try:
        with _errors():
            async for event in work.stream():
                yield b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n"
    except Refused as error:
        yield b"data: " + json.dumps(error.body()).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


class _errors:
    """What goes wrong in the engine, as a refusal."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        if isinstance(error, ContextOverflow):
            raise Refused(
                400, f"maximum context length exceeded: {error}", "messages", "context_length_exceeded"
            ) from None
        if isinstance(error, TimeoutError):
            raise Refused(503, "the answer was not complete in time", None, "timeout") from None
        if isinstance(error, AgentGymError):
            status = 400 if "chat template" in str(error) else 500
            raise Refused(status, str(error), "messages" if status == 400 else None) from error


def _check_model(asked: str, name: str) -> None:
    if asked != name:
        hint = f"Did you mean {name!r}?" if nearest(asked, [name]) else f"This server has {name!r}."
        raise Refused(404, f"there is no model {asked[:80]!r}. {hint}", "model", "model_not_found")


async def _body(request: Any, limits: CompletionLimits) -> bytes:
    """The request's body, bounded in size and time."""
    whole = bytearray()
    try:
        async with asyncio.timeout(limits.seconds):
            async for part in request.stream():
                whole += part
                if len(whole) > limits.body:
                    raise Refused(413, f"the request is longer than {limits.body} bytes")
    except TimeoutError:
        raise Refused(408, f"the request's body did not come within {limits.seconds:g} seconds") from None
    return bytes(whole)
