"""One running game, exact against TextWorld 1.7.0 with alfworld 0.4.2: texts, sorted commands and the won flag.

Where the real game is odd, so is this one, because agents and published scores depend on it: an object may be in two
receptacles at once, using a lamp always says "You turn on", ``look`` shows what was once taken from a neighbour, and
objects can only be examined in the hand.
"""

from __future__ import annotations

import re
from typing import Any, Final

from agentgym.environments.alfworld import world as w
from agentgym.environments.alfworld.world import Op, Scene, World, join_names

NOTHING: Final = "Nothing happens."
_WELCOME: Final = "-= Welcome to TextWorld, ALFRED! =-"
_PUT = re.compile(r"(?:put (.{1,80}?) (?:in/on|into|onto|in|on) |move (.{1,80}?) to )(.{1,80})")
_HELP_ROWS: Final = (
    ("look:", "look around your current location"),
    ("inventory:", "check your current inventory"),
    ("go to (receptacle):", "move to a receptacle"),
    ("open (receptacle):", "open a receptacle"),
    ("close (receptacle):", "close a receptacle"),
    ("take (object) from (receptacle):", "take an object from a receptacle"),
    ("move (object) to (receptacle):", "place an object in or on a receptacle"),
    ("examine (something):", "examine a receptacle or an object"),
    ("use (object):", "use an object"),
    ("heat (object) with (receptacle):", "heat an object using a receptacle"),
    ("clean (object) with (receptacle):", "clean an object using a receptacle"),
    ("cool (object) with (receptacle):", "cool an object using a receptacle"),
    ("slice (object) with (object):", "slice an object using a sharp object"),
)


def _help_text() -> str:
    rows = []
    for usage, meaning in _HELP_ROWS:
        width = 32 if usage.startswith("move") else 34  # the real text has this one slip
        rows.append(f"  {usage:<{width}}{meaning}\n")
    return "Available commands:\n" + "".join(rows)


HELP_TEXT: Final = _help_text()


class Game:
    """A game in progress. ``won`` is the goal's truth right now.

    ``last`` is the op of the last command, None if it was refused.
    State: ``location``, ``holding`` (object or -1), ``opened`` (bit per receptacle), ``contents`` (objects per
    receptacle, ascending), ``flags`` (bits per object), ``at`` (locations per object) and ``removed`` (pairs of object
    and receptacle whose ``inReceptacle`` fact has been made false, which ``look`` reads).
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._actions = (
            self._look, self._inventory, self._help, self._examine_place, self._examine_item, self._go, self._open,
            self._close, self._take, self._move, self._clean, self._heat, self._cool, self._use, self._slice,
        )  # fmt: skip
        self.reset()

    def reset(self) -> str:
        """Back to the start; returns the introduction."""
        world = self.world
        self.location = world.start_location
        self.holding = -1
        self.opened = world.start_opened
        self.contents = list(world.start_contents)
        self.flags = list(world.start_flags)
        self.at = list(world.start_at)
        self.removed: frozenset[tuple[int, int]] = frozenset()
        self.last: Op | None = None
        self._refresh()
        self.won = self._goal_holds()
        return self._introduction()

    @property
    def admissible(self) -> tuple[str, ...]:
        """All commands that do something now, sorted."""
        return self._scene.commands

    @property
    def table(self) -> dict[str, Op]:
        """Admissible command to op."""
        return self._scene.table

    def step(self, command: str) -> str:
        """Execute one command; returns the feedback. Never raises for any string."""
        op = self._scene.table.get(command)
        if op is None:
            op = self._scene.table.get(self._normal(command))
            if op is None:
                self.last = None
                return NOTHING
        self.last = op
        return self._actions[op[0]](op[1], op[2])

    def _normal(self, command: str) -> str:
        """What TextWorld forgives (blanks around the command, nothing else), plus the other wording's put or move."""
        command = command.strip()
        if len(command) > 200:
            return ""
        match = _PUT.fullmatch(command)
        if match is None:
            return command
        item, place = match[1] or match[2], match[3]
        return f"put {item} in/on {place}" if self.world.wording == "put" else f"move {item} to {place}"

    def snapshot(self) -> tuple[Any, ...]:
        """The whole state as an immutable, picklable value."""
        return (
            self.location, self.holding, self.opened, tuple(self.contents), tuple(self.flags), tuple(self.at),
            self.removed, self.won, self.last,
        )  # fmt: skip

    def restore(self, state: tuple[Any, ...]) -> None:
        """Go back to a snapshot of the same world."""
        self.location, self.holding, self.opened, contents, flags, at, self.removed, self.won, self.last = state
        self.contents, self.flags, self.at = list(contents), list(flags), list(at)
        self._refresh()

    # -- state helpers

    def reachable(self, place: int) -> bool:
        """The receptacle shows its contents: it does not open, or it is open."""
        return not self.world.openable[place] or bool(self.opened >> place & 1)

    def _refresh(self) -> None:
        world, location, holding = self.world, self.location, self.holding
        sliceable: tuple[int, ...] = ()
        if holding >= 0 and world.knife[holding]:
            sliceable = tuple(k for k in world.sliceable if location in self.at[k])
        local = self.opened & world.open_mask_at[location]
        inside = [self.contents[p] for p in world.places_at[location]]
        key = (location, holding, local, sliceable, *inside)
        self._scene: Scene = world.scene(key, location, holding, self.opened, self.contents, sliceable)

    def _goal_holds(self) -> bool:
        world, contents = self.world, self.contents
        if world.light_goal:
            if self.holding not in world.goal_items:
                return False
            return any(
                item in world.goal_lamps and self.flags[item] & w.TOGGLED_BIT
                for place in world.places_at[self.location]
                for item in contents[place]
            )
        for place in world.goal_places:
            good = world.goal_items.intersection(contents[place])
            bit = world.goal_bit
            if (sum(bool(self.flags[k] & bit) for k in good) if bit else len(good)) >= world.goal_count:
                return True
        return False

    # -- texts

    def _introduction(self) -> str:
        world = self.world
        if world.places_at[self.location]:
            scenery = self._surroundings()
        else:
            seen = join_names([f"a {name}" for name in world.place_names])
            scenery = f"You are in the middle of a room. Looking quickly around you, you see {seen}."
        return f"{_WELCOME}\n\n{scenery}\n\nYour task is to: {world.problem.task}"

    def _surroundings(self) -> str:
        world, here = self.world, self.location
        places = world.places_at[here]
        if not places:  # the grammar lists receptacles at this very location only, so there are none
            return "You are in the middle of a room. Looking quickly around you, you see nothing."
        names = join_names([world.place_names[p] for p in places])
        floor = "nothing"
        if self.removed:
            rows = sorted((item, p) for item, p in self.removed if p in places and here in self.at[item])
            floor = join_names([f"a {world.item_names[item]}" for item, _ in rows])
        return f"You are facing the {names}. Next to it, you see {floor}."

    def _describe(self, place: int) -> str:
        world = self.world
        name = world.place_names[place]
        if not world.openable[place]:
            return f"On the {name}, you see {world.listing(self.contents[place])}."
        if self.opened >> place & 1:
            return f"The {name} is open. In it, you see {world.listing(self.contents[place])}."
        return f"The {name} is closed."

    # -- the actions; their order is that of the op codes

    def _look(self, _: int, __: int) -> str:
        return self._surroundings()

    def _inventory(self, _: int, __: int) -> str:
        if self.holding < 0:
            return "You are not carrying anything."
        return f"You are carrying: a {self.world.item_names[self.holding]}."

    def _help(self, _: int, __: int) -> str:
        return HELP_TEXT

    def _examine_place(self, place: int, _: int) -> str:
        return self._describe(place)

    def _examine_item(self, item: int, _: int) -> str:
        name, flags = self.world.item_names[item], self.flags[item]
        if self.world.vessel[item]:
            return f"This is a normal {name}. In it, you see {self.world.listing(self.world.inside[item])}."
        clean, hot, cool = flags & w.CLEAN_BIT, flags & w.HOT_BIT, flags & w.COOL_BIT
        sliced = "sliced " if flags & w.SLICED_BIT else ""
        heat = "hot" if hot else "cool" if cool else ""
        if clean and heat:
            return f"This is a {heat} and clean {sliced}{name}."
        if cool and not hot and not sliced:
            heat = "cold"  # the grammar's word for cool alone
        if clean or heat:
            return f"This is a {heat or 'clean'} {sliced}{name}."
        if self.world.toggleable[item] and flags & w.TOGGLED_BIT:
            return f"This {name} is on."
        if sliced:
            return f"This is a sliced {name}."
        return f"There's nothing special about {name}."

    def _go(self, place: int, _: int) -> str:
        self.location = self.world.place_location[place]
        self._refresh()
        if self.world.light_goal:
            self.won = self._goal_holds()
        return self.world.arrivals[place] + self._describe(place)

    def _open(self, place: int, _: int) -> str:
        self.opened |= 1 << place
        self._refresh()
        return f"You open the {self.world.place_names[place]}. {self._describe(place)}"

    def _close(self, place: int, _: int) -> str:
        self.opened &= ~(1 << place)
        self._refresh()
        return f"You close the {self.world.place_names[place]}."

    def _take(self, item: int, place: int) -> str:
        self.contents[place] = tuple(k for k in self.contents[place] if k != item)
        self.removed |= {(item, place)}
        self.holding = item
        self.at[item] = tuple(spot for spot in self.at[item] if spot != self.location)
        self._refresh()
        self.won = self._goal_holds()
        return f"You pick up the {self.world.item_names[item]} from the {self.world.place_names[place]}."

    def _move(self, item: int, place: int) -> str:
        self.contents[place] = tuple(sorted({*self.contents[place], item}))
        self.removed -= {(item, place)}
        self.holding = -1
        self.at[item] = tuple(sorted({*self.at[item], self.location}))
        self._refresh()
        self.won = self._goal_holds()
        if self.world.wording == "put":
            return f"You put the {self.world.item_names[item]} in/on the {self.world.place_names[place]}."
        return f"You move the {self.world.item_names[item]} to the {self.world.place_names[place]}."

    def _change(self, item: int, place: int, add: int, drop: int, verb: str) -> str:
        self.flags[item] = (self.flags[item] | add) & ~drop
        self.won = self._goal_holds()  # the object may lie in a second receptacle at the same time
        return f"You {verb} the {self.world.item_names[item]} using the {self.world.place_names[place]}."

    def _clean(self, item: int, place: int) -> str:
        return self._change(item, place, w.CLEAN_BIT, 0, "clean")

    def _heat(self, item: int, place: int) -> str:
        return self._change(item, place, w.HOT_BIT, w.COOL_BIT, "heat")

    def _cool(self, item: int, place: int) -> str:
        return self._change(item, place, w.COOL_BIT, w.HOT_BIT, "cool")

    def _use(self, item: int, _: int) -> str:
        self.flags[item] |= w.TOGGLED_BIT
        self.won = self._goal_holds()
        return f"You turn on the {self.world.item_names[item]}."

    def _slice(self, target: int, knife: int) -> str:
        self.flags[target] |= w.SLICED_BIT
        return f"You sliced the {self.world.item_names[target]} with the {self.world.item_names[knife]}."
