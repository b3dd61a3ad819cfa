"""KeyDoor behind the environment contract."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from agentgym.environment import Environment, EnvironmentSpec
from agentgym.environments import _games
from agentgym.environments.keydoor.model import TabularModel
from agentgym.environments.keydoor.world import DISTRACTORS, World, make_world
from agentgym.errors import ConfigError, EnvironmentFault, unknown
from agentgym.seeding import derive_seed
from agentgym.types import Observation, Step, Task, TaskSet

REFUSAL: Final = "nothing happens ; "
#: tasks of a split where ``count`` is not given
COUNTS: Final = {"train": 100, "valid": 20, "test": 100}
_LIMITS: Final = {"length": (2, 64), "doors": (1, 16), "distractors": (0, len(DISTRACTORS)), "count": (1, 10_000_000)}
_SIZE: Final = ("length", "doors", "distractors")

_SNAPSHOT: Final = "index of the state, refused"
_HELP: Final = (
    "Reach the last cell of the corridor. Actions: left, right; take key, where you see it; open door, with the key in "
    "hand before a closed door, which uses it up. Some further actions do nothing at all."
)


class KeyDoor(Environment):
    """A corridor of keys and doors, fully observed. Reward 1 in the last cell, which ends the episode.

    ``length`` cells (2-64), ``doors`` (1-16, fewer than cells), ``distractors``: actions without effect (0-8); for
    tasks that do not say. :meth:`model` gives all states and transitions, for exact values.
    """

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="keydoor",
        max_turns=30,
        thread_safe=True,
        cheap=True,
        snapshots=True,
        splits=tuple(COUNTS),
        action_help=_HELP,
        description="A corridor of keys and doors; every state can be listed, values of a policy are exact",
    )

    def __init__(self, length: int = 6, doors: int = 2, distractors: int = 2) -> None:
        self._size = _checked_size(length=length, doors=doors, distractors=distractors)
        self._world: World | None = None

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        """``count`` corridors of a split (default: 100, 20 and 100), the same on every machine.

        Options: ``count``, ``length``, ``doors``, ``distractors`` (default: the constructor's), ``seed`` (>= 0,
        default 0). Splits share no seed. There are few corridors of a small size, so two seeds can give the same one.
        """
        _games.check_split("keydoor", split, COUNTS)
        for name in options:
            if name not in (*_LIMITS, "seed"):
                raise unknown(f"option of keydoor split {split!r}", name, (*_LIMITS, "seed"))
        count = _bounded("count", options.get("count", COUNTS[split]))
        size = _checked_size(**{name: options.get(name, self._size[name]) for name in _SIZE})
        seed = options.get("seed", 0)
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise ConfigError(f"keydoor: seed must be an integer >= 0, got {seed!r}")
        label = f"{split}-l{size['length']}-d{size['doors']}-x{size['distractors']}-s{seed}"
        return TaskSet(
            (Task(self.spec.name, f"{label}-{i}", split, _seed(split, seed, i), data=dict(size)) for i in range(count)),
            f"keydoor {label}",
        )

    def reset(self, task: Task) -> Observation:
        """Start ``task``. A task without ``data`` has the constructor's size."""
        size = _checked_size(**{**self._size, **_games.optional_data("keydoor", task, _SIZE)})
        self._world = make_world(task.seed, *(size[name] for name in _SIZE))
        self._task = task
        self.milestone_names = self._world.corridor.milestones
        self._rows = self._world.model.next_state.tolist()
        self._actions = {action: i for i, action in enumerate(self._world.model.actions)}
        return self._enter(self._world.model.start)

    def _running(self) -> World:
        if self._world is None:
            raise EnvironmentFault("environment 'keydoor': reset(task) must come first")
        return self._world

    def _enter(self, state: int, refused: bool = False) -> Observation:
        world = self._running()
        self._state, self._refused = state, refused
        text = world.model.states[state]
        return Observation(REFUSAL + text if refused else text, world.admissible[state], text)

    def step(self, action: str) -> Step:
        """Execute one action, spelled exactly; what is not possible is refused and changes nothing."""
        world, state = self._running(), self._state
        if not world.admissible[state]:
            raise EnvironmentFault(f"keydoor task {self._task.name!r}: the end is reached; reset first")
        if action not in world.admissible[state]:
            return Step(self._enter(state, True), grounded=False, milestones=self._reached())
        seen = self._enter(self._rows[state][self._actions[action]])
        done = not seen.admissible
        return Step(seen, float(done), done, done, True, self._reached())

    def _reached(self) -> tuple[str, ...]:
        return self.milestone_names[: self._running().stage[self._state]]

    def expert(self) -> str | None:
        """The first action of a shortest solution from here; None at the end."""
        return self._running().advice[self._state]

    def states(self) -> tuple[str, ...]:
        """The state keys of the present task that can be reached, in the order of :meth:`model`."""
        return self._running().model.states

    def model(self) -> TabularModel:
        """All states, actions and transitions of the present task; the same object for all episodes of a task."""
        return self._running().model

    def snapshot(self) -> Any:
        """The present state: ``(task id, index of the state, refused)``."""
        self._running()
        return (self._task.id, self._state, self._refused)

    def restore(self, state: Any) -> Observation:
        """Go back to a snapshot of this task, or to any state of it: ``(task id, index, False)``.

        Raises EnvironmentFault for anything else.
        """
        world = self._world
        index, refused = _games.snapshot_fields("keydoor", state, self._task if world else None, _SNAPSHOT)
        last = len(world.model.states) - 1 if world else -1
        if not _games.in_range(index, 0, last) or type(refused) is not bool:
            raise _games.bad_snapshot("keydoor", state, _SNAPSHOT)
        return self._enter(index, refused)

    def close(self) -> None:
        """Nothing to free; the next step needs a reset."""
        self._world = None


def _seed(split: str, seed: int, index: int) -> int:
    """A task's seed; its remainder modulo the number of splits names the split, so that no two splits share one."""
    splits = list(COUNTS)
    drawn = derive_seed("keydoor task", split, seed, index)
    return drawn // len(splits) * len(splits) + splits.index(split)


def _bounded(name: str, value: Any) -> int:
    low, high = _LIMITS[name]
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(f"keydoor: {name} must be an integer from {low} to {high}, got {value!r}")
    return value


def _checked_size(**size: Any) -> dict[str, int]:
    checked = {name: _bounded(name, value) for name, value in size.items()}
    if checked["doors"] >= checked["length"]:
        raise ConfigError(
            f"keydoor: {checked['length']} cells have room for {checked['length'] - 1} doors, got {checked['doors']}"
        )
    return checked
