"""One ALFWorld game as data: the facts of its PDDL problem, read from text or built by a generator.

All identifiers and types are lower case, as the Fast Downward translator makes them; types carry no ``type``
suffix (``SinkBasinType`` is ``sinkbasin``). An identifier looks like ``mug_bar_1_bar_2``: what stands before the
first ``_bar_`` names the entity, and the order of the identifiers numbers it (see :meth:`Problem.names`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

#: task types in the order of the official table
KINDS: Final = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
#: what the object must be when it is placed, per task type that asks for it
TRANSFORMS: Final = {
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "hot",
    "pick_cool_then_place_in_recep": "cool",
}
#: abilities an object may have, as the domain's predicates name them
ABILITIES: Final = frozenset({"pickupable", "cleanable", "heatable", "coolable", "toggleable", "sliceable"})
#: changeable properties of an object
STATES: Final = frozenset({"clean", "hot", "cool", "toggled", "sliced"})


@dataclass(frozen=True, slots=True)
class Receptacle:
    """A fixed place that holds objects.

    ``id``        unique, with a ``_bar_``: ``desk_bar_01``
    ``type``      ``desk``; decides what it can contain and whether it cleans, heats or cools
    ``location``  id of the spot the agent stands at to use it; several receptacles may share one
    ``openable``  it hides its contents until opened
    ``opened``    it is open at the start (never in the official games)
    """

    id: str
    type: str
    location: str
    openable: bool = False
    opened: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """An object.

    ``id``           unique, with a ``_bar_``
    ``type``         ``mug``
    ``abilities``    subset of :data:`ABILITIES`
    ``receptacles``  ids of the receptacles it is in or on. Usually one; the official games have objects in two or
                     three at once (each is a separate fact, and taking the object removes one only) and in none
    ``locations``    ids of the locations it is at (``objectAtLocation``); only slicing and ``look`` depend on it
    ``states``       subset of :data:`STATES` that hold at the start
    ``vessel``       things can be inside it (a plate, a pan); changes what ``examine`` says, nothing else
    ``inside``       ids of the vessels it lies in; shown by ``examine``, nothing else
    """

    id: str
    type: str
    abilities: frozenset[str] = frozenset({"pickupable"})
    receptacles: tuple[str, ...] = ()
    locations: tuple[str, ...] = ()
    states: frozenset[str] = frozenset()
    vessel: bool = False
    inside: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.abilities <= ABILITIES or not self.states <= STATES:
            odd = sorted((self.abilities - ABILITIES) | (self.states - STATES))
            raise ValueError(f"object {self.id!r}: unknown abilities or states {odd}")


@dataclass(frozen=True, slots=True)
class Goal:
    """What is asked for.

    ``kind``    one of :data:`KINDS`
    ``item``    type of the object (two of them for ``pick_two_obj_and_place``)
    ``target``  type of the receptacle, or of the lamp for ``look_at_obj_in_light``
    """

    kind: str
    item: str
    target: str

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown ALFWorld task type {self.kind!r}; known: {', '.join(KINDS)}")

    @property
    def count(self) -> int:
        """How many objects must be placed."""
        return 2 if self.kind == "pick_two_obj_and_place" else 1

    @property
    def transform(self) -> str:
        """``clean``, ``hot``, ``cool`` or the empty string."""
        return TRANSFORMS.get(self.kind, "")


@dataclass(frozen=True, slots=True)
class Problem:
    """A whole game.

    ``receptacles``, ``items``  in any order; kept sorted by id, which is the order of every list in the game's text
    ``start``        id of the agent's first location, in the official games one without a receptacle
    ``can_contain``  pairs (receptacle type, object type): what may be moved where
    ``goal``         see :class:`Goal`
    ``task``         the sentence after "Your task is to: ", with its full stop
    ``walkthrough``  stored solution, may be empty
    ``name``         the source's own name, for messages
    """

    receptacles: tuple[Receptacle, ...]
    items: tuple[Item, ...]
    start: str
    can_contain: frozenset[tuple[str, str]]
    goal: Goal
    task: str
    walkthrough: tuple[str, ...] = ()
    name: str = ""
    _names: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "receptacles", tuple(sorted(self.receptacles, key=lambda r: r.id)))
        object.__setattr__(self, "items", tuple(sorted(self.items, key=lambda o: o.id)))
        self._names.update(number_names([*(r.id for r in self.receptacles), *(o.id for o in self.items)], self.name))
        known = {r.id for r in self.receptacles}
        for item in self.items:
            if not known.issuperset(item.receptacles):
                odd = sorted(set(item.receptacles) - known)
                raise ValueError(f"problem {self.name!r}: object {item.id!r} is in unknown receptacles {odd}")

    def names(self) -> dict[str, str]:
        """Display name of every receptacle and object by id: ``desk 2``. See :func:`number_names`."""
        return self._names


def number_names(ids: Iterable[str], where: str = "") -> dict[str, str]:
    """Number ids as ALFWorld's demangler does (alfworld 0.4.2): sorted, the highest number first.

    Hence "a drawer 3, a drawer 2, a drawer 1" in the intro. An id that contains ``basin`` anywhere adds it to its
    name: ``sink_bar_.._bar_sinkbasin`` is a ``sinkbasin``, while the sink itself, an object, is a ``sink``.
    """
    ordered = sorted(ids)
    stems: list[str] = []
    counts: dict[str, int] = {}
    for identifier in ordered:
        stem, bar, _ = identifier.partition("_bar_")
        if not bar:
            raise ValueError(f"problem {where!r}: id {identifier!r} has no '_bar_', so it cannot be numbered")
        if "basin" in identifier:
            stem += "basin"
        stems.append(stem)
        counts[stem] = counts.get(stem, 0) + 1
    names: dict[str, str] = {}
    for identifier, stem in zip(ordered, stems, strict=True):
        if identifier in names:
            raise ValueError(f"problem {where!r}: id {identifier!r} occurs twice")
        names[identifier] = f"{stem} {counts[stem]}"
        counts[stem] -= 1
    return names


_ATOM = re.compile(r"\((\w+) ([^\s()]+) ([^\s()]+)\)|\((\w+) ([^\s()]+)\)")
_SPACE = re.compile(r"\s+")
_INTERNED: dict[frozenset[tuple[str, str]], frozenset[tuple[str, str]]] = {}


def parse_problem(text: str, task: str, walkthrough: Iterable[str] = (), name: str = "") -> Problem:
    """Read a PDDL problem of the ALFWorld domain. Raises ValueError naming what is missing or unknown."""
    text = text.lower()
    start, end = text.find("(:init"), text.rfind("(:goal")
    if start < 0 or end < start:
        raise ValueError(f"problem {name!r}: expected '(:init ...) (:goal ...)', found no such sections")
    pairs: dict[str, list[tuple[str, str]]] = {}
    singles: dict[str, set[str]] = {}
    for head, left, right, unary, only in _ATOM.findall(text, start, end):
        if head:
            pairs.setdefault(head, []).append((left, right))
        else:
            singles.setdefault(unary, set()).add(only)
    try:
        begin = pairs["atlocation"][0][1]
        receptacles = _receptacles(pairs, singles)
    except KeyError as error:
        raise ValueError(f"problem {name!r}: no usable fact for {error}") from None
    bare = frozenset((r.removesuffix("type"), o.removesuffix("type")) for r, o in pairs.get("cancontain", ()))
    return Problem(
        receptacles=receptacles,
        items=_items(pairs, singles),
        start=begin,
        can_contain=_INTERNED.setdefault(bare, bare),  # nearly all games share one table
        goal=parse_goal(text[end:], name),
        task=task,
        walkthrough=tuple(walkthrough),
        name=name,
    )


def _receptacles(pairs: dict[str, list[tuple[str, str]]], singles: dict[str, set[str]]) -> tuple[Receptacle, ...]:
    places = dict(pairs["receptacleatlocation"])
    openable, opened = singles.get("openable", set()), singles.get("opened", set())
    kinds = dict(pairs["receptacletype"])
    return tuple(
        Receptacle(key, kind.removesuffix("type"), places[key], key in openable, key in opened)
        for key, kind in kinds.items()
    )


def _items(pairs: dict[str, list[tuple[str, str]]], singles: dict[str, set[str]]) -> tuple[Item, ...]:
    places: dict[str, dict[str, list[str]]] = {}
    for head in ("inreceptacle", "objectatlocation", "inreceptacleobject"):
        grouped = places[head] = {}
        for key, place in pairs.get(head, ()):
            row = grouped.setdefault(key, [])
            if place not in row:  # nearly every official problem repeats facts
                row.append(place)
    able = [(ability, singles[ability]) for ability in ABILITIES if ability in singles]
    state = [(name, singles["is" + name]) for name in STATES if "is" + name in singles]
    vessels = singles.get("isreceptacleobject", set())
    none: list[str] = []
    return tuple(
        Item(
            id=key,
            type=kind.removesuffix("type"),
            abilities=frozenset([ability for ability, members in able if key in members]),
            receptacles=tuple(places["inreceptacle"].get(key, none)),
            locations=tuple(places["objectatlocation"].get(key, none)),
            states=frozenset([name for name, members in state if key in members]),
            vessel=key in vessels,
            inside=tuple(places["inreceptacleobject"].get(key, none)),
        )
        for key, kind in dict(pairs.get("objecttype", ())).items()
    )


def parse_goal(text: str, name: str = "") -> Goal:
    """The goal of one of the six task types from its PDDL text; raises ValueError for any other goal."""
    flat = _SPACE.sub(" ", text.lower())
    atoms = [(m[0] or m[3], m[1] or m[4], m[2]) for m in _ATOM.findall(flat)]
    heads = {head for head, _, _ in atoms}
    types = {left: right.removesuffix("type") for head, left, right in atoms if head == "objecttype"}
    targets = {right.removesuffix("type") for head, _, right in atoms if head == "receptacletype"}
    if "istoggled" in heads and "holds" in heads:
        lamps = [types.get(left, "") for head, left, _ in atoms if head == "istoggled"]
        held = [types.get(right, "") for head, _, right in atoms if head == "holds"]
        if len(lamps) == len(held) == 1 and lamps[0] and held[0]:
            return Goal("look_at_obj_in_light", held[0], lamps[0])
    elif "inreceptacle" in heads and len(targets) == 1 and len(set(types.values())) == 1:
        wanted = [kind for kind, state in TRANSFORMS.items() if "is" + state in heads]
        if len(types) == 2 and "(not (= " in flat and not wanted:
            wanted = ["pick_two_obj_and_place"]
        elif len(types) == 1 and not wanted:
            wanted = ["pick_and_place_simple"]
        if len(wanted) == 1:
            return Goal(wanted[0], next(iter(types.values())), next(iter(targets)))
    raise ValueError(f"problem {name!r}: the goal is not one of the six ALFWorld task types: {flat[:300]!r}")
