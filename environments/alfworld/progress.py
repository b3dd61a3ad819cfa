"""Milestones of an episode: how far the goal's own facts have come, never going back.

An oracle signal, derived from the world's facts. Per task type, in order:

* pick_and_place_simple: found, taken, placed
* pick_clean / heat / cool: found, taken, cleaned | heated | cooled, placed
* pick_two_obj_and_place: found_1, taken_1, placed_1, found_2, taken_2, placed_2 (without the first three where one
  object lies in its place from the start)
* look_at_obj_in_light: found, taken, lamp_on, lit

*found*: a goal object was within sight, *taken*: in the hand, *cleaned*: in the hand and clean (an object that is cool
when the game starts counts once it is taken). ``placed`` (the last one) and ``lit`` are the goal itself.
"""

from __future__ import annotations

from typing import Final

from agentgym.environments.alfworld.engine import Game
from agentgym.environments.alfworld.world import TOGGLED_BIT

_CHANGED: Final = {"clean": "cleaned", "hot": "heated", "cool": "cooled"}

#: names reached, goal objects seen, goal objects taken
State = tuple[frozenset[str], frozenset[int], frozenset[int]]


class Progress:
    """Follows one game. ``reached`` is ordered as ``names``. Call :meth:`update` after every executed command."""

    def __init__(self, game: Game) -> None:
        self._game = game
        world = game.world
        counts = [len(world.goal_items.intersection(game.contents[p])) for p in world.goal_places]
        self._settled: frozenset[int] = frozenset()
        if world.light_goal:
            self.names: tuple[str, ...] = ("found", "taken", "lamp_on", "lit")
        elif world.goal_count == 2:
            if max(counts, default=0) >= 1:  # one is in its place already: only the other counts
                anchor = world.goal_places[counts.index(max(counts))]
                self._settled = world.goal_items.intersection(game.contents[anchor])
                self.names = ("found_2", "taken_2", "placed_2")
            else:
                self.names = ("found_1", "taken_1", "placed_1", "found_2", "taken_2", "placed_2")
        else:
            changed = _CHANGED.get(world.problem.goal.transform)
            self.names = ("found", "taken", changed, "placed") if changed else ("found", "taken", "placed")
        self._set: frozenset[str] = frozenset()
        self._seen: frozenset[int] = frozenset()
        self._taken: frozenset[int] = frozenset()
        self.reached: tuple[str, ...] = ()
        self.update()

    def update(self) -> None:
        """Add what the present state of the game has reached."""
        if len(self.reached) == len(self.names):
            return
        game, world = self._game, self._game.world
        for place in world.places_at[game.location]:
            if game.reachable(place):
                self._seen |= world.goal_items.intersection(game.contents[place]) - self._settled
        if game.holding in world.goal_items and game.holding not in self._settled:
            self._seen |= {game.holding}
            self._taken |= {game.holding}
        now = set(self._set)
        if game.won:
            now.update(self.names)
        elif world.goal_count == 2:
            self._two(now)
        else:
            self._one(now)
        if now != self._set:
            self._set = frozenset(now)
            self.reached = tuple(name for name in self.names if name in now)

    def _one(self, now: set[str]) -> None:
        game, world = self._game, self._game.world
        if self._seen:
            now.add("found")
        if self._taken:
            now.add("taken")
        held = game.holding
        if world.goal_bit and held in world.goal_items and game.flags[held] & world.goal_bit:
            now.add(_CHANGED[world.problem.goal.transform])
        if world.light_goal and any(game.flags[lamp] & TOGGLED_BIT for lamp in world.goal_lamps):
            now.add("lamp_on")

    def _two(self, now: set[str]) -> None:
        game, world = self._game, self._game.world
        most = max((len(world.goal_items.intersection(game.contents[p])) for p in world.goal_places), default=0)
        before = 1 if self._settled else 0
        for stem, count in (("found", len(self._seen)), ("taken", len(self._taken)), ("placed", most - before)):
            now.update(f"{stem}_{k}" for k in range(before + 1, before + count + 1) if k <= 2)

    def snapshot(self) -> State:
        """What :meth:`restore` needs, beside the game's own snapshot."""
        return self._set, self._seen, self._taken

    def restore(self, state: State) -> None:
        """Go back to a snapshot of the same game."""
        self._set, self._seen, self._taken = state
        self.reached = tuple(name for name in self.names if name in self._set)
