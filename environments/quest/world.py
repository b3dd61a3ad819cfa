"""One game of Quest: its rooms, and what can be seen and done in each of its states.

A game is a chain of ``2 * chests + 2`` deeds in fixed order: take key 1, open chest 1 (key 2 falls out), ..., take the
gem out of the last chest, place it at the altar. Only one thing of the chain can be carried or lies about at any time,
so the whole state is ``(stage, room)``: how many deeds are done, and where the player is.
"""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Final

from agentgym.errors import DataError
from agentgym.seeding import python_rng
from agentgym.types import content_hash

ROOMS: Final = (
    *("attic", "cave", "cellar", "chapel", "garden", "hall"),
    *("kitchen", "library", "pantry", "stable", "study", "tower"),
)
COLOURS: Final = ("black", "blue", "green", "purple", "red", "silver", "white", "yellow")
#: direction -> (rows down, columns right)
DIRECTIONS: Final = {"north": (-1, 0), "south": (1, 0), "east": (0, 1), "west": (0, -1)}
REFUSAL: Final = "you cannot do that ; "
SPLITS: Final = ("train", "valid", "test")
#: of 10 possible games, chosen by a hash of what is in them, one is for valid, one for test, the rest for train
_BUCKETS: Final = 10
_DRAWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Layout:
    """What a game consists of. Rooms are numbered; ``exits[room]`` maps directions to rooms.

    ``spots``: the room of every deed in order; key ``i + 1`` is where chest ``i`` stood.
    """

    rooms: tuple[str, ...]
    exits: tuple[dict[str, int], ...]
    start: int
    colours: tuple[str, ...]
    spots: tuple[int, ...]

    @property
    def split(self) -> str:
        """The one split that may hold this game."""
        bucket = int(content_hash(asdict(self)), 16) % _BUCKETS
        return {0: "valid", 1: "test"}.get(bucket, "train")


@dataclass(frozen=True, slots=True)
class Scene:
    """One state: the observation, the possible actions in fixed order, and where each leads: ``(stage, room)``."""

    text: str
    actions: tuple[str, ...]
    table: dict[str, tuple[int, int]]


def draw_layout(rng: random.Random, rooms: int, chests: int) -> Layout:
    """A random layout: a random tree of ``rooms`` cells of the smallest near-square grid; all places uniform."""
    exits = _random_tree(rng, rooms)
    spots = [rng.randrange(rooms)]
    for _ in range(chests):
        spots += [rng.randrange(rooms)] * 2  # the chest, and what falls out of it
    spots.append(rng.randrange(rooms))
    return Layout(
        rooms=tuple(rng.sample(ROOMS, rooms)),
        exits=exits,
        start=rng.randrange(rooms),
        colours=tuple(rng.sample(COLOURS, chests)),
        spots=tuple(spots),
    )


def _random_tree(rng: random.Random, rooms: int) -> tuple[dict[str, int], ...]:
    """Exits of ``rooms`` cells that grow from one cell, each joined to one earlier neighbour."""
    width = math.ceil(math.sqrt(rooms))
    height = math.ceil(rooms / width)
    number = {(rng.randrange(height), rng.randrange(width)): 0}
    exits: list[dict[str, int]] = [{} for _ in range(rooms)]
    while len(number) < rooms:
        joints = [
            (cell, name, (cell[0] + down, cell[1] + right))
            for cell in number
            for name, (down, right) in DIRECTIONS.items()
            if 0 <= cell[0] + down < height and 0 <= cell[1] + right < width
        ]
        cell, name, new = rng.choice([joint for joint in joints if joint[2] not in number])
        back = next(other for other, (d, r) in DIRECTIONS.items() if (new[0] + d, new[1] + r) == cell)
        number[new] = len(number)
        exits[number[cell]][name] = number[new]
        exits[number[new]][back] = number[cell]
    return tuple({name: one[name] for name in DIRECTIONS if name in one} for one in exits)


class World:
    """The tables of one game, made when first needed and shared by all its episodes. Scenes never change."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        keys = [f"{colour} key" for colour in layout.colours]
        self.items = (*keys, "gem")
        deeds = [
            deed for c, key in zip(layout.colours, keys, strict=True) for deed in (f"take {key}", f"open {c} chest")
        ]
        #: the deeds in order, which are the milestones too
        self.deeds = (*deeds, "take gem", "place gem")
        self.reached = tuple(self.deeds[:stage] for stage in range(len(self.deeds) + 1))
        self._scenes: dict[tuple[int, int], Scene] = {}
        self._hops: dict[int, list[str]] = {}

    def scene(self, stage: int, room: int) -> Scene:
        """What is seen and possible in a state."""
        scene = self._scenes.get((stage, room))
        if scene is None:
            scene = self._scenes[stage, room] = self._build(stage, room)
        return scene

    def _build(self, stage: int, room: int) -> Scene:
        layout, exits = self.layout, self.layout.exits[room]
        things = [self.items[stage // 2]] if stage % 2 == 0 and room in layout.spots[stage : stage + 1] else []
        closed = range(stage // 2, len(layout.colours))  # chest i is opened by deed 2 i + 1
        things += sorted(f"{layout.colours[i]} chest" for i in closed if layout.spots[2 * i + 1] == room)
        things += ["altar"] if layout.spots[-1] == room else []
        held = self.items[stage // 2] if stage % 2 else "nothing"
        text = f"{layout.rooms[room]} : exits {' '.join(exits)} ; see {' '.join(things) or 'nothing'} ; hold {held}"
        if stage == len(self.deeds):
            return Scene(text, (), {})
        table = {f"go {name}": (stage, other) for name, other in exits.items()}
        if layout.spots[stage] == room:
            table[self.deeds[stage]] = (stage + 1, room)
        return Scene(text, tuple(table), table)

    def advise(self, stage: int, room: int) -> str | None:
        """The first action of a shortest solution; None at the end.

        The order of the deeds is forced and a tree has one path between two rooms, so going straight to the next deed
        is optimal.
        """
        if stage == len(self.deeds):
            return None
        goal = self.layout.spots[stage]
        return self.deeds[stage] if room == goal else f"go {self._towards(goal)[room]}"

    def _towards(self, goal: int) -> list[str]:
        """For every room the direction that leads to ``goal`` (breadth first from there)."""
        if goal not in self._hops:
            exits = self.layout.exits
            hops = [""] * len(exits)
            queue, seen = deque([goal]), {goal}
            while queue:
                near = queue.popleft()
                for far in exits[near].values():
                    if far not in seen:
                        seen.add(far)
                        queue.append(far)
                        hops[far] = next(name for name, other in exits[far].items() if other == near)
            self._hops[goal] = hops
        return self._hops[goal]


@lru_cache(maxsize=256)
def make_world(seed: int, rooms: int, chests: int, split: str) -> World:
    """The world of a task: the first layout of the seed's stream that belongs to ``split`` (empty: the first)."""
    rng = python_rng("quest", seed, rooms, chests)
    for _ in range(_DRAWS):
        layout = draw_layout(rng, rooms, chests)
        if split in ("", layout.split):
            return World(layout)
    raise DataError(f"quest: {_DRAWS} layouts of {rooms} rooms and {chests} chests, none for split {split!r}")
