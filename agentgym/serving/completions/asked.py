"""What a client asks: the body of a chat completion request, checked, and its conversation for chat templates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentgym.errors import nearest
from agentgym.policy import Message, Sampling

#: fields that change nothing here and are accepted: bookkeeping, and what is so anyway
_IGNORED: Final = frozenset({
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "parallel_tool_calls",
})  # fmt: skip
#: fields that are accepted at the value that asks for nothing
_NEUTRAL: Final = {
    "frequency_penalty": (0, None), "presence_penalty": (0, None), "repetition_penalty": (1, None),
    "logit_bias": ({}, None), "top_logprobs": (0, None), "response_format": ({"type": "text"}, None),
    "min_p": (0, None),
    "tool_choice": ("auto", "none", None), "best_of": (1, None), "echo": (False, None), "functions": (None,),
    "function_call": (None,), "modalities": (["text"], None), "audio": (None,), "min_tokens": (0, None),
    "ignore_eos": (False, None), "skip_special_tokens": (False, None), "reasoning_effort": (None,),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CompletionLimits:
    """What clients may take.

    ``requests`` open at once, others are refused with 429; ``tokens`` of one answer; ``choices``: most ``n``;
    ``body``: bytes of a request, which must have come within ``seconds``; ``deadline``: seconds for one answer;
    ``kept``: conversations whose ids and cached keys wait for the next turn.
    """

    requests: int = 256
    tokens: int = 4096
    choices: int = 16
    body: int = 4 << 20
    seconds: float = 30.0
    deadline: float = 600.0
    kept: int = 64


class Refused(Exception):
    """A request that is not carried out, as OpenAI reports it: HTTP ``status``, message, parameter, code."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code

    def body(self) -> dict[str, Any]:
        """The answer's JSON."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


class _Function(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str = Field(pattern=r"^[\w.-]{1,128}$")
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Tool(BaseModel):
    type: Literal["function"]
    function: _Function


class _StreamOptions(BaseModel):
    include_usage: bool = False


class ChatRequest(BaseModel):
    """The body of ``POST /v1/chat/completions``; the defaults are OpenAI's."""

    model_config = ConfigDict(extra="allow")

    model: str
    messages: list[dict[str, Any]] = Field(min_length=1)
    temperature: float | None = Field(None, ge=0, le=100)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    n: int | None = Field(None, ge=1)
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    logprobs: bool | None = None
    tools: list[_Tool] | None = None
    tool_choice: Any = None
    return_token_ids: bool | None = None

    def sampling(self, max_tokens: int) -> Sampling:
        """How the answer is drawn."""
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return Sampling(
            1.0 if self.temperature is None else self.temperature, self.top_p or 1.0, max(self.top_k or 0, 0),
            max_tokens, tuple(mark for mark in stop if mark),
        )  # fmt: skip

    @property
    def offered(self) -> list[dict[str, Any]]:
        """The tools, as chat templates take them."""
        if self.tool_choice == "none":
            return []
        return [tool.model_dump(exclude_none=True) for tool in self.tools or ()]


def read_request(body: bytes, limits: CompletionLimits) -> tuple[ChatRequest, list[Message]]:
    """The request and its conversation. Refused: whatever is wrong with it."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is no JSON: {str(error)[:120]}") from None
    if not isinstance(data, dict):
        raise Refused(400, f"the body must be a JSON object, got {type(data).__name__}")
    _check_names(data)
    try:
        asked = ChatRequest.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        param = ".".join(map(str, first["loc"]))
        raise Refused(400, f"{param}: {first['msg']}", param, "invalid_value") from None
    if (asked.n or 1) > limits.choices:
        raise Refused(400, f"n is {asked.n}, at most {limits.choices} answers in one request", "n")
    if isinstance(asked.stop, list) and len(asked.stop) > 16:
        raise Refused(400, f"{len(asked.stop)} stop strings, at most 16", "stop")
    return asked, [_message(message, i) for i, message in enumerate(asked.messages)]


def _check_names(data: Mapping[str, Any]) -> None:
    """Refuse what would change the answer and is not done here, and what nobody knows."""
    for key, value in data.items():
        if (key in ChatRequest.model_fields and key not in _NEUTRAL) or key in _IGNORED:
            continue
        if key in _NEUTRAL:
            if value not in _NEUTRAL[key]:
                raise Refused(
                    400, f"{key}={str(value)[:60]!r} is not supported by this server", key, "unsupported_value"
                )
            continue
        close = nearest(key, [*ChatRequest.model_fields, *_NEUTRAL])
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise Refused(400, f"unknown field {key[:60]!r}.{hint}", key[:60], "unknown_parameter")


def _message(given: Mapping[str, Any], index: int) -> Message:
    """One message as chat templates take it: text, and arguments of tool calls as objects."""
    where = f"messages.{index}"
    role = given.get("role")
    if role == "developer":
        role = "system"
    if role not in ("system", "user", "assistant", "tool"):
        raise Refused(400, f"{where}.role must be system, user, assistant or tool, got {str(role)[:40]!r}", where)
    out: dict[str, Any] = {"role": role, "content": _text(given.get("content"), where)}
    for key in ("reasoning_content", "name", "tool_call_id"):
        if isinstance(given.get(key), str):
            out[key] = given[key]
    if given.get("tool_calls"):
        out["tool_calls"] = _tool_calls(given["tool_calls"], f"{where}.tool_calls")
    elif given.get("content") is None and role != "assistant":
        raise Refused(400, f"{where}.content is missing", where)
    return out  # type: ignore[return-value]


def _text(content: Any, where: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        parts = [
            part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in content
        ]
        if all(isinstance(part, str) for part in parts):
            return "".join(map(str, parts))
    raise Refused(400, f"{where}.content must be text or a list of text parts; nothing else is supported", where)


def _tool_calls(given: Any, where: str) -> list[dict[str, Any]]:
    out = []
    try:
        for call in given:
            function = call["function"]
            arguments = function["arguments"]
            read = json.loads(arguments or "{}") if isinstance(arguments, str) else arguments
            out.append({"type": "function", "id": str(call.get("id", "")),
                        "function": {"name": str(function["name"]), "arguments": read}})  # fmt: skip
    except (TypeError, KeyError, AttributeError, ValueError, RecursionError) as error:
        raise Refused(400, f"{where} is no list of tool calls with JSON arguments: {str(error)[:80]}", where) from None
    return out
