"""Unlimited ALFWorld games without a download: rooms, objects and tasks drawn anew from one seed.

A game is solvable by construction: the objects the task needs lie where they can be taken, at places that are not the
target, and the appliance, the target and the lamp exist. Texts, rules and facts are those of the official games, so a
policy trained here plays there; :func:`~agentgym.environments.alfworld.pddl.write_game` writes a game that the real
engine plays.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from agentgym.environments.alfworld.catalogue import (
    ABILITIES_OF,
    APPLIANCES,
    CAN_CONTAIN,
    COLD_IN_FRIDGE,
    FIXTURES,
    GOALS,
    OPENABLE,
    SHARED,
    VESSELS,
    WORDINGS,
)
from agentgym.environments.alfworld.households import PLACES, ROOMS
from agentgym.environments.alfworld.knobs import Knobs, make_knobs
from agentgym.environments.alfworld.problem import Goal, Item, Problem, Receptacle
from agentgym.seeding import python_rng


def generate(seed: int, preset: str = "full", **knobs: Any) -> Problem:
    """The game of this seed, the same on every machine. ``knobs``: fields of :class:`.Knobs` unlike the preset's."""
    return build(seed, make_knobs(preset, knobs))


def build(seed: int, knobs: Knobs) -> Problem:
    """As :func:`generate`, for knobs that are already made."""
    return _Builder(python_rng("alfworld game", seed), knobs).problem(f"generated-{seed}")


def _draw(rng: random.Random, table: Mapping[str, int]) -> str:
    return rng.choices(list(table), list(table.values()))[0]


class _Builder:
    """Draws one game. The order of the draws is fixed: changing it changes what every seed means."""

    def __init__(self, rng: random.Random, knobs: Knobs) -> None:
        self.rng = rng
        self.knobs = knobs
        pairs = knobs.choices()
        self.kind, self.room = rng.choices(list(pairs), list(pairs.values()))[0]
        self.goal = self._goal()
        self.light = self.kind == "look_at_obj_in_light"

    def problem(self, name: str) -> Problem:
        furniture = self._furniture()
        places = self._places(furniture)
        items = self._items(places)
        held = {item.type for item in items}
        present = {place.type for place in places}
        sentence = self.rng.choice(WORDINGS[self.kind])
        return Problem(
            receptacles=places,
            items=items,
            start="loc_bar_00",
            can_contain=frozenset((p, o) for p in present for o in CAN_CONTAIN[p] if o in held),
            goal=self.goal,
            task=sentence.format(item=self.goal.item, target=self.goal.target),
            name=name,
        )

    def _goal(self) -> Goal:
        _, items, targets = GOALS[self.kind, self.room]
        while True:
            item, target = _draw(self.rng, items), _draw(self.rng, targets)
            if self.kind == "look_at_obj_in_light" or item in CAN_CONTAIN[target]:
                return Goal(self.kind, item, target)

    # -- receptacles

    def _needed(self) -> list[str]:
        """Receptacle types the task cannot do without: the target, the appliance, and places for what is needed."""
        goal = self.goal
        needed = [] if self.light else [goal.target]
        if goal.transform and APPLIANCES[goal.transform] not in needed:
            needed.append(APPLIANCES[goal.transform])
        room = ROOMS[self.room][0]
        for kind in [goal.item, goal.target] if self.light else [goal.item]:
            homes = {p: w for p, w in self._homes(kind).items() if p in room}
            if not any(place in homes for place in needed):
                needed.append(_draw(self.rng, homes))
        return needed

    def _homes(self, kind: str) -> dict[str, int]:
        """Receptacle types where a needed object may lie at the start; what must only be moved is not at the target."""
        wanted = kind == self.goal.item and not self.light and not self.goal.transform
        holds = {p: w for p, w in PLACES[kind].items() if p != "floor" and not (wanted and p == self.goal.target)}
        if holds:
            return holds
        return {p: 1 for p, content in CAN_CONTAIN.items() if kind in content and p != self.goal.target}

    def _furniture(self) -> list[str]:
        needed = self._needed()
        room = ROOMS[self.room][0]
        extra: list[str] = []
        for kind, counts in room.items():
            extra += [kind] * (self.rng.choice(counts) - (kind in needed))
        span = self.knobs.receptacles
        if span is None:
            return needed + extra
        total = self.rng.randint(*span)
        return needed + self._fit(extra, {k: sum(c) for k, c in room.items()}, total - len(needed))

    def _fit(self, drawn: list[str], table: Mapping[str, int], count: int) -> list[str]:
        """``count`` of the drawn types, more from the table where there are too few."""
        self.rng.shuffle(drawn)
        if len(drawn) < count and table:
            drawn += self.rng.choices(list(table), list(table.values()), k=count - len(drawn))
        return drawn[: max(0, count)]

    def _places(self, furniture: list[str]) -> tuple[Receptacle, ...]:
        self.rng.shuffle(furniture)
        counts: dict[str, int] = {}
        spots = self._spots(furniture)
        places = []
        for kind, spot in zip(furniture, spots, strict=True):
            counts[kind] = counts.get(kind, 0) + 1
            stem = kind.removesuffix("basin")  # the demangler adds "basin" back
            tail = f"_bar_{kind}" if stem != kind else ""
            openable = self.rng.random() < OPENABLE.get(kind, 0.0)
            places.append(Receptacle(f"{stem}_bar_{counts[kind]:02d}{tail}", kind, f"loc_bar_{spot:02d}", openable))
        return tuple(places)

    def _spots(self, furniture: list[str]) -> list[int]:
        """The number of each receptacle's location; 0 is where the agent starts."""
        spots = list(range(1, len(furniture) + 1))
        if not self.knobs.shared:
            return spots
        moved: set[int] = set()
        for kind, other, share in SHARED:
            mine = [k for k, name in enumerate(furniture) if name == kind and k not in moved]
            hosts = [k for k, name in enumerate(furniture) if name == other and k not in moved]
            for k in mine:
                free = [host for host in hosts if host != k and host not in moved]
                # of two that may be paired with each other only one can make the move
                if k not in moved and free and self.rng.random() < (share / (2 - share) if kind == other else share):
                    host = self.rng.choice(free)
                    spots[k] = spots[host]
                    moved.update((k, host) if kind == other else (k,))
        return spots

    # -- objects

    def _items(self, places: tuple[Receptacle, ...]) -> tuple[Item, ...]:
        by_type: dict[str, list[Receptacle]] = {}
        for place in places:
            by_type.setdefault(place.type, []).append(place)
        placed: list[tuple[str, Receptacle | None]] = []
        for number, kind in enumerate(self._loose(by_type)):
            home = self._home(kind, by_type, number < self.goal.count + self.light)
            if home or self.knobs.floor:
                placed.append((kind, home))
        self.rng.shuffle(placed)
        counts: dict[str, int] = {}
        items = []
        for kind, home in placed:
            counts[kind] = counts.get(kind, 0) + 1
            items.append(self._item(f"{kind}_bar_{counts[kind]:02d}", kind, home))
        return tuple(items)

    def _loose(self, by_type: Mapping[str, list[Receptacle]]) -> list[str]:
        """Object types: first those the task needs (the lamp after the object), then all others."""
        goal, knobs = self.goal, self.knobs
        needed = [goal.item] * goal.count + ([goal.target] if self.light else [])
        table = ROOMS[self.room][1]
        if not knobs.floor:  # only what has a place
            table = {k: c for k, c in table.items() if k == goal.item or self._has_place(k, by_type)}
        extra = []
        for kind, counts in table.items():
            if kind != goal.item:
                extra += [kind] * (self.rng.choice(counts) - (kind in needed))
        span = knobs.distractors
        copies = self.rng.choice(table[goal.item]) - goal.count if span is None else self.rng.randint(*span)
        same = [goal.item] * max(0, copies)
        if knobs.objects is None:
            return needed + same + extra
        fixed = [kind for kind in extra if kind in FIXTURES]
        others = {k: sum(c) for k, c in table.items() if k != goal.item and k not in FIXTURES}
        total = self.rng.randint(*knobs.objects) - goal.count - len(same)
        return needed + same + fixed + self._fit([k for k in extra if k not in FIXTURES], others, total)

    @staticmethod
    def _has_place(kind: str, by_type: Mapping[str, list[Receptacle]]) -> bool:
        return any(p in PLACES[kind] or kind in CAN_CONTAIN[p] for p in by_type)

    def _home(self, kind: str, by_type: Mapping[str, list[Receptacle]], needed: bool) -> Receptacle | None:
        """Where an object lies at the start; None: on the floor, out of reach."""
        if needed or kind == self.goal.item:
            weights = {p: w for p, w in self._homes(kind).items() if p in by_type}
        else:
            weights = {p: w for p, w in PLACES[kind].items() if p in by_type}
        if not weights:
            weights = {p: 1 for p in by_type if kind in CAN_CONTAIN[p]}
        places = by_type
        if self.knobs.hidden is not None and kind == self.goal.item:
            hide = self.rng.random() < self.knobs.hidden
            fitting = {p: [place for place in by_type[p] if place.openable == hide] for p in weights}
            if any(fitting.values()):
                weights = {p: w for p, w in weights.items() if fitting[p]}
                places = fitting
        if not needed and self.knobs.floor and "floor" in PLACES[kind]:
            weights["floor"] = PLACES[kind]["floor"]
        if not weights:
            return None
        chosen = _draw(self.rng, weights)
        return None if chosen == "floor" else self.rng.choice(places[chosen])

    def _item(self, key: str, kind: str, home: Receptacle | None) -> Item:
        able = ABILITIES_OF[kind]
        cold = home is not None and home.type == "fridge" and "coolable" in able and kind != self.goal.item
        states = frozenset({"cool"}) if cold and self.rng.random() < COLD_IN_FRIDGE else frozenset[str]()
        return Item(
            id=key,
            type=kind,
            abilities=able,
            receptacles=(home.id,) if home else (),
            locations=(home.location,) if home else (),
            states=states,
            vessel=kind in VESSELS,
        )
