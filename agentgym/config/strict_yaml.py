"""YAML as recipes use it: safe, no duplicate keys, ``1e-4`` is a number, every key knows its line.

Differences from plain YAML 1.1: only ``true`` and ``false`` are booleans (``on``, ``no`` and the like are text),
dates are text, and a number with an exponent needs no dot.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from agentgym.errors import ConfigError

#: key path -> line (from 1) of the key in its file
Lines = dict[tuple[str, ...], int]

_FLOAT = re.compile(
    r"^[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?"
    r"|[0-9][0-9_]*[eE][-+]?[0-9]+|\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_INT = re.compile(r"^[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$")
_BOOL = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
_NULL = re.compile(r"^(?:~|null|Null|NULL|)$")


class _Loader(yaml.SafeLoader):
    """SafeLoader with the resolvers above; duplicate and non-text keys are refused."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own shape

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A dict, once every key is text and stands there once."""
        seen: dict[str, int] = {}
        for key_node, _ in node.value:
            line = key_node.start_mark.line + 1
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is None:
                raise _Refused("a key must be plain text", line)
            if key in seen:
                raise _Refused(f"key {key!r} stands here twice (first on line {seen[key]})", line)
            seen[key] = line
        return super().construct_mapping(node, deep=deep)


class _Refused(Exception):
    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.problem, self.line = problem, line


class _Dumper(yaml.SafeDumper):
    """Quotes text that this module's rules or plain YAML 1.1 would read as something else."""


for _class in (_Loader, _Dumper):
    _class.add_implicit_resolver("tag:yaml.org,2002:bool", _BOOL, list("tTfF"))
    _class.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))
    _class.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-+0123456789"))
    _class.add_implicit_resolver("tag:yaml.org,2002:null", _NULL, ["~", "n", "N", ""])


def dump(data: Any) -> str:
    """YAML text that :func:`parse` reads back to ``data``."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=100)


def parse(text: str, source: str) -> tuple[Any, Lines]:
    """The document and the line of every key. Raises ConfigError that begins with ``source:line``."""
    try:
        loader = _Loader(text)
    except yaml.YAMLError as error:  # characters that YAML does not allow
        raise ConfigError(f"{source}: not YAML text: {_one_line(error)}") from error
    try:
        node = loader.get_single_node()
        if node is None:
            return None, {}
        lines: Lines = {}
        _collect(node, (), lines)
        return loader.construct_document(node), lines
    except _Refused as refused:
        raise ConfigError(f"{source}:{refused.line}: {refused.problem}") from refused
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}" if mark else source
        raise ConfigError(f"{where}: {error.problem or _one_line(error)}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{source}: {_one_line(error)}") from error
    finally:
        loader.dispose()


def read(path: Path) -> tuple[Any, Lines]:
    """Parse a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    return parse(text, str(path))


def value(text: str, source: str) -> Any:
    """One value, as on the right of ``key=value``."""
    return parse(text, source)[0]


def _collect(node: yaml.Node, path: tuple[str, ...], lines: Lines) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            if isinstance(key, yaml.ScalarNode):
                here = (*path, key.value)
                lines[here] = key.start_mark.line + 1
                _collect(child, here, lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            here = (*path, str(index))
            lines[here] = child.start_mark.line + 1
            _collect(child, here, lines)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
