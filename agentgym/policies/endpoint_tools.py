"""Tool calls and thinking between our turns, which are text, and the messages of OpenAI-compatible endpoints.

An endpoint gives calls as ``tool_calls`` and often thinking as ``reasoning_content``; both become part of the
response's text in our notation, so that parsers, records and credit see one thing. On the way back the calls are taken
out of the text again, and a tool's answer names the call it answers.
"""

from __future__ import annotations

import json
from typing import Any

from agentgym.policy import PolicyRequest
from agentgym.tools.notation import Call, read_calls, write_call


def response_text(text: str, message: Any, request: PolicyRequest) -> str:
    """The response's text with thinking (where the format demands it) and tool calls put back."""
    think = request.format.think_tag if request.format.require_think else ""
    reasoning = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
    if think and isinstance(reasoning, str) and reasoning and f"</{think}>" not in text:
        text = f"<{think}>{reasoning}</{think}>{text}"
    calls = [_call(given) for given in getattr(message, "tool_calls", None) or ()]
    written = [write_call(call, request.format.tools) if call else "" for call in calls]
    return "\n".join(part for part in [text, *written] if part)


def _call(given: Any) -> Call | None:
    """One call of an answer. Arguments that are no JSON stay text, so that the parser can say what is wrong."""
    function = getattr(given, "function", None)
    name, arguments = getattr(function, "name", None), getattr(function, "arguments", None)
    if not isinstance(name, str):
        return None
    try:
        found = json.loads(arguments or "{}") if isinstance(arguments, str | None) else arguments
    except (ValueError, RecursionError):
        return Call(name, {"arguments": arguments})
    return Call(name, found if isinstance(found, dict) else {"arguments": found})


def endpoint_messages(request: PolicyRequest) -> list[dict[str, Any]]:
    """The conversation as endpoints demand it: every answer of a tool follows a message that calls it."""
    if not request.tools:
        return [dict(message) for message in request.messages]
    out: list[dict[str, Any]] = []
    think = f"</{request.format.think_tag}>" if request.format.think_tag else ""
    waiting = ""
    for index, given in enumerate(request.messages):
        message: dict[str, Any] = dict(given)
        if message["role"] == "assistant":
            head, mark, rest = message["content"].rpartition(think) if think else ("", "", message["content"])
            found = read_calls(rest, request.format.tools, request.tools)
            if found.calls and not found.problem:
                waiting = f"call{index:05d}"  # nine letters and digits, which the templates of Mistral demand
                message["content"] = head + mark + found.text or None
                message["tool_calls"] = [_written(call, waiting) for call in found.calls[:1]]
        elif message["role"] == "tool":
            if waiting:
                message["tool_call_id"], waiting = waiting, ""
            else:
                message["role"] = "user"
        out.append(message)
    return out


def _written(call: Call, identity: str) -> dict[str, Any]:
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    return {"id": identity, "type": "function", "function": {"name": call.name, "arguments": arguments}}
