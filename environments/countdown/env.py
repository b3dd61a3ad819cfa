"""Countdown and 24: reach a target from given numbers, each used once.

Scores are RAGEN's (Wang et al. 2025, arXiv:2504.20073): 1 for the target, 0.1 for a well-formed expression that uses
the numbers, 0 for anything else; one turn. Expressions are parsed, never executed.
"""

from __future__ import annotations

import random
from typing import Any, ClassVar, Final

from agentgym.environment import Environment, EnvironmentSpec
from agentgym.environments import _games
from agentgym.environments.countdown.expression import ExpressionError, evaluate
from agentgym.environments.countdown.solver import solve
from agentgym.errors import ConfigError, unknown
from agentgym.seeding import python_rng
from agentgym.types import Observation, Step, Task, TaskSet

KINDS: Final = ("countdown", "24")
_OPTIONS: Final = ("n", "seed", "game", "count", "largest", "operators")
_TARGETS: Final = (10, 99)
_ATTEMPTS: Final = 5000
_SNAPSHOT: Final = "text, over, note"
_HELP: Final = (
    "You get numbers and a target. Write an arithmetic expression that equals the target and uses each number exactly "
    "once, with + - * / and parentheses. Action: the expression alone, without '='."
)


class Countdown(Environment):
    """Countdown or 24. A well-formed expression is judged and ends the game; success is to hit the target exactly."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="countdown",
        max_turns=1,
        snapshots=True,
        splits=tuple(_games.SPLITS),
        action_help=_HELP,
        kinds=KINDS,
        description="Countdown and 24; expressions are parsed, never executed",
    )

    def __init__(self) -> None:
        self._task: Task | None = None

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        """``n`` (100) different solvable games, drawn by ``seed`` (0).

        ``game``: ``countdown`` (default) or ``24`` (four numbers from 1 to 13). Of Countdown: ``count`` ([3, 4])
        numbers, a number or [low, high] from 2 to 5; ``largest`` (99) number; ``operators``: ``+-`` (default: as RAGEN,
        which keeps the games that signs alone solve) or ``+-*/``.
        """
        _games.check_options("countdown", options, _OPTIONS)
        game = str(options.get("game", "countdown"))
        if game not in KINDS:
            raise unknown("game of environment 'countdown'", game, KINDS)
        for name in ("count", "largest", "operators"):
            if game == "24" and name in options:
                raise ConfigError(f"environment 'countdown': {name} is an option of game 'countdown', not of '24'")
        counts = _counts(options.get("count", [3, 4]))
        largest = _games.whole("countdown", "largest", options.get("largest", 99), 9, 999_999)
        operators = options.get("operators", "+-")
        if operators not in ("+-", "+-*/"):
            raise ConfigError(f"environment 'countdown': operators must be '+-' or '+-*/', got {operators!r:.80}")

        def draw(seed: int) -> _games.Game:
            rng = python_rng("countdown game", seed)
            numbers, target = _twenty_four(rng) if game == "24" else _countdown(rng, counts, largest, operators)
            label = "24" if game == "24" else f"countdown{len(numbers)}"
            return _games.Game([sorted(numbers), target], {"numbers": numbers, "target": target}, label, game)

        return _games.draw_tasks("countdown", split, options.get("n", 100), options.get("seed", 0), draw)

    def reset(self, task: Task) -> Observation:
        """Start ``task``."""
        data = _games.task_data("countdown", task)
        numbers, target = data.get("numbers"), data.get("target")
        fine = isinstance(numbers, list | tuple) and 1 <= len(numbers) <= 5
        if not fine or any(type(n) is not int or not 0 <= n < 10**9 for n in numbers or ()):
            raise _games.damaged(task, f"numbers must be one to five whole numbers below 10^9, got {numbers!r:.80}")
        if type(target) is not int or not 0 <= target < 10**9:
            raise _games.damaged(task, f"target must be a whole number from 0 to below 10^9, got {target!r:.80}")
        self._task, self._numbers, self._target = task, tuple(numbers or ()), target
        self._text, self._over = f"Target: {target}, nums: {list(self._numbers)}", False
        return self._observe()

    def _observe(self, note: str = "") -> Observation:
        self._note = note
        return Observation(note + self._text, state_key=self._text)

    def step(self, action: str) -> Step:
        """Judge an expression. What is none is answered with the reason, and the game goes on."""
        if self._task is None or self._over:
            raise _games.not_running("countdown", self._task)
        try:
            value, used = evaluate(action)
        except ExpressionError as error:
            return Step(self._observe(f"Not an expression: {error}.\n"), grounded=False)
        right = value is not None and value[0] == self._target * value[1]
        complete = sorted(used) == sorted(self._numbers)
        reward = 0.0 if not complete else 1.0 if right else 0.1
        problem = "" if complete else " The numbers must each be used once."
        self._text, self._over = f"Your answer gets {reward} points.{problem}", True
        return Step(self._observe(), reward, True, complete and right)

    def expert(self) -> str | None:
        """An expression that solves it; None where it is over or has no solution."""
        if self._task is None:
            raise _games.not_running("countdown", None)
        return None if self._over else solve(self._numbers, self._target)

    def snapshot(self) -> Any:
        """The present state; valid in any instance that has been reset to the same task."""
        if self._task is None:
            raise _games.not_running("countdown", None)
        return (self._task.id, self._text, self._over, self._note)

    def restore(self, state: Any) -> Observation:
        """Go back to a snapshot of this task. Raises EnvironmentFault for anything else, and changes nothing then."""
        text, over, note = _games.snapshot_fields("countdown", state, self._task, _SNAPSHOT)
        if not isinstance(text, str) or type(over) is not bool or not isinstance(note, str):
            raise _games.bad_snapshot("countdown", state, _SNAPSHOT)
        self._text, self._over = text, over
        return self._observe(note)


def _counts(value: Any) -> tuple[int, int]:
    low, high = value if isinstance(value, list | tuple) and len(value) == 2 else (value, value)
    low = _games.whole("countdown", "count", low, 2, 5)
    return low, _games.whole("countdown", "count", high, low, 5)


def _twenty_four(rng: random.Random) -> tuple[list[int], int]:
    """Four numbers from 1 to 13 that make 24; three of four draws do."""
    while True:
        numbers = [rng.randint(1, 13) for _ in range(4)]
        if solve(tuple(sorted(numbers)), 24) is not None:
            return numbers, 24


def _countdown(rng: random.Random, counts: tuple[int, int], largest: int, operators: str) -> tuple[list[int], int]:
    """Numbers and a target that some expression over the operators reaches; the target is from 10 to 99."""
    for _ in range(_ATTEMPTS):
        numbers = [rng.randint(1, largest) for _ in range(rng.randint(*counts))]
        parts = numbers.copy()
        while len(parts) > 1:
            rng.shuffle(parts)
            a, b = parts.pop(), parts.pop()
            operator = operators[rng.randrange(len(operators))]
            exact = operator == "/" and b > 0 and a % b == 0
            parts.append(a + b if operator == "+" else a * b if operator == "*" else a // b if exact else a - b)
        if _TARGETS[0] <= parts[0] <= _TARGETS[1]:
            return numbers, parts[0]
    raise ConfigError(
        f"environment 'countdown': no game with targets from {_TARGETS[0]} to {_TARGETS[1]} in {_ATTEMPTS} tries with "
        f"numbers up to {largest}; take a smaller largest"
    )
