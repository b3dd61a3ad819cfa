"""The knobs of generated ALFWorld games and their presets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from agentgym.environments.alfworld.catalogue import GOALS
from agentgym.environments.alfworld.households import ROOMS
from agentgym.environments.alfworld.problem import KINDS
from agentgym.errors import ConfigError, nearest, unknown

#: lowest and highest number, both allowed
Range = tuple[int, int]
#: a game with more things than this takes minutes to make
MOST: Final = 1000
OFFICIAL_ROOMS: Final = ("kitchen", "livingroom", "bedroom", "bathroom")


@dataclass(frozen=True, slots=True)
class Knobs:
    """What a generated game is like. None: as in the official games.

    ``rooms``        room types to draw from (see :data:`~agentgym.environments.alfworld.households.ROOMS`)
    ``kinds``        task types to draw from
    ``receptacles``  how many receptacles
    ``objects``      how many objects that can be taken; like ``receptacles`` never fewer than the task needs
    ``distractors``  how many objects of the wanted type beyond those the task needs
    ``hidden``       probability that a needed object lies in something closed, where that is possible
    ``shared``       whether receptacles may share one spot, so that arriving at one reaches both
    ``floor``        whether some objects lie out of reach, in no receptacle, as 5 % of the official games' objects
    """

    rooms: tuple[str, ...] = OFFICIAL_ROOMS
    kinds: tuple[str, ...] = KINDS
    receptacles: Range | None = None
    objects: Range | None = None
    distractors: Range | None = None
    hidden: float | None = None
    shared: bool = True
    floor: bool = True

    def __post_init__(self) -> None:
        for kind, names, known in (("room", self.rooms, tuple(ROOMS)), ("task type", self.kinds, KINDS)):
            for name in names:
                if name not in known:
                    raise unknown(f"ALFWorld {kind}", name, known)
        for name, least in (("receptacles", 2), ("objects", 1), ("distractors", 0)):
            span = getattr(self, name)
            if span is not None and not least <= span[0] <= span[1] <= MOST:
                raise ConfigError(
                    f"generated ALFWorld games: {name} must be {least} <= low <= high <= {MOST}, got {list(span)}"
                )
        if self.hidden is not None and not 0.0 <= self.hidden <= 1.0:
            raise ConfigError(f"generated ALFWorld games: hidden must be in [0, 1], got {self.hidden!r}")
        if not self.choices():
            raise ConfigError(
                f"generated ALFWorld games: none of the task types {', '.join(self.kinds)} exists in the rooms "
                f"{', '.join(self.rooms)}"
            )

    def choices(self) -> dict[tuple[str, str], int]:
        """The (task type, room) pairs to draw from, with their frequencies."""
        pairs = ((kind, room) for kind in self.kinds for room in self.rooms)
        return {pair: GOALS[pair][0] for pair in pairs if pair in GOALS}


PRESETS: Final[Mapping[str, Knobs]] = {
    "tiny": Knobs(("studio",), KINDS, (4, 6), (3, 6), (0, 1), shared=False, floor=False),
    "small": Knobs(receptacles=(8, 12), objects=(8, 14)),
    "full": Knobs(),
}


def make_knobs(preset: str = "full", changes: Mapping[str, Any] | None = None) -> Knobs:
    """A preset with some knobs changed. Lists become tuples, a single number a range; unknown names are refused."""
    if not isinstance(preset, str) or preset not in PRESETS:
        raise unknown("preset of generated ALFWorld games", str(preset), PRESETS)
    known = [field.name for field in fields(Knobs)]
    values: dict[str, Any] = {}
    for name, value in (changes or {}).items():
        if name not in known:
            close = nearest(name, known)
            hint = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(known)}."
            raise ConfigError(f"generated ALFWorld games have no knob {name!r}. {hint}")
        values[name] = _knob_value(name, value)
    return replace(PRESETS[preset], **values)


def _knob_value(name: str, value: Any) -> Any:
    if value is None and name in ("receptacles", "objects", "distractors", "hidden"):
        return None
    if name in ("shared", "floor") and isinstance(value, bool):
        return value
    if name == "hidden" and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if name in ("rooms", "kinds"):
        words = (value,) if isinstance(value, str) else value
        if isinstance(words, Sequence) and words and all(isinstance(word, str) for word in words):
            return tuple(words)
    if name in ("receptacles", "objects", "distractors"):
        span = (value, value) if isinstance(value, int) else value
        if isinstance(span, Sequence) and len(span) == 2 and all(type(number) is int for number in span):
            return tuple(span)
    raise ConfigError(f"generated ALFWorld games: knob {name!r} cannot be {value!r}")
