"""The names of verl 0.9.1's configuration, so that a wrong one is refused before anything starts, verl there or not.

``keys.txt`` lists them (facts of that release, from its composed ``ppo_trainer``); a test compares it with an
installed verl. A name that ends in ``.*`` takes any keys below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from agentgym.errors import ConfigError, nearest


@cache
def known() -> tuple[frozenset[str], frozenset[str]]:
    """All settings by dotted name, and those under which any key may stand."""
    names = (Path(__file__).parent / "keys.txt").read_text(encoding="utf-8").split()
    opened = {name[:-2] for name in names if name.endswith(".*")}
    return frozenset(name.removesuffix(".*") for name in names), frozenset(opened)


def leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a nested mapping with its dotted name; an empty mapping is a value."""
    for key, value in tree.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, Mapping) and value:
            yield from leaves(value, name)
        else:
            yield name, value


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """A nested mapping, made of dotted names (``{"a.b": 1}`` and ``{"a": {"b": 1}}`` alike)."""
    out: dict[str, Any] = {}
    for name, value in leaves(flat):
        *parents, last = name.split(".")
        place = out
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise ConfigError(f"verl.{name}: verl.{'.'.join(parents)} is given as a value too")
        place[last] = value
    return out


def check(tree: Mapping[str, Any]) -> None:
    """Raise ConfigError for every key that verl does not have, with the nearest names that it has."""
    names, opened = known()
    problems = []
    for name, _ in leaves(tree):
        parents = [name.rsplit(".", cut)[0] for cut in range(name.count(".") + 1)]
        if name in names or any(parent in opened for parent in parents):
            continue
        if any(other.startswith(f"{name}.") for other in names):
            problems.append(f"verl.{name}: a section of verl's configuration, expected keys below it")
            continue
        close = [f"verl.{found}" for found in _nearest(name, names)]
        hint = f" Did you mean {' or '.join(close)}?" if close else ""
        problems.append(f"unknown key verl.{name}: verl 0.9.1 has no such setting.{hint}")
    if problems:
        raise ConfigError("\n".join(problems))


def _nearest(name: str, names: frozenset[str]) -> list[str]:
    """Names whose last part is close and, among those, whose whole is; else names close as a whole."""
    section, _, last = name.rpartition(".")
    beside = {other.rpartition(".")[2]: other for other in names if other.rpartition(".")[0] == section}
    if found := nearest(last, beside, 2):
        return [beside[part] for part in found]
    same = [other for other in names if other.rpartition(".")[2] == last]
    return nearest(name, same or names, 2)
