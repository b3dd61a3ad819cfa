"""The static side of one game: integer tables made once from a Problem and shared by all its episodes.

Receptacles, objects and locations are numbered in the order of their ids, so that every list the game prints is a
walk in ascending order.
"""

from __future__ import annotations

from typing import Final

from agentgym.environments.alfworld.problem import Problem, number_names

# op codes: what a command does
LOOK, INVENTORY, HELP, EXAMINE_PLACE, EXAMINE_ITEM, GO, OPEN, CLOSE, TAKE, MOVE = range(10)
CLEAN, HEAT, COOL, USE, SLICE = range(10, 15)

#: (code, first argument, second argument); -1 where there is none
Op = tuple[int, int, int]

# bits of an object's changeable state
CLEAN_BIT, HOT_BIT, COOL_BIT, TOGGLED_BIT, SLICED_BIT = 1, 2, 4, 8, 16
STATE_BITS: Final = {
    "clean": CLEAN_BIT,
    "hot": HOT_BIT,
    "cool": COOL_BIT,
    "toggled": TOGGLED_BIT,
    "sliced": SLICED_BIT,
}

#: ``move``: alfworld 0.4 and its games; ``put``: 0.3 ("put X in/on Y", "You arrive at loc 3.", no help command)
WORDINGS: Final = ("move", "put")

_NEEDED_ABILITY: Final = {"clean": "cleanable", "hot": "heatable", "cool": "coolable", "": ""}
_SCENES_KEPT: Final = 4096


class Scene:
    """What can be done in one local state: ``table`` maps each command to its op, ``commands`` are its sorted keys."""

    __slots__ = ("commands", "table")

    def __init__(self, table: dict[str, Op]) -> None:
        self.table = table
        self.commands = tuple(table)


class World:
    """Tables of one game. Read-only once built, except for caches whose entries never change."""

    def __init__(self, problem: Problem, wording: str = "move") -> None:
        if wording not in WORDINGS:
            raise ValueError(f"wording must be one of {WORDINGS}, got {wording!r}")
        self.problem = problem
        self.wording = wording
        self._index_places()
        self._index_items()
        self._index_goal()
        self._go: dict[int, dict[str, Op]] = {}
        self._scenes: dict[tuple[object, ...], Scene] = {}
        self._lists: dict[tuple[int, ...], str] = {}

    def _index_places(self) -> None:
        problem, names = self.problem, self.problem.names()
        places = problem.receptacles
        self.place_names = [names[p.id] for p in places]
        spots = {problem.start, *(p.location for p in places)}
        for item in problem.items:
            spots.update(item.locations)
        self.location_ids = sorted(spots)
        self.location_of_id = {spot: k for k, spot in enumerate(self.location_ids)}
        self.place_location = [self.location_of_id[p.location] for p in places]
        self.places_at: list[tuple[int, ...]] = [()] * len(spots)
        self.open_mask_at = [0] * len(spots)
        for k, spot in enumerate(self.place_location):
            self.places_at[spot] += (k,)
            self.open_mask_at[spot] |= 1 << k
        self.place_types = [p.type for p in places]
        self.openable = [p.openable for p in places]
        self.cleaner = [p.type in ("sink", "sinkbasin") for p in places]
        self.heater = [p.type == "microwave" for p in places]
        self.cooler = [p.type == "fridge" for p in places]
        self.start_location = self.location_of_id[problem.start]
        self.start_opened = sum(1 << k for k, p in enumerate(places) if p.opened)
        if self.wording == "put":
            numbered = number_names(self.location_ids, problem.name)
            self.arrivals = [f"You arrive at {numbered[p.location]}. " for p in places]
        else:
            self.arrivals = [f"You arrive at {name}. " for name in self.place_names]

    def _index_items(self) -> None:
        problem, names = self.problem, self.problem.names()
        items = problem.items
        self.item_names = [names[o.id] for o in items]
        self.item_types = [o.type for o in items]
        self.pickupable = ["pickupable" in o.abilities for o in items]
        self.cleanable = ["cleanable" in o.abilities for o in items]
        self.heatable = ["heatable" in o.abilities for o in items]
        self.coolable = ["coolable" in o.abilities for o in items]
        self.toggleable = ["toggleable" in o.abilities for o in items]
        self.sliceable = [k for k, o in enumerate(items) if "sliceable" in o.abilities]
        self.knife = [o.type in ("knife", "butterknife") for o in items]
        self.vessel = [o.vessel for o in items]
        index = {o.id: k for k, o in enumerate(items)}
        self.inside: list[tuple[int, ...]] = [()] * len(items)
        contents: dict[str, list[int]] = {p.id: [] for p in problem.receptacles}
        for k, item in enumerate(items):
            for place in item.receptacles:
                contents[place].append(k)
            for vessel in item.inside:
                if vessel in index:
                    self.inside[index[vessel]] += (k,)
        self.start_contents = [tuple(contents[p.id]) for p in problem.receptacles]
        self.start_flags = [sum(STATE_BITS[s] for s in o.states) for o in items]
        self.start_at = [tuple(sorted(self.location_of_id[spot] for spot in o.locations)) for o in items]
        accepted: dict[str, set[str]] = {}
        for place_type, item_type in problem.can_contain:
            accepted.setdefault(place_type, set()).add(item_type)
        self.accepts = [accepted.get(p.type, set()) for p in problem.receptacles]

    def _index_goal(self) -> None:
        goal = self.problem.goal
        needed = _NEEDED_ABILITY[goal.transform]
        self.goal_items = frozenset(
            k for k, o in enumerate(self.problem.items) if o.type == goal.item and (not needed or needed in o.abilities)
        )
        self.goal_bit = STATE_BITS.get(goal.transform, 0)
        self.goal_count = goal.count
        self.light_goal = goal.kind == "look_at_obj_in_light"
        self.goal_lamps = frozenset(
            k for k, o in enumerate(self.problem.items) if o.type == goal.target and "toggleable" in o.abilities
        )
        self.goal_places = [k for k, p in enumerate(self.problem.receptacles) if p.type == goal.target]

    def listing(self, items: tuple[int, ...]) -> str:
        """``a mug 2, and a pen 1``, or ``nothing``."""
        text = self._lists.get(items)
        if text is None:
            text = join_names([f"a {self.item_names[k]}" for k in items])
            self._lists[items] = text
        return text

    def scene(self, key: tuple[object, ...], location: int, holding: int, opened: int,
              contents: list[tuple[int, ...]], sliceable: tuple[int, ...]) -> Scene:  # fmt: skip
        """The scene of a local state; ``key`` must identify all other arguments."""
        scene = self._scenes.get(key)
        if scene is None:
            if len(self._scenes) >= _SCENES_KEPT:
                self._scenes.clear()
            scene = self._scenes[key] = Scene(self._build(location, holding, opened, contents, sliceable))
        return scene

    def _go_block(self, location: int) -> dict[str, Op]:
        block = self._go.get(location)
        if block is None:
            rows: dict[str, Op] = {
                f"go to {name}": (GO, k, -1)
                for k, name in enumerate(self.place_names)
                if self.place_location[k] != location
            }
            block = self._go[location] = {command: rows[command] for command in sorted(rows)}
        return block

    def _build(self, location: int, holding: int, opened: int, contents: list[tuple[int, ...]],
               sliceable: tuple[int, ...]) -> dict[str, Op]:  # fmt: skip
        rows: dict[str, Op] = {"inventory": (INVENTORY, -1, -1), "look": (LOOK, -1, -1)}
        if self.wording == "move":
            rows["help"] = (HELP, -1, -1)
        for place in self.places_at[location]:
            self._place_rows(rows, place, holding, opened, contents[place])
        if holding >= 0:
            held = self.item_names[holding]
            rows[f"examine {held}"] = (EXAMINE_ITEM, holding, -1)
            for target in sliceable:
                rows[f"slice {self.item_names[target]} with {held}"] = (SLICE, target, holding)
        # "go to" rows are many and the same for all states of a location: only the others are sorted here
        order = sorted(rows)
        table = {command: rows[command] for command in order if command < "go to"}
        table.update(self._go_block(location))
        for command in order[len([c for c in order if c < "go to"]) :]:
            table[command] = rows[command]
        return table

    def _place_rows(self, rows: dict[str, Op], place: int, holding: int, opened: int, inside: tuple[int, ...]) -> None:
        name = self.place_names[place]
        rows[f"examine {name}"] = (EXAMINE_PLACE, place, -1)
        is_open = bool(opened >> place & 1)
        if self.openable[place]:
            rows[f"close {name}" if is_open else f"open {name}"] = (CLOSE if is_open else OPEN, place, -1)
        reachable = is_open or not self.openable[place]
        for item in inside:
            if self.toggleable[item]:  # a lamp inside something closed can still be used
                rows[f"use {self.item_names[item]}"] = (USE, item, place)
            if holding < 0 and reachable and self.pickupable[item]:
                rows[f"take {self.item_names[item]} from {name}"] = (TAKE, item, place)
        if holding < 0:
            return
        held = self.item_names[holding]
        if reachable and self.item_types[holding] in self.accepts[place]:
            rows[self.move_command(holding, place)] = (MOVE, holding, place)
        if self.cleaner[place] and self.cleanable[holding]:
            rows[f"clean {held} with {name}"] = (CLEAN, holding, place)
        if self.heater[place] and self.heatable[holding]:
            rows[f"heat {held} with {name}"] = (HEAT, holding, place)
        if self.cooler[place] and self.coolable[holding]:
            rows[f"cool {held} with {name}"] = (COOL, holding, place)

    def move_command(self, item: int, place: int) -> str:
        """The command that puts an object somewhere, in this world's wording."""
        if self.wording == "put":
            return f"put {self.item_names[item]} in/on {self.place_names[place]}"
        return f"move {self.item_names[item]} to {self.place_names[place]}"


def join_names(names: list[str]) -> str:
    """A list as TextWorld's grammar writes it: ", and " before the last even of two; ``nothing`` if empty."""
    if len(names) < 2:
        return names[0] if names else "nothing"
    return ", ".join(names[:-1]) + ", and " + names[-1]
