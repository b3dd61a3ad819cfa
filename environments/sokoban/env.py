"""Sokoban: push every box onto a target. Two rule sets: RAGEN's and RetroAgent's.

Moves, pushes and rewards are those of gym-sokoban 0.0.6 (Schrader 2018): -0.1 a move, +1 when a box comes onto a
target, -1 when one leaves it, +10 when all are on targets. RAGEN (Wang et al. 2025, arXiv:2504.20073) and RetroAgent
set symbols, sizes and ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from agentgym.environment import Environment, EnvironmentSpec
from agentgym.environments import _games
from agentgym.environments.sokoban.generator import make_room
from agentgym.environments.sokoban.room import Room, RoomError, room_of
from agentgym.errors import ConfigError, unknown
from agentgym.seeding import python_rng
from agentgym.types import Observation, Step, Task, TaskSet

#: in the order of ``room.STEPS``
ACTIONS: Final = ("Up", "Down", "Left", "Right")
_NUMBERS: Final = {name.lower(): number for number, name in enumerate(ACTIONS)}
_OPTIONS: Final = ("n", "seed", "size", "boxes", "min_steps", "max_steps")
_ATTEMPTS: Final = 500
_REFUSAL: Final = "Not an action. Actions: Up, Down, Left, Right.\n"
_SNAPSHOT: Final = "state, most boxes on targets, over, refused"
_HELP: Final = (
    "You push boxes onto targets. #: wall, _: floor, O: target, X: box, √: box on target, P: you, S: you on a target. "
    "Actions: Up, Down, Left, Right. You can push one box, never pull. All boxes on targets wins."
)


@dataclass(frozen=True, slots=True)
class Variant:
    """``boxes`` and solution lengths are defaults of ``tasks``; ``ends_dead``: a dead state ends the game."""

    boxes: int
    min_steps: int
    max_steps: int
    numbered: bool
    ends_dead: bool
    refusal: float


#: RAGEN's limit is 10 actions and RetroAgent's 30, so longer solutions could not be played
VARIANTS: Final = {
    "ragen": Variant(1, 2, 10, numbered=False, ends_dead=False, refusal=0.0),
    "retroagent": Variant(2, 5, 30, numbered=True, ends_dead=True, refusal=-0.1),
}


class Sokoban(Environment):
    """Sokoban with gym-sokoban's rewards; solving it ends the game with success.

    ``variant``           ``ragen``: grid with three characters a cell, one box; ``retroagent``: numbered rows, two
                          boxes, a state that can no longer be solved ends the game
    ``actions_per_turn``  how many actions one turn may hold, separated by ``||`` (RAGEN: 2, with max_turns 5)
    ``outcome``           ``success``: the episode's score is 1 if solved, else 0; ``rewards``: the sum of the rewards
    """

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="sokoban",
        max_turns=30,
        snapshots=True,
        splits=tuple(_games.SPLITS),
        action_help=_HELP,
        description="Sokoban by the rules of RAGEN or RetroAgent; generated rooms, exact solver",
    )

    def __init__(self, variant: str = "ragen", actions_per_turn: int = 1, outcome: str = "success") -> None:
        if not isinstance(variant, str) or variant not in VARIANTS:
            raise unknown("variant of environment 'sokoban'", str(variant), VARIANTS)
        self._variant = VARIANTS[variant]
        self._limit = _games.whole("sokoban", "actions_per_turn", actions_per_turn, 1, 100)
        self._scored = _games.is_success("sokoban", outcome)
        self._task: Task | None = None

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        """``n`` (100) different solvable rooms, drawn by ``seed`` (0).

        ``size`` (6): cells a side, walls included, 4 to 12; ``boxes`` (1, RetroAgent 2), 1 to 4; ``min_steps`` and
        ``max_steps``: bounds of the shortest solution in moves (RAGEN 2 to 10, RetroAgent 5 to 30).
        """
        _games.check_options("sokoban", options, _OPTIONS)
        size = _games.whole("sokoban", "size", options.get("size", 6), 4, 12)
        boxes = _games.whole("sokoban", "boxes", options.get("boxes", self._variant.boxes), 1, 4)
        low = _games.whole("sokoban", "min_steps", options.get("min_steps", self._variant.min_steps), 1)
        high = _games.whole("sokoban", "max_steps", options.get("max_steps", self._variant.max_steps), low)

        def draw(seed: int) -> _games.Game:
            rng = python_rng("sokoban room", seed)
            for _ in range(_ATTEMPTS):
                rows = make_room(rng, size, boxes, low, high)
                if rows is not None:
                    # Walls and targets identify a room: another start in it would not be another game.
                    content = [row.translate(_FIXED) for row in rows]
                    return _games.Game(content, {"rows": rows}, f"{size}x{size}-{boxes}")
            raise ConfigError(
                f"environment 'sokoban': no room of size {size} with {boxes} boxes and {low} to {high} steps in "
                f"{_ATTEMPTS} tries; take a larger size, fewer boxes or wider bounds"
            )

        return _games.draw_tasks("sokoban", split, options.get("n", 100), options.get("seed", 0), draw)

    def reset(self, task: Task) -> Observation:
        """Start ``task``."""
        room = _room(task)
        self.milestone_names = tuple(f"{k} on target" for k in range(1, room.boxes + 1))
        self._room, self._task, self._state = room, task, room.start
        self._on = self._most = room.on_target(room.start)
        self._over = False
        return self._observe()

    def _observe(self, refused: bool = False) -> Observation:
        self._refused, note = refused, _REFUSAL if refused else ""
        symbols, width = self._room.draw(self._state), self._room.width
        if self._variant.numbered:
            rows = [f"{k // width}: " + " ".join(symbols[k : k + width]) for k in range(0, len(symbols), width)]
        else:
            rows = [" " + "  ".join(symbols[k : k + width]) + " " for k in range(0, len(symbols), width)]
        text = "\n".join(rows)
        return Observation(note + text, [*ACTIONS], text)

    def _move(self, direction: int) -> tuple[float, bool]:
        """The reward of one move, and whether anything moved."""
        room, before = self._room, self._state
        after = self._state = room.move(before, direction)
        on = room.on_target(after)
        reward = -0.1 + (on > self._on) - (on < self._on)
        if on == room.boxes:
            self._over = True
            reward += 10.0
        elif self._variant.ends_dead and after not in room.steps:
            self._over = True
        self._on, self._most = on, max(self._most, on)
        return reward, after != before

    def step(self, action: str) -> Step:
        """Move. A wall or a stuck box refuses the move (at its price); what is not an action changes nothing."""
        if self._task is None or self._over:
            raise _games.not_running("sokoban", self._task)
        numbers = _games.parse_actions(action, _NUMBERS, self._limit)
        reward, moved = (0.0, False) if numbers else (self._variant.refusal, False)
        for number in numbers or ():
            gained, effective = self._move(number)
            reward, moved = reward + gained, moved or effective
            if self._over:
                break
        solved = self._over and self._on == self._room.boxes
        score = float(solved) if self._scored else None
        names = self.milestone_names[: self._most]
        return Step(self._observe(not numbers), reward, self._over, solved, moved, names, score)

    def expert(self) -> str | None:
        """The next move of a shortest solution; None where the game is over or can no longer be solved."""
        if self._task is None:
            raise _games.not_running("sokoban", None)
        direction = None if self._over else self._room.best(self._state)
        return None if direction is None else ACTIONS[direction]

    def steps_left(self) -> int | None:
        """Moves of a shortest solution from here; None where there is none."""
        if self._task is None:
            raise _games.not_running("sokoban", None)
        return self._room.steps.get(self._state)

    def snapshot(self) -> Any:
        """The present state; valid in any instance that has been reset to the same task."""
        if self._task is None:
            raise _games.not_running("sokoban", None)
        return (self._task.id, self._state, self._most, self._over, self._refused)

    def restore(self, state: Any) -> Observation:
        """Go back to a snapshot of this task. Raises EnvironmentFault for anything else, and changes nothing then."""
        cell, most, over, refused = _games.snapshot_fields("sokoban", state, self._task, _SNAPSHOT)
        room = self._room
        fine = type(cell) is int and room.holds(cell) and type(over) is bool and type(refused) is bool
        on = room.on_target(cell) if fine else 0
        # A solved game is over; a dead one is, or is not, by the rule set.
        fine = fine and (over is (on == room.boxes) or (over and cell not in room.steps))
        if not fine or not _games.in_range(most, on, room.boxes):
            raise _games.bad_snapshot("sokoban", state, _SNAPSHOT)
        self._state, self._most, self._over, self._on = cell, most, over, on
        return self._observe(refused)


_FIXED: Final = str.maketrans("XP√S", "__OO")


def _room(task: Task) -> Room:
    rows = _games.task_data("sokoban", task).get("rows")
    if not isinstance(rows, list | tuple) or not all(isinstance(row, str) for row in rows):
        raise _games.damaged(task, f"rows must be a list of lines such as '#_XO#', got {rows!r:.80}")
    try:
        return room_of(tuple(rows))
    except RoomError as error:
        raise _games.damaged(task, f"{error}; got {rows!r:.200}") from error
