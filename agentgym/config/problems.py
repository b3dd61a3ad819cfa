"""From a tree of plain values to a Recipe, with errors that name key, place, what was expected and what was seen."""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError

from agentgym.config.recipe import Recipe
from agentgym.config.strict_yaml import Lines
from agentgym.errors import ConfigError, nearest

Path = tuple[str, ...]


@dataclass(slots=True)
class Origin:
    """Where each key came from: a line of a file, of the file it extends, or an override."""

    source: str
    lines: Lines = field(default_factory=dict)
    overrides: dict[Path, str] = field(default_factory=dict)
    base: Origin | None = None

    def over(self, base: Origin) -> Origin:
        """The same origin, for keys that lie on top of ``base``."""
        return Origin(self.source, self.lines, self.overrides, base)

    def where(self, path: Path) -> str:
        """``file:line`` or the override that set ``path`` or its nearest parent."""
        for length in range(len(path), 0, -1):
            part = path[:length]
            if part in self.overrides:
                return self.overrides[part]
            layer: Origin | None = self
            while layer is not None:
                if part in layer.lines:
                    return f"{layer.source}:{layer.lines[part]}"
                layer = layer.base
        return self.source


def validated(data: dict[str, Any], origin: Origin) -> Recipe:
    """The recipe of ``data``. Raises ConfigError with one line for each problem."""
    problems = list(_unknown_keys(Recipe, data, (), origin))
    if problems:
        raise ConfigError("\n".join(problems))
    try:
        recipe = Recipe.model_validate(data, strict=True)
    except ValidationError as error:
        raise ConfigError("\n".join(_lines(error, origin))) from error
    for section in ("format", "prompt"):
        try:
            getattr(recipe, section).build()
        except ValueError as error:
            raise ConfigError(f"{origin.where((section,))}: {error}") from error
    return recipe


def _section(annotation: Any) -> type[BaseModel] | None:
    """The pydantic model inside an annotation such as ``LoraSection | None`` or ``list[TaskSource]``, if any."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, list):
        for part in typing.get_args(annotation):
            found = _section(part)
            if found:
                return found
    return None


def _unknown_keys(model: type[BaseModel], data: Any, path: Path, origin: Origin) -> typing.Iterator[str]:
    if isinstance(data, list):
        for index, item in enumerate(data):
            yield from _unknown_keys(model, item, (*path, str(index)), origin)
    if not isinstance(data, dict):
        return
    known = model.model_fields
    for key, value in data.items():
        here = (*path, str(key))
        if key in known:
            inner = _section(known[key].annotation)
            if inner:
                yield from _unknown_keys(inner, value, here, origin)
            continue
        yield f"{origin.where(here)}: unknown key '{'.'.join(here)}'. {_suggestion(str(key), path, known)}"


def _suggestion(key: str, path: Path, known: typing.Iterable[str]) -> str:
    """The same key elsewhere in a recipe, else the nearest of this section, else all of this section."""
    elsewhere = [dotted for dotted in _all_keys(Recipe, ()) if dotted.rsplit(".", 1)[-1] == key]
    close = elsewhere[:3] or [".".join((*path, name)) for name in nearest(key, known)]
    if close:
        return f"Did you mean {' or '.join(map(repr, close))}?"
    place = f"'{'.'.join(path)}'" if path else "A recipe"
    return f"{place} has: {', '.join(known)}."


def _all_keys(model: type[BaseModel], path: Path) -> typing.Iterator[str]:
    for name, info in model.model_fields.items():
        yield ".".join((*path, name))
        inner = _section(info.annotation)
        if inner:
            yield from _all_keys(inner, (*path, name))


def _lines(error: ValidationError, origin: Origin) -> typing.Iterator[str]:
    """One line for each key with a problem; the alternatives of a union are joined."""
    by_path: dict[Path, list[dict[str, Any]]] = {}
    for problem in error.errors():
        by_path.setdefault(_key_path(problem["loc"]), []).append(dict(problem))
    for path, found in by_path.items():
        first = found[0]
        if first["type"] == "value_error":
            message = str(first["ctx"]["error"])
            yield f"{origin.where(path)}: {message}"
            continue
        expected = " or ".join(dict.fromkeys(_expected(p["msg"]) for p in found))
        yield f"{origin.where(path)}: {'.'.join(path)}: expected {expected}, got {_seen(first['input'])}"


def _key_path(loc: tuple[int | str, ...]) -> Path:
    """``loc`` without pydantic's names for alternatives of a union (they hold no place in the file)."""
    path: list[str] = []
    model: type[BaseModel] | None = Recipe
    for part in loc:
        if model is None and isinstance(part, str):
            break
        path.append(str(part))
        if isinstance(part, int):
            continue
        info = model.model_fields.get(part) if model else None
        model = _section(info.annotation) if info else None
    return tuple(path)


def _expected(message: str) -> str:
    for lead in ("Input should be a valid ", "Input should be "):
        if message.startswith(lead):
            rest = message.removeprefix(lead)
            break
    else:
        return message[:1].lower() + message[1:]
    words = {"dictionary or instance of": "keys and values", "string": "text", "dictionary": "keys and values"}
    for start, word in words.items():
        if rest.startswith(start):
            return word
    articles = {"number": "a ", "finite": "a ", "integer": "an ", "list": "a ", "boolean": "a "}
    return articles.get(rest.split()[0].rstrip(","), "") + rest


def _seen(value: Any) -> str:
    shown = repr(value)
    if len(shown) > 80:
        shown = shown[:77] + "..."
    return f"{shown} ({'nothing' if value is None else type(value).__name__})"
