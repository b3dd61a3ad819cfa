"""How models write tool calls: read in any of the usual notations, written in one.

``hermes``   ``<tool_call>{"name": .., "arguments": {..}}</tool_call>`` (Hermes, Qwen2.5, Qwen3)
``qwen``     ``<function=NAME><parameter=KEY>text</parameter></function>``, alone or in ``<tool_call>`` (Qwen3-Coder)
``llama``    ``{"name": .., "parameters": {..}}`` as the whole response, or after ``<|python_tag|>`` (Llama 3)
``mistral``  ``[TOOL_CALLS][{"name": .., "arguments": {..}}]``, or ``[TOOL_CALLS]NAME[ARGS]{..}``
``json``     ``{"name": .., "arguments": {..}}`` as the whole response, a code fence around it allowed

The forms are those of the chat templates that the models' makers publish.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

NOTATIONS: Final = ("hermes", "qwen", "mistral", "llama", "json")  # the order in which they are tried
PYTHON_TAG: Final = "<|python_tag|>"
MISTRAL_MARK: Final = "[TOOL_CALLS]"
_TOOL_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_FUNCTION = re.compile(r"<function=([^<>\s]+)>(.*?)(?:</function>|(?=</tool_call>)|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^<>\s]+)>(.*?)</parameter>", re.DOTALL)
_FENCE = re.compile(r"\A```(?:json)?[ \t]*\n(.*?)\n?[ \t]*```\Z", re.DOTALL)
_NAMED = re.compile(r"([\w.-]+)\s*(?:\[CALL_ID\][\w-]+)?(?:\[ARGS\])?\s*(?=\{)")
_NAME_KEY = re.compile(r'"name"\s*:')
_ENDS: Final = ("<|eom_id|>", "<|eot_id|>", "</s>")  # end tokens that endpoints sometimes leave in


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool: its name and its arguments, as the model wrote them; nothing is validated yet."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def action(self) -> str:
        """The text that an environment gets: JSON with ``name`` and ``arguments``."""
        return json.dumps({"name": self.name, "arguments": dict(self.arguments)}, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Calls:
    """What a response holds: its calls in order, the text around them, and what was wrong with one of them."""

    calls: tuple[Call, ...] = ()
    text: str = ""
    problem: str = ""


def read_calls(text: str, notation: str = "auto", tools: Sequence[Mapping[str, Any]] = ()) -> Calls:
    """The calls in ``text`` (without its thinking), in ``notation``, or in whichever it uses (``auto``).

    ``tools``: schemas, by which the untyped values of ``qwen`` are read as numbers, lists, ... where one is declared.
    Linear time. What is wrong with a call (broken JSON, no name) stands in ``problem``; no call at all is no problem
    here.
    """
    for mark in _ENDS:
        text = text.strip().removesuffix(mark)
    for name in NOTATIONS if notation == "auto" else (notation,):
        found = _READERS[name](text.strip())
        if found.calls or found.problem:
            return _typed(found, tools) if name in ("hermes", "qwen") else found
    return Calls(text=text.strip())


def write_call(call: Call, notation: str = "hermes") -> str:
    """``call`` as a model would write it; ``auto`` is ``hermes``."""
    data = call.action()
    if notation == "qwen":
        texts = {
            key: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for key, v in call.arguments.items()
        }
        body = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in texts.items())
        return f"<tool_call>\n<function={call.name}>\n{body}</function>\n</tool_call>"
    if notation == "llama":
        return json.dumps({"name": call.name, "parameters": dict(call.arguments)}, ensure_ascii=False)
    if notation == "mistral":
        return f"{MISTRAL_MARK}[{data}]"
    return data if notation == "json" else f"<tool_call>\n{data}\n</tool_call>"


def _hermes(text: str) -> Calls:
    hits = list(_TOOL_CALL.finditer(text))
    calls: list[Call] = []
    problem = ""
    for hit in hits:
        function = _FUNCTION.search(hit[1])
        found = _function(function) if function else _one_call(hit[1])
        if isinstance(found, Call):
            calls.append(found)
        else:
            problem = problem or found
    return Calls(tuple(calls), _around(text, hits), problem)


def _qwen(text: str) -> Calls:
    hits = list(_FUNCTION.finditer(text))
    found = [_function(hit) for hit in hits]
    problem = next((item for item in found if isinstance(item, str)), "")
    rest = re.sub(r"</?tool_call>", "", _around(text, hits)).strip()
    return Calls(tuple(item for item in found if isinstance(item, Call)), rest, problem)


def _function(hit: re.Match[str]) -> Call | str:
    arguments: dict[str, Any] = {}
    for name, value in _PARAMETER.findall(hit[2]):
        if name in arguments:
            return f"parameter {name!r} is given twice"
        # one line feed after the opening and before the closing tag belongs to the notation
        arguments[name] = value.removeprefix("\n").removesuffix("\n")
    if hit[2].count("<parameter=") > len(arguments) and "<parameter=" in _PARAMETER.sub("", hit[2]):
        return "a <parameter=NAME> is never closed with </parameter>"
    return Call(hit[1], arguments)


def _llama(text: str) -> Calls:
    before, found, body = text.partition(PYTHON_TAG)
    if not found:
        return _bare(text)
    calls = _several(body)
    if isinstance(calls, str):
        return Calls(text=before.strip(), problem=f"what follows {PYTHON_TAG} is no tool call: {calls}")
    return Calls(tuple(calls), before.strip())


def _mistral(text: str) -> Calls:
    before, found, body = text.partition(MISTRAL_MARK)
    if not found:
        return Calls()
    body = body.strip()
    if body.startswith(("[", "{")):
        calls: list[Call] | str = _several(body)
    else:
        calls = []
        for part in body.split(MISTRAL_MARK):
            named = _NAMED.match(part.strip())
            arguments = _values(part.strip()[named.end() :]) if named else "no NAME before the arguments"
            if isinstance(arguments, str) or named is None or len(arguments) != 1 or not isinstance(arguments[0], dict):
                calls = arguments if isinstance(arguments, str) else "expected one JSON object after the name"
                break
            calls.append(Call(named[1], arguments[0]))
    if isinstance(calls, str):
        return Calls(text=before.strip(), problem=f"what follows {MISTRAL_MARK} is no tool call: {calls}")
    return Calls(tuple(calls), before.strip())


def _bare(text: str) -> Calls:
    fence = _FENCE.match(text)
    body = fence[1].strip() if fence else text
    if not body.startswith(("{", "[")) or not _NAME_KEY.search(body):
        return Calls()
    calls = _several(body)
    return Calls(problem=f"the tool call cannot be read: {calls}") if isinstance(calls, str) else Calls(tuple(calls))


_READERS: Final = {"hermes": _hermes, "qwen": _qwen, "llama": _llama, "mistral": _mistral, "json": _bare}


def _one_call(text: str) -> Call | str:
    calls = _several(text)
    if isinstance(calls, str):
        return f"the tool call cannot be read: {calls}"
    return calls[0] if len(calls) == 1 else f"one <tool_call> holds {len(calls)} calls"


def _several(text: str) -> list[Call] | str:
    """Calls from JSON: one object, a list of them, or several with ``;``, commas or line feeds between them."""
    values = _values(text)
    if isinstance(values, str):
        return values
    items = [item for value in values for item in (value if isinstance(value, list) else [value])]
    calls = []
    for item in items:
        call = _call(item)
        if isinstance(call, str):
            return call
        calls.append(call)
    return calls or "there is nothing in it"


def _call(data: Any) -> Call | str:
    if isinstance(data, dict) and isinstance(data.get("function"), dict):  # OpenAI's own nesting
        data = data["function"]
    if not isinstance(data, dict) or not isinstance(data.get("name"), str) or not data["name"].strip():
        return 'expected JSON like {"name": "TOOL", "arguments": {...}}'
    arguments = data.get("arguments", data.get("parameters", {}))
    if isinstance(arguments, str) and arguments.strip():
        values = _values(arguments)
        if isinstance(values, str):
            return f"the arguments are no JSON: {values}"
        arguments = values[0] if len(values) == 1 else values
    if arguments in (None, ""):
        arguments = {}
    if not isinstance(arguments, dict):
        return f"the arguments must be a JSON object, got {type(arguments).__name__}"
    return Call(data["name"].strip(), arguments)


def _values(text: str) -> list[Any] | str:
    """The JSON values in ``text``, or what is wrong. Raw line feeds in strings are forgiven, as models write them."""
    decoder = json.JSONDecoder(strict=False, parse_constant=_refuse)
    out: list[Any] = []
    at = _next(text, 0)
    try:
        while at < len(text):
            value, end = decoder.raw_decode(text, at)
            out.append(value)
            at = _next(text, end)
    except json.JSONDecodeError as error:
        return f"not JSON: {error.msg} at character {error.pos}"
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error if isinstance(error, ValueError) else 'nested too deeply'}"
    return out


def _next(text: str, at: int) -> int:
    while at < len(text) and (text[at].isspace() or text[at] in ";,"):
        at += 1
    return at


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON value")


def _around(text: str, hits: Sequence[re.Match[str]]) -> str:
    """``text`` without the hits."""
    return "".join(_gaps(text, hits)).strip()


def _gaps(text: str, hits: Sequence[re.Match[str]]) -> Iterator[str]:
    at = 0
    for hit in hits:
        yield text[at : hit.start()]
        at = hit.end()
    yield text[at:]


def _typed(found: Calls, tools: Sequence[Mapping[str, Any]]) -> Calls:
    """Text values as JSON where the tool's schema declares something else than text."""
    if not tools:
        return found
    schemas = {t["function"]["name"]: t["function"].get("parameters") or {} for t in tools if "function" in t}

    def value(text: Any, schema: Any) -> Any:
        if not isinstance(text, str) or _allows_text(schema):
            return text
        values = _values(text)
        if isinstance(values, list) and len(values) == 1:
            return values[0]
        return {"True": True, "False": False, "None": None}.get(text.strip(), text)

    calls = []
    for call in found.calls:
        declared = schemas.get(call.name, {}).get("properties", {})
        arguments = {key: value(given, declared.get(key)) for key, given in call.arguments.items()}
        calls.append(Call(call.name, arguments))
    return Calls(tuple(calls), found.text, found.problem)


def _allows_text(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return True
    if "anyOf" in schema:
        return any(_allows_text(option) for option in schema["anyOf"])
    kinds = schema.get("type", "object" if "$ref" in schema else "string")
    return "string" in ([kinds] if isinstance(kinds, str) else kinds)


class Offered(tuple[Mapping[str, Any], ...]):
    """Tools in OpenAI's form, with the ``notation`` in which their calls are wanted (``auto``: any)."""

    notation = "auto"

    def __new__(cls, schemas: Sequence[Mapping[str, Any]] = (), notation: str = "auto") -> Offered:
        """Tools, and the notation."""
        made = super().__new__(cls, tuple(schemas))
        made.notation = notation
        return made


def described(messages: Sequence[Any], tools: Sequence[Mapping[str, Any]]) -> list[Any]:
    """``messages`` with the tools told in the system message, for models whose chat template does not know tools."""
    notation = getattr(tools, "notation", "auto")
    shown = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
    example = write_call(Call("NAME", {"KEY": "VALUE"}), notation)
    text = f"You can call these tools, given as JSON schemas:\n{shown}\n\nCall one like this:\n{example}"
    if messages and messages[0]["role"] == "system":
        first = {**messages[0], "content": f"{messages[0]['content']}\n\n{text}"}
        return [first, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]
