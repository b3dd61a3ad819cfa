"""Tools of an environment: pydantic models or typed functions, told to models as JSON schemas."""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError, create_model

from agentgym.errors import nearest
from agentgym.tools.notation import read_calls

Function = TypeVar("Function", bound=Callable[..., Any])
#: attribute by which :func:`tool` marks a method
MARK: Final = "__agentgym_tool__"
_NAME = re.compile(r"[A-Za-z_][\w-]{0,63}")


class ToolProblem(Exception):
    """A call cannot be carried out; the message tells the model what to write instead."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: what a model is told of it, and how its arguments are checked.

    ``parameters``  JSON schema of the arguments (an object)
    ``model``       validates them; None: they are checked elsewhere (by an MCP server)
    ``run``         called with the arguments by name; None: the environment itself knows what to do
    Raises ValueError for a name that models' templates could not write.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    model: type[BaseModel] | None = None
    run: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"a tool's name has letters, digits, _ and -, at most 64; got {self.name!r}")

    @classmethod
    def of(cls, source: Tool | type[BaseModel] | Callable[..., Any]) -> Tool:
        """A tool from a pydantic model (named in snake case) or from a function with typed parameters."""
        if isinstance(source, Tool):
            return source
        if isinstance(source, type) and issubclass(source, BaseModel):
            name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", source.__name__).lower()
            return cls(name, inspect.cleandoc(source.__doc__ or ""), _schema(source), source)
        model = _arguments(source)
        return cls(source.__name__, inspect.cleandoc(source.__doc__ or ""), _schema(model), model, source)

    def schema(self) -> dict[str, Any]:
        """What a model is told, in OpenAI's form."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}

    def checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the tool's own types. Raises ToolProblem with everything that is wrong with them."""
        if self.model is None:
            return dict(arguments)
        problems = [] if self.model.model_config.get("extra") == "allow" else self._unknown(arguments)
        try:
            made = self.model.model_validate(dict(arguments))
        except ValidationError as error:
            problems += [_line(item) for item in error.errors(include_url=False)]
        except RecursionError:
            problems.append("the arguments are nested too deeply")
        if problems:
            raise ToolProblem(f"{self.name}: {'; '.join(problems)}. {self.usage()}")
        return {name: getattr(made, name) for name in type(made).model_fields} | (made.model_extra or {})

    def usage(self) -> str:
        """The arguments in one line."""
        needed = set(self.parameters.get("required", ()))
        shown = [
            f"{name}: {_kind(schema)}{'' if name in needed else ' (optional)'}"
            for name, schema in self.parameters.get("properties", {}).items()
        ]
        return f"{self.name} takes {', '.join(shown) if shown else 'no arguments'}."

    def _unknown(self, arguments: Mapping[str, Any]) -> list[str]:
        known = list(self.parameters.get("properties", {}))
        out = []
        for name in arguments:
            if name not in known:
                close = nearest(str(name), known)
                out.append(
                    f"there is no argument {str(name)[:60]!r}" + (f", did you mean {close[0]!r}?" if close else "")
                )
        return out


def tool(function: Function) -> Function:
    """Make a method of a :class:`~agentgym.tools.environment.ToolEnvironment` a tool that models can call."""
    setattr(function, MARK, True)
    return function


class ToolSet:
    """The tools of one environment, by name. Raises ValueError for two of one name."""

    def __init__(self, tools: Iterable[Tool | type[BaseModel] | Callable[..., Any]]) -> None:
        self.by_name: dict[str, Tool] = {}
        for source in tools:
            made = Tool.of(source)
            if made.name in self.by_name:
                raise ValueError(f"two tools have the name {made.name!r}")
            self.by_name[made.name] = made

    def __len__(self) -> int:
        return len(self.by_name)

    @property
    def schemas(self) -> tuple[dict[str, Any], ...]:
        """What models are told; for ``EnvironmentSpec.tools``."""
        return tuple(made.schema() for made in self.by_name.values())

    def read(self, action: str) -> tuple[Tool, dict[str, Any]]:
        """The tool that ``action`` calls, and its validated arguments. Raises ToolProblem."""
        found = read_calls(action, tools=self.schemas)
        if found.problem or len(found.calls) != 1:
            problem = found.problem or f"there are {len(found.calls) or 'no'} tool calls, exactly one is needed"
            raise ToolProblem(f"{problem}. The tools are: {', '.join(self.by_name)}.")
        call = found.calls[0]
        made = self.by_name.get(call.name)
        if made is None:
            close = nearest(call.name, self.by_name)
            hint = f"Did you mean {close[0]!r}?" if close else f"The tools are: {', '.join(self.by_name)}."
            raise ToolProblem(f"there is no tool {call.name[:60]!r}. {hint}")
        return made, made.checked(call.arguments)


def _arguments(function: Callable[..., Any]) -> type[BaseModel]:
    """A model of a function's parameters (``self`` left out), all of which must have types."""
    hints = typing.get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "self":
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY) or name not in hints:
            raise ValueError(f"tool {function.__name__!r}: parameter {name!r} needs a type, and no * or **")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (hints[name], default)
    return create_model(function.__name__, **fields)


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema without the titles that pydantic adds; they tell a model nothing."""

    def plain(part: Any, names: bool = False) -> Any:
        if isinstance(part, dict):
            return {k: plain(v, k in ("properties", "$defs")) for k, v in part.items() if names or k != "title"}
        return [plain(item) for item in part] if isinstance(part, list) else part

    schema: dict[str, Any] = plain(model.model_json_schema())
    schema.pop("description", None)  # the tool's own
    return {"type": "object", "properties": {}, **schema}


def _line(error: Any) -> str:
    place = ".".join(map(str, error["loc"])) or "the arguments"
    if error["type"] == "missing":
        return f"{place} is missing"
    shown = json.dumps(error.get("input"), ensure_ascii=False, default=str)
    return f"{place}: {error['msg']}, got {shown if len(shown) <= 80 else shown[:80] + '...'}"


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(map(repr, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(_kind(option) for option in schema["anyOf"])
    return str(schema.get("type", schema.get("$ref", "anything").rpartition("/")[2]))
