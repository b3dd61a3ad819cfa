"""Quest behind the environment contract."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from agentgym.environment import Environment, EnvironmentSpec
from agentgym.environments import _games
from agentgym.environments.quest.world import COLOURS, REFUSAL, ROOMS, SPLITS, Scene, World, make_world
from agentgym.errors import ConfigError, EnvironmentFault, unknown
from agentgym.seeding import derive_seed
from agentgym.types import Observation, Step, Task, TaskSet

#: tasks of a split where ``count`` is not given
COUNTS: Final = {"train": 2000, "valid": 64, "test": 200}
_LIMITS: Final = {"rooms": (2, len(ROOMS)), "chests": (1, len(COLOURS)), "count": (1, 10_000_000)}

_SNAPSHOT: Final = "stage, room, refused"
_HELP: Final = (
    "Find the key, open the chest of its colour, go on with what is in it, and bring the gem to the altar. Actions: "
    "go north, go south, go east, go west; take COLOUR key; open COLOUR chest; take gem; place gem. You can carry one "
    "thing; a key is used up by its chest. An action that is not possible now has an answer that begins with "
    "'you cannot do that'."
)


class Quest(Environment):
    """Keys, nested chests, a gem and an altar in a few rooms. Reward 1 for placing the gem, which ends the game.

    ``rooms``, ``chests``: the size of games whose task does not say (2-12 and 1-8).
    """

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="quest",
        max_turns=36,
        thread_safe=True,
        cheap=True,
        snapshots=True,
        splits=SPLITS,
        action_help=_HELP,
        description="Nested chests in a few rooms; small, partially observed, sparse reward, exact expert",
    )

    def __init__(self, rooms: int = 4, chests: int = 2) -> None:
        self._size = {"rooms": _bounded("rooms", rooms), "chests": _bounded("chests", chests)}
        self._world: World | None = None

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        """``count`` games of a split (default: 2000, 64 and 200), which are the same on every machine.

        Options: ``count``, ``rooms``, ``chests`` (default: the constructor's) and ``seed`` (>= 0, default 0), which
        chooses among the unlimited games of the split. A longer list begins with the shorter one. A game belongs to
        one split by a hash of its content, so no two splits share a game, whatever the seeds.
        """
        _games.check_split("quest", split, SPLITS)
        for name in options:
            if name not in (*_LIMITS, "seed"):
                raise unknown(f"option of quest split {split!r}", name, (*_LIMITS, "seed"))
        count = _bounded("count", options.get("count", COUNTS[split]))
        size = {name: _bounded(name, options.get(name, default)) for name, default in self._size.items()}
        seed = options.get("seed", 0)
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise ConfigError(f"quest: seed must be an integer >= 0, got {seed!r}")
        label = f"{split}-k{size['chests']}-r{size['rooms']}-s{seed}"
        data = {**size, "split": split}
        return TaskSet(
            (
                Task(self.spec.name, f"{label}-{i}", split, derive_seed("quest task", split, seed, i), data=data)
                for i in range(count)
            ),
            f"quest {label}",
        )

    def reset(self, task: Task) -> Observation:
        """Start ``task``. A task without ``data`` has the constructor's size and belongs to no split."""
        given = _games.optional_data("quest", task, (*self._size, "split"))
        data = {**self._size, "split": "", **given}
        size = [_bounded(name, data[name]) for name in ("rooms", "chests")]
        if data["split"] != "":
            _games.check_split("quest", data["split"], SPLITS)
        self._world = make_world(task.seed, *size, data["split"])
        self._task = task
        self.milestone_names = self._world.deeds
        return self._enter(0, self._world.layout.start)

    def _running(self) -> World:
        if self._world is None:
            raise EnvironmentFault("environment 'quest': reset(task) must come first")
        return self._world

    def _enter(self, stage: int, room: int, refused: bool = False) -> Observation:
        self._stage, self._room, self._refused = stage, room, refused
        self._scene: Scene = self._running().scene(stage, room)
        text = self._scene.text
        return Observation(REFUSAL + text if refused else text, self._scene.actions, text)

    def step(self, action: str) -> Step:
        """Execute one action, spelled exactly as in ``admissible``; anything else is refused and changes nothing."""
        world = self._running()
        if self._stage == len(world.deeds):
            raise EnvironmentFault(f"quest task {self._task.name!r}: the gem is placed and the game over; reset first")
        target = self._scene.table.get(action)
        if target is None:
            seen = self._enter(self._stage, self._room, refused=True)
            return Step(seen, grounded=False, milestones=world.reached[self._stage])
        seen = self._enter(*target)
        done = self._stage == len(world.deeds)
        return Step(seen, float(done), done, done, True, world.reached[self._stage])

    def expert(self) -> str | None:
        """The first action of a shortest solution from here, found with full knowledge; None when the game is over."""
        return self._running().advise(self._stage, self._room)

    def snapshot(self) -> Any:
        """The present state: ``(task id, stage, room, refused)``."""
        self._running()
        return (self._task.id, self._stage, self._room, self._refused)

    def restore(self, state: Any) -> Observation:
        """Go back to a snapshot of this task, taken in any instance. Raises EnvironmentFault for anything else."""
        world = self._world
        stage, room, refused = _games.snapshot_fields("quest", state, self._task if world else None, _SNAPSHOT)
        fine = world is not None and type(refused) is bool and _games.in_range(stage, 0, len(world.deeds))
        if world is None or not fine or not _games.in_range(room, 0, len(world.layout.rooms) - 1):
            raise _games.bad_snapshot("quest", state, _SNAPSHOT)
        return self._enter(stage, room, refused)

    def close(self) -> None:
        """Nothing to free; the next step needs a reset."""
        self._world = None


def _bounded(name: str, value: Any) -> int:
    low, high = _LIMITS[name]
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(f"quest: {name} must be an integer from {low} to {high}, got {value!r}")
    return value
