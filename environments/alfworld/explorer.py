"""An expert that knows no more than a player does: what the game has said so far in this episode.

It remembers which receptacles it has looked into and what it saw, searches the rest in the order of likelihood per
step (:mod:`.priors`), then does the task. Its demonstrations can be imitated from observations alone, unlike those of
the planner, which walks straight to objects nobody has seen. It copes with whatever was done between two of its
suggestions, because it re-thinks from what it has observed at every step.

From the game it reads only: names, receptacle types (both in the introduction), the task, the object in its hand, the
list of admissible commands, and the contents of a receptacle at the moment the text shows them.
"""

from __future__ import annotations

from typing import Any, Final

from agentgym.environments.alfworld import world as w
from agentgym.environments.alfworld.engine import Game
from agentgym.environments.alfworld.priors import CLOSED_TYPES, chance
from agentgym.environments.alfworld.world import Op
from agentgym.seeding import derive_seed

_VERBS: Final = {w.CLEAN_BIT: "clean", w.HOT_BIT: "heat", w.COOL_BIT: "cool"}
_EFFECTS: Final = {w.CLEAN: (w.CLEAN_BIT, 0), w.HEAT: (w.HOT_BIT, w.COOL_BIT), w.COOL: (w.COOL_BIT, w.HOT_BIT)}


class Explorer:
    """Follows one game from its start. Call :meth:`observe` after every executed op, :meth:`advise` for the next."""

    def __init__(self, game: Game, seed: int) -> None:
        self._game = game
        self._world = world = game.world
        count = len(world.place_names)
        self._inside: list[frozenset[int] | None] = [None] * count  # None: not looked into yet
        self._shut: list[bool | None] = [None] * count  # None: not visited yet
        self._bits: dict[int, int] = {}  # what was done to objects
        self._lit: frozenset[int] = frozenset()
        self._refused: frozenset[tuple[int, int]] = frozenset()  # object, receptacle that does not take it
        self._unusable: frozenset[int] = frozenset()
        numbers = [int(name.rpartition(" ")[2]) for name in world.place_names]
        ties = {kind: derive_seed("alfworld explorer", seed, kind) for kind in set(world.place_types)}
        # among equals: one type after the other in an order that the seed draws, each in the order of its numbers
        self._order = [(ties[kind], number) for kind, number in zip(world.place_types, numbers, strict=True)]
        for place in world.places_at[game.location]:
            self._look_into(place)

    # -- memory

    def observe(self, op: Op) -> None:
        """Remember what the last executed op has shown or changed."""
        code, first, second = op
        if code in (w.GO, w.EXAMINE_PLACE, w.OPEN):
            self._look_into(first)
        elif code == w.CLOSE:
            self._shut[first] = True
        elif code in (w.TAKE, w.MOVE):
            known = self._inside[second] or frozenset()
            self._inside[second] = known - {first} if code == w.TAKE else known | {first}
        elif code in _EFFECTS:
            add, drop = _EFFECTS[code]
            self._bits[first] = (self._bits.get(first, 0) | add) & ~drop
        elif code == w.USE:
            self._lit |= {first}

    def _look_into(self, place: int) -> None:
        self._shut[place] = not self._game.reachable(place)
        if not self._shut[place]:
            self._inside[place] = frozenset(self._game.contents[place])

    def snapshot(self) -> tuple[Any, ...]:
        """What :meth:`restore` needs, beside the game's own snapshot."""
        return (tuple(self._inside), tuple(self._shut), tuple(self._bits.items()), self._lit, self._refused,
                self._unusable)  # fmt: skip

    def restore(self, state: tuple[Any, ...]) -> None:
        """Go back to a snapshot of the same game."""
        inside, shut, bits, self._lit, self._refused, self._unusable = state
        self._inside, self._shut, self._bits = list(inside), list(shut), dict(bits)

    # -- advice

    def advise(self) -> str | None:
        """The next command, always admissible; None when the game is won or nothing is left to try."""
        if self._game.won:
            return None
        for _ in range(2 * len(self._order) + 4):  # a thought that proves wrong corrects the memory: think again
            command = self._think()
            if command is None or command in self._game.table:
                return command
        return None

    def _think(self) -> str | None:
        held = self._game.holding
        if held < 0:
            return self._obtain()
        if self._world.item_types[held] != self._goal.item or held in self._unusable:
            return self._drop(held)
        if self._world.light_goal:
            return self._to_lamp()
        bit = self._world.goal_bit
        if bit and not self._bits.get(held, 0) & bit:
            return self._change(held, bit)
        return self._place(held)

    @property
    def _goal(self) -> Any:
        return self._world.problem.goal

    def _here(self, place: int) -> bool:
        """No command goes there, so it stands here (several receptacles may share a spot)."""
        return f"go to {self._world.place_names[place]}" not in self._game.table

    def _approach(self, place: int, command: str) -> str | None:
        """``command`` if it can be given now, else the step toward it; None if it is impossible right here."""
        table, name = self._game.table, self._world.place_names[place]
        if command in table:
            return command
        if not self._here(place):
            return f"go to {name}"
        return f"open {name}" if f"open {name}" in table else None

    def _nearest(self, places: list[int]) -> int:
        return min(places, key=lambda p: (not self._here(p), bool(self._shut[p]), self._order[p][1], p))

    def _anchor(self) -> int:
        """For two objects: the target that holds one already, as far as known; else -1."""
        best, most = -1, 0
        if self._world.goal_count == 2:
            for place in sorted(self._world.goal_places, key=lambda p: self._order[p]):
                count = sum(self._world.item_types[i] == self._goal.item for i in self._inside[place] or ())
                if count > most:
                    best, most = place, count
        return best

    def _known(self, item_type: str, but: int = -1) -> list[tuple[int, int]]:
        """Where objects of a type have been seen."""
        types = self._world.item_types
        return [
            (place, item)
            for place, inside in enumerate(self._inside)
            if place != but
            for item in sorted(inside or ())
            if types[item] == item_type and item not in self._unusable
        ]

    def _obtain(self) -> str | None:
        known = self._known(self._goal.item, self._anchor())
        if not known:
            return self._search(self._goal.item)
        place = self._nearest([p for p, _ in known])
        item = next(i for p, i in known if p == place)
        command = self._approach(place, f"take {self._world.item_names[item]} from {self._world.place_names[place]}")
        if command is None:  # it is there but cannot be taken
            self._unusable |= {item}
        return command or ""

    def _to_lamp(self) -> str | None:
        known = self._known(self._goal.target)
        if not known:
            return self._search(self._goal.target)
        place = self._nearest([p for p, _ in known])
        lamp = next(i for p, i in known if p == place)
        if lamp in self._lit:
            return f"go to {self._world.place_names[place]}"
        command = self._approach(place, f"use {self._world.item_names[lamp]}")
        if command is None:
            self._unusable |= {lamp}
        return command or ""

    def _change(self, held: int, bit: int) -> str | None:
        able = {w.CLEAN_BIT: self._world.cleaner, w.HOT_BIT: self._world.heater, w.COOL_BIT: self._world.cooler}[bit]
        stations = [p for p, can in enumerate(able) if can]
        if not stations:
            return None
        place = self._nearest(stations)
        names = self._world
        command = f"{_VERBS[bit]} {names.item_names[held]} with {names.place_names[place]}"
        if command in self._game.table or not self._here(place):
            return command if self._here(place) else f"go to {names.place_names[place]}"
        self._unusable |= {held}
        return ""

    def _place(self, held: int) -> str | None:
        anchor = self._anchor()
        places = [anchor] if anchor >= 0 else self._world.goal_places
        return self._put(held, [p for p in places if (held, p) not in self._refused]) if places else None

    def _put(self, held: int, places: list[int]) -> str | None:
        if not places:
            self._unusable |= {held}
            return ""
        place = self._nearest(places)
        command = self._approach(place, self._world.move_command(held, place))
        if command is None:
            self._refused |= {(held, place)}
        return command or ""

    def _drop(self, held: int) -> str | None:
        """Get rid of an object: right here if anything takes it, else where such things usually lie."""
        kinds, kind = self._world.place_types, self._world.item_types[held]
        places = [p for p in range(len(kinds)) if (held, p) not in self._refused]
        for place in places:
            command = self._world.move_command(held, place)
            if command in self._game.table:
                return command
        if not places:
            return None
        best = max(chance(kind, kinds[p]) for p in places)
        return self._put(held, [p for p in places if chance(kind, kinds[p]) == best])

    def _search(self, item_type: str) -> str | None:
        """Toward the unseen receptacle with the best chance per step; from the start if all have been seen."""
        unseen = [p for p, inside in enumerate(self._inside) if inside is None]
        if not unseen:
            self._inside = [None] * len(self._inside)
            unseen = list(range(len(self._inside)))
        place = min(unseen, key=lambda p: (-self._worth(item_type, p), self._order[p], p))
        name = self._world.place_names[place]
        if not self._here(place):
            return f"go to {name}"
        return f"open {name}" if f"open {name}" in self._game.table else f"examine {name}"

    def _worth(self, item_type: str, place: int) -> float:
        kind, shut = self._world.place_types[place], self._shut[place]
        steps = (not self._here(place)) + (kind in CLOSED_TYPES if shut is None else shut)
        worth = chance(item_type, kind) / max(steps, 1)
        goal = self._goal
        if goal.kind == "pick_and_place_simple" and kind == goal.target:
            worth *= 0.02  # had it lain there, the game would have been won from the start
        return worth
