"""A privileged planner: a shortest plan to the goal from any state, by enumeration instead of blind search.

Going anywhere costs one step whatever the distance, so a plan is a chain of visits (fetch, change, deliver), and the
choices are few: which object from which receptacle, which sink or microwave or fridge, which target. All are tried;
the shortest chain wins, the first found among equals.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from agentgym.environments.alfworld import world as w
from agentgym.environments.alfworld.engine import Game
from agentgym.environments.alfworld.world import Op

_STATION: Final = {w.CLEAN_BIT: "cleaner", w.HOT_BIT: "heater", w.COOL_BIT: "cooler"}
_CHANGE: Final = {w.CLEAN_BIT: w.CLEAN, w.HOT_BIT: w.HEAT, w.COOL_BIT: w.COOL}


class _Route(NamedTuple):
    """Where a partial plan has led: the agent's location, the open receptacles, the ops so far."""

    location: int
    opened: int
    ops: tuple[Op, ...]


class Planner:
    """Plans for one game; reads all of its facts."""

    def __init__(self, game: Game) -> None:
        self._game = game
        self._world = game.world
        self._best: tuple[Op, ...] | None = None

    def plan(self) -> list[str] | None:
        """Commands that reach the goal from the present state ([] if it holds), or None if nothing does."""
        game = self._game
        if game.won:
            return []
        self._best = None
        start = _Route(game.location, game.opened, ())
        if self._world.light_goal:
            self._plan_light(start)
        elif self._world.goal_count == 2:
            self._plan_two(start)
        else:
            self._plan_one(start)
        return None if self._best is None else [self._command(op) for op in self._best]

    def _command(self, op: Op) -> str:
        code, first, second = op
        world = self._world
        if code == w.GO:
            return f"go to {world.place_names[first]}"
        if code == w.OPEN:
            return f"open {world.place_names[first]}"
        if code == w.USE:
            return f"use {world.item_names[first]}"
        if code == w.TAKE:
            return f"take {world.item_names[first]} from {world.place_names[second]}"
        if code == w.MOVE:
            return world.move_command(first, second)
        verb = {w.CLEAN: "clean", w.HEAT: "heat", w.COOL: "cool"}[code]
        return f"{verb} {world.item_names[first]} with {world.place_names[second]}"

    def _offer(self, route: _Route) -> None:
        if self._better(route):
            self._best = route.ops

    def _better(self, route: _Route, more: int = 0) -> bool:
        """The route is shorter than the best plan even with ``more`` ops to come."""
        return self._best is None or len(route.ops) + more < len(self._best)

    # -- pieces of a plan

    def _visit(self, route: _Route, place: int) -> _Route:
        location = self._world.place_location[place]
        if location == route.location:
            return route
        return _Route(location, route.opened, (*route.ops, (w.GO, place, -1)))

    def _act(self, route: _Route, code: int, item: int, place: int) -> _Route:
        """Visit, open if needed (not for changing an object or a lamp), then act."""
        route = self._visit(route, place)
        opened, ops = route.opened, route.ops
        if code in (w.TAKE, w.MOVE) and self._world.openable[place] and not opened >> place & 1:
            opened |= 1 << place
            ops = (*ops, (w.OPEN, place, -1))
        return _Route(route.location, opened, (*ops, (code, item, place)))

    def _freed(self, route: _Route, holding: int, toward: int) -> Iterator[_Route]:
        """Ways to empty the hand: here, where the agent goes next anyway, or in the first other place that accepts."""
        if holding < 0:
            yield route
            return
        world = self._world
        accepting = [p for p, types in enumerate(world.accepts) if world.item_types[holding] in types]
        spots = (route.location, world.place_location[toward])
        near = [p for p in accepting if world.place_location[p] in spots]
        others = [p for p in accepting if not world.openable[p] or route.opened >> p & 1]
        for place in near or others[:1] or accepting[:1]:
            yield self._act(route, w.MOVE, holding, place)

    def _fetched(self, route: _Route, holding: int, item: int) -> Iterator[_Route]:
        """Ways to have ``item`` in the hand."""
        if item == holding:
            yield route
            return
        if not self._world.pickupable[item]:
            return
        for place, inside in enumerate(self._game.contents):
            if item in inside:
                for free in self._freed(route, holding, place):
                    yield self._act(free, w.TAKE, item, place)

    # -- the three shapes of a task

    def _plan_one(self, start: _Route) -> None:
        game, world = self._game, self._world
        bit = world.goal_bit
        stations = [p for p, able in enumerate(getattr(world, _STATION[bit])) if able] if bit else []
        for item in sorted(world.goal_items):
            targets = [p for p in world.goal_places if world.item_types[item] in world.accepts[p]]
            ready = not bit or bool(game.flags[item] & bit)
            elsewhere = {p for p in world.goal_places if item in game.contents[p]}
            for route in self._fetched(start, game.holding, item):
                taken = {op[2] for op in route.ops if op[0] == w.TAKE}
                for changed in [route] if ready else [self._act(route, _CHANGE[bit], item, p) for p in stations]:
                    if elsewhere - taken and not ready:
                        self._offer(changed)  # it still lies in a second receptacle, which is a target
                    if self._better(changed, 1):
                        for place in targets:
                            self._offer(self._act(changed, w.MOVE, item, place))

    def _plan_two(self, start: _Route) -> None:
        game, world = self._game, self._world
        for place in world.goal_places:
            present = world.goal_items.intersection(game.contents[place])
            outside = [i for i in sorted(world.goal_items - present) if world.item_types[i] in world.accepts[place]]
            for first in outside:
                for route in self._fetched(start, game.holding, first):
                    if not self._better(route, 1):
                        continue
                    placed = self._act(route, w.MOVE, first, place)
                    if present:
                        self._offer(placed)
                        continue
                    for second in outside:
                        if second != first and self._better(placed, 2):
                            # the hand is empty now; had it held ``second`` before, that lies where it was dropped
                            self._second(placed, first, second, place)

    def _second(self, route: _Route, first: int, second: int, place: int) -> None:
        if second == self._game.holding:
            dropped = [op[2] for op in route.ops if op[:2] == (w.MOVE, second)]
            sources = dropped[:1]
        else:
            sources = [p for p, inside in enumerate(self._game.contents) if second in inside]
        if self._world.pickupable[second]:
            for source in sources:
                self._offer(self._act(self._act(route, w.TAKE, second, source), w.MOVE, second, place))

    def _plan_light(self, start: _Route) -> None:
        game, world = self._game, self._world
        lamps = [(i, p) for p, inside in enumerate(game.contents) for i in inside if i in world.goal_lamps]
        for item in sorted(world.goal_items):
            for route in self._fetched(start, game.holding, item):
                for lamp, place in lamps:
                    if game.flags[lamp] & w.TOGGLED_BIT:
                        self._offer(self._visit(route, place))
                    else:
                        self._offer(self._act(route, w.USE, lamp, place))
