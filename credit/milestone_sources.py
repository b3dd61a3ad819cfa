"""Where milestones come from: the environment's facts, or regular expressions over the transcript; a judge is in
:mod:`agentgym.credit.milestone_judge`.

A source gives each episode its :class:`Progress`: all names, and for every turn those reached up to and including it.
Progress never goes back: what was undone stays reached, else doing and undoing would be paid again and again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from agentgym.credit.protocols import Array, Services
from agentgym.errors import ConfigError, unknown
from agentgym.types import Group, Turn

FIELDS = ("action", "observation", "next_observation")


@dataclass(slots=True)
class Progress:
    """``reached[t]``: the names reached after turn t, in the order of ``names``. Without names there is none."""

    names: tuple[str, ...] = ()
    reached: list[tuple[str, ...]] = field(default_factory=list)

    def potential(self) -> Array:
        """``Phi[0..T]`` in [0, 1]: the share of names reached before turn 0 (0 by definition) and after each turn."""
        if not self.names:
            return np.zeros(len(self.reached) + 1)
        return np.array([0, *map(len, self.reached)], np.float64) / len(self.names)


def accumulate(names: Sequence[str], new: Sequence[Sequence[str]]) -> Progress:
    """Progress from the names met on each turn; names that ``names`` does not hold are left out."""
    known, so_far = set(names), set[str]()
    present: tuple[str, ...] = ()
    reached: list[tuple[str, ...]] = []
    last: Sequence[str] | None = None
    for met in new:
        if met is not last and not so_far.issuperset(met):  # most turns reach nothing
            so_far |= known.intersection(met)
            present = tuple(name for name in names if name in so_far)
        last = met
        reached.append(present)
    return Progress(tuple(names), reached)


class Source(Protocol):
    """``requires`` as in a rewarder; ``counts`` of the last ``read``; ``label`` of the source's notes in ``info``."""

    label: str
    requires: frozenset[str]
    counts: dict[str, float]

    async def read(self, groups: list[Group], svc: Services) -> list[list[Progress]]: ...


class EnvironmentFacts:
    """``turn.milestones``; names from the episode, or where it declares none, those met in its group, sorted."""

    label, requires = "", frozenset[str]()

    def __init__(self) -> None:
        self.counts: dict[str, float] = {}

    async def read(self, groups: list[Group], svc: Services) -> list[list[Progress]]:
        """``[group][episode]``. Names on turns that the episode does not declare are counted, and left out."""
        out: list[list[Progress]] = []
        strange = 0
        for group in groups:
            met = [set[str]().union(*(turn.milestones for turn in episode.turns)) for episode in group]
            stand_in = tuple(sorted(set[str]().union(*met)))
            row = []
            for episode, names in zip(group, met, strict=True):
                strange += len(names.difference(episode.milestone_names or stand_in))
                reached = [turn.milestones for turn in episode.turns]
                row.append(accumulate(episode.milestone_names or stand_in, reached))
            out.append(row)
        self.counts = {"undeclared_names": float(strange)}
        return out


class Rules:
    """A milestone is reached at the first turn whose ``field`` holds a match of ``pattern`` (``re.search``).

    Each rule: ``{name, pattern, field}`` with field ``action``, ``observation`` or ``next_observation`` (default).
    """

    label, requires = "rules", frozenset[str]()

    def __init__(self, rules: Sequence[Mapping[str, str]]) -> None:
        self.counts: dict[str, float] = {}
        self.rules = [_rule(number, rule) for number, rule in enumerate(rules)]
        self.names = tuple(name for name, _, _ in self.rules)
        if not rules or len(set(self.names)) < len(rules):
            raise ConfigError(f"milestones: source 'rules' needs rules with names of their own, got {list(self.names)}")

    def met(self, turn: Turn) -> tuple[str, ...]:
        """The names whose pattern this turn holds."""
        return tuple(name for name, pattern, place in self.rules if pattern.search(getattr(turn, place) or ""))

    async def read(self, groups: list[Group], svc: Services) -> list[list[Progress]]:
        """``[group][episode]``."""
        return [[accumulate(self.names, [self.met(turn) for turn in e.turns]) for e in group] for group in groups]


def _rule(number: int, rule: Mapping[str, str]) -> tuple[str, re.Pattern[str], str]:
    for key in rule:
        if key not in ("name", "pattern", "field"):
            raise unknown(f"key of milestone rule {number}", str(key), ("name", "pattern", "field"))
    name, pattern, place = rule.get("name", ""), rule.get("pattern", ""), rule.get("field", "next_observation")
    if not name or not pattern:
        raise ConfigError(f"milestone rule {number} needs a name and a pattern, got {dict(rule)}")
    if place not in FIELDS:
        raise unknown(f"field of milestone rule {name!r}", place, FIELDS)
    try:
        return name, re.compile(pattern), place
    except re.error as error:
        raise ConfigError(f"milestone rule {name!r}: {pattern!r} is no regular expression: {error}") from error
