"""Recipes from files: shipped ones by name, others by path, with dotted overrides, into one validated tree.

    recipe = load_recipe("alfworld/tiny", ["rl.lr=1e-4", "credit=[outcome]"])

A recipe may begin from another with ``extends: NAME``; keys it states replace those of the base, section by section.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from agentgym.config import strict_yaml
from agentgym.config.problems import Origin, validated
from agentgym.config.recipe import Recipe
from agentgym.errors import ConfigError, nearest

#: folder of the recipes that come with the package
SHIPPED = Path(__file__).parent.parent / "recipes"


def recipe_names() -> list[str]:
    """Names of the shipped recipes, sorted: ``alfworld/tiny`` and so on."""
    return sorted(path.relative_to(SHIPPED).with_suffix("").as_posix() for path in SHIPPED.rglob("*.yaml"))


def find_recipe(name: str, beside: Path | None = None) -> Path:
    """The file behind a shipped name or a path; ``beside``: folder that relative paths may also start from."""
    shipped = SHIPPED / f"{name}.yaml"
    if name in recipe_names():
        return shipped
    folders = [Path(), *([beside] if beside else [])]
    for folder in folders:
        path = folder / name
        if path.is_file():
            return path
    if any((folder / name).is_dir() for folder in folders):
        raise ConfigError(f"recipe {name!r} is a folder, expected a YAML file")
    close = nearest(name, recipe_names())
    hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else "Run 'agentgym recipes' for the shipped ones."
    raise ConfigError(f"there is no recipe {name!r}, neither shipped nor as a file. {hint}")


def load_recipe(name: str, overrides: Iterable[str] = ()) -> Recipe:
    """Read, extend, override and validate. Raises ConfigError that lists every problem, one a line."""
    path = find_recipe(name)
    data, origin = _read(path, ())
    data.setdefault("name", path.stem)
    for override in overrides:
        apply_override(data, origin, override)
    return validated(data, origin)


def recipe_from_dict(data: dict[str, Any], source: str = "recipe") -> Recipe:
    """Validate a tree made in Python the way a file is validated."""
    return validated(data, Origin(source))


def _read(path: Path, chain: tuple[Path, ...]) -> tuple[dict[str, Any], Origin]:
    real = path.resolve()
    if real in chain:
        raise ConfigError(f"{path}: 'extends' goes in a circle: {' -> '.join(p.name for p in (*chain, real))}")
    data, lines = strict_yaml.read(path)
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected keys and values, got {type(data).__name__}")
    origin = Origin(str(path), lines)
    if "extends" not in data:
        return data, origin
    base_name = data.pop("extends")
    if not isinstance(base_name, str):
        raise ConfigError(f"{path}:{lines[('extends',)]}: extends: expected a recipe's name or path, got {base_name!r}")
    base, base_origin = _read(find_recipe(base_name, beside=path.parent), (*chain, real))
    base.pop("name", None)
    base.pop("description", None)
    return _merged(base, data), origin.over(base_origin)


def _merged(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    out = dict(base)
    for key, value in top.items():
        old = out.get(key)
        out[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return out


def apply_override(data: dict[str, Any], origin: Origin, override: str) -> None:
    """Set one ``dotted.key=value`` in ``data``; the value is YAML (``1e-4`` a number, ``[a, b]`` a list)."""
    key, equals, text = override.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        raise ConfigError(f"override {override!r}: expected key=value, for example rl.lr=1e-4")
    source = f"override {override!r}"
    place = data
    for depth, part in enumerate(path[:-1]):
        child = place.get(part)
        if child is None:
            child = place[part] = {}
            origin.overrides.setdefault(path[: depth + 1], source)
        elif not isinstance(child, dict):
            raise ConfigError(f"{source}: {'.'.join(path[: depth + 1])} is {child!r}, which has no keys")
        place = child
    place[path[-1]] = strict_yaml.value(text, source)
    origin.overrides[path] = source


def recipe_text(recipe: Recipe) -> str:
    """The whole recipe as YAML that :func:`load_recipe` reads back to an equal recipe."""
    return strict_yaml.dump(recipe.model_dump(mode="python"))


def save_recipe(recipe: Recipe, path: str | os.PathLike[str]) -> None:
    """Write :func:`recipe_text` to ``path``, atomically."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    partial.write_text(recipe_text(recipe), encoding="utf-8")
    os.replace(partial, target)


def recipe_schema() -> dict[str, Any]:
    """JSON schema of a recipe file, for editors."""
    schema = Recipe.model_json_schema()
    schema["title"] = "agentgym recipe"
    schema["properties"]["extends"] = {"type": "string", "description": "recipe to begin from: shipped name or path"}
    return schema


def shipped_recipes() -> Iterator[tuple[str, Recipe]]:
    """Every shipped recipe, loaded."""
    for name in recipe_names():
        yield name, load_recipe(name)
