"""Reading an action: one tool call, in whichever of the usual notations a model writes it.

Canonical are a fenced shell block, for commands, and ``<function=NAME>`` with ``<parameter=NAME>`` for everything (no
escaping, so that code stays as it is). JSON inside ``<tool_call>`` or ``<tool>`` is understood too. Text around the
call is reasoning and is ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agentgym.errors import nearest

SENTINEL: Final = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"  # mini-swe-agent's way to submit
_SHELLS: Final = "bash|sh|shell|mswea_bash_command"
#: what other scaffolds call the tools -> ours
_ALIASES: Final = {
    "execute_bash": "bash", "shell": "bash", "terminal": "bash", "run": "bash",
    "str_replace_editor": "edit", "str_replace_based_edit_tool": "edit", "file_editor": "edit", "editor": "edit",
    "finish": "submit", "complete": "submit",
}  # fmt: skip
TOOLS: Final = ("bash", "edit", "submit")
_ARGUMENTS: Final = {
    "command": ("cmd", "code"), "path": ("file", "file_path", "filename"), "file_text": ("content", "text"),
    "old_str": ("old", "old_string"), "new_str": ("new", "new_string"),
    "insert_line": ("line",), "insert_text": (), "view_range": (), "query": ("search_term", "pattern"),
}  # fmt: skip
_BY_ALIAS = {alias: name for name, aliases in _ARGUMENTS.items() for alias in aliases}
_SPECIAL: Final = frozenset({"timeout", "security_risk", "thought", "message", "is_input", "restart", "concise"})

_FENCE = re.compile(rf"^[ \t]*```(?:{_SHELLS})[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)
_OPEN_FENCE = re.compile(rf"^[ \t]*```(?:{_SHELLS})[ \t]*$", re.MULTILINE)
_FUNCTION = re.compile(r"<function=([\w.-]+)>(.*?)</function>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([\w.-]+)>(.*?)</parameter>", re.DOTALL)
_JSON = re.compile(r"<(tool_call|tool)>(.*?)</\1>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool and its arguments; ``problem``: why there is none (then ``tool`` is empty)."""

    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


def parse(text: str) -> Call:
    """The one call in ``text``. Several calls, none, an unknown tool or argument: a Call with a problem."""
    calls: list[Call] = []
    end = 0
    hits = [hit for rule in (_FUNCTION, _JSON, _FENCE) for hit in rule.finditer(text)]
    for hit in sorted(hits, key=lambda hit: hit.start()):
        if hit.start() < end:
            continue  # within the one before: <function=..> in <tool_call>, a shell block in a file's text
        end = hit.end()
        calls.append(_READERS[hit.re](hit))
    if len(calls) > 1:
        return Call(problem=f"{len(calls)} actions in one response; give exactly one")
    if not calls:
        return Call("submit") if text.strip().lower() == "submit" else Call(problem=_missing(text))
    return _checked(calls[0])


def _missing(text: str) -> str:
    if _OPEN_FENCE.search(text):
        return "the shell block is never closed with ```"
    for opening, closing in (("<function=", "</function>"), ("<tool_call>", "</tool_call>"), ("<tool>", "</tool>")):
        if opening in text and closing not in text:
            return f"{opening} is never closed with {closing}"
    return "there is no action in the response"


def _xml(hit: re.Match[str]) -> Call:
    arguments = {}
    for name, value in _PARAMETER.findall(hit[2]):
        if name in arguments:
            return Call(problem=f"parameter {name!r} is given twice")
        # one line feed after the opening and before the closing tag belongs to the notation
        arguments[name] = value.removeprefix("\n").removesuffix("\n")
    if not arguments and "<parameter" in hit[2]:
        return Call(problem="a <parameter=NAME> is never closed with </parameter>")
    return Call(hit[1], arguments)


def _json(hit: re.Match[str]) -> Call:
    text = hit[2]
    if found := _FUNCTION.search(text):
        return _xml(found)
    try:
        data = json.loads(text, strict=False)
    except (json.JSONDecodeError, RecursionError) as error:
        return Call(problem=f"the tool call is not JSON: {error}")
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        return Call(problem='a tool call is JSON like {"name": "bash", "arguments": {"command": "ls"}}')
    arguments = data.get("arguments", data.get("parameters", {}))
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments, strict=False)
        except json.JSONDecodeError as error:
            return Call(problem=f"the arguments of the tool call are not JSON: {error}")
    if not isinstance(arguments, dict):
        return Call(problem="the arguments of a tool call are a JSON object")
    return Call(data["name"], arguments)


def _fence(hit: re.Match[str]) -> Call:
    return Call("bash", {"command": hit[1]})


_READERS: Final = {_FUNCTION: _xml, _JSON: _json, _FENCE: _fence}


def _checked(call: Call) -> Call:
    if call.problem:
        return call
    tool = _ALIASES.get(call.tool, call.tool)
    if tool not in TOOLS:
        close = nearest(tool, TOOLS)
        hint = f"did you mean {close[0]!r}?" if close else f"the tools are {', '.join(TOOLS)}"
        return Call(problem=f"there is no tool {call.tool!r}; {hint}")
    arguments = {}
    for given, value in call.arguments.items():
        name = given if given in _ARGUMENTS else _BY_ALIAS.get(given, given)
        if name in _SPECIAL and tool != "submit":
            continue
        if name not in _ARGUMENTS and tool != "submit":
            close = nearest(name, _ARGUMENTS)
            return Call(
                problem=f"{tool} has no argument {given!r}" + (f"; did you mean {close[0]!r}?" if close else "")
            )
        arguments[name] = value
    return _bash(arguments) if tool == "bash" else Call(tool, arguments if tool == "edit" else {})


def _bash(arguments: dict[str, Any]) -> Call:
    command = arguments.get("command")
    if not isinstance(command, str) or not command.strip():
        return Call(problem="bash needs the argument 'command', a shell command that is not empty")
    if "\0" in command:
        return Call(problem="the command holds a NUL character")
    return Call("bash", {"command": command})


def write(tool: str, **arguments: Any) -> str:
    """A call in canonical notation."""
    if tool == "bash":
        return f"```bash\n{arguments['command']}\n```"
    lines = [f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in arguments.items()]
    return f"<function={tool}>\n{''.join(lines)}</function>"
