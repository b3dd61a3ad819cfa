"""All solutions there are: the values that subsets of the numbers can make, and one expression for a target."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd

from agentgym.environments.countdown.expression import combine

_Value = tuple[int, int]


@lru_cache(maxsize=4096)
def solve(numbers: tuple[int, ...], target: int) -> str | None:
    """An expression that uses each number once and equals ``target``, or None. Exact, with all four operators."""
    everything = (1 << len(numbers)) - 1
    made: dict[int, dict[_Value, str]] = {1 << k: {(n, 1): str(n)} for k, n in enumerate(numbers)}
    if len(numbers) == 1:
        return made[1].get((target, 1))
    for subset in sorted(range(1, everything), key=lambda s: (s.bit_count(), s)):
        if subset.bit_count() > 1:
            made[subset] = _values(subset, made)
    for left in range(1, everything):
        right = everything ^ left
        found = _pair(made[left], made[right], target) if left < right else None
        if found is not None:
            return found
    return None


def _values(subset: int, made: dict[int, dict[_Value, str]]) -> dict[_Value, str]:
    """The values of all expressions over a subset, by its splits into two."""
    out: dict[_Value, str] = {}
    low = subset & -subset
    rest, part = subset ^ low, 0
    while part != rest:  # the lowest number and a part of the others against the rest: each split once
        left, right = low | part, rest ^ part
        for a, first in made[left].items():
            for b, second in made[right].items():
                for operator, x, y, p, q in _operations(a, b, first, second):
                    value = combine(operator, x, y)
                    if value is not None:
                        out.setdefault(_reduced(value), f"({p} {operator} {q})")
        part = (part - rest) & rest
    return out


def _operations(a: _Value, b: _Value, p: str, q: str) -> Sequence[tuple[str, _Value, _Value, str, str]]:
    return (
        ("+", a, b, p, q), ("*", a, b, p, q), ("-", a, b, p, q), ("-", b, a, q, p), ("/", a, b, p, q), ("/", b, a, q, p)
    )  # fmt: skip


def _reduced(value: _Value) -> _Value:
    divisor = gcd(*value)
    return value[0] // divisor, value[1] // divisor


def _pair(left: dict[_Value, str], right: dict[_Value, str], target: int) -> str | None:
    """Two values, one of each side, that an operator makes into the target: looked up, not tried."""
    aim = (target, 1)
    for a, first in left.items():
        if a[0] == 0 and target == 0:  # nothing to look up: zero times anything
            return f"{first} * {next(iter(right.values()))}"
        for operator, value in (("+", combine("-", aim, a)), ("*", combine("/", aim, a)), ("-", combine("-", a, aim))):
            if value is not None and (other := right.get(_reduced(value))) is not None:
                return f"{first} {operator} {other}"
        value = combine("/", a, aim)
        if value is not None and value[0] and (other := right.get(_reduced(value))) is not None:
            return f"{first} / {other}"
        for operator, value in (("-", combine("+", aim, a)), ("/", combine("*", aim, a) if a[0] else None)):
            if value is not None and (other := right.get(_reduced(value))) is not None:
                return f"{other} {operator} {first}"
    return None
