"""What the processes of a run tell each other beside verl's own traffic: how far it is, and what credit parts know.

A board is a named Ray actor. The trainer writes where it stands (the launcher reads it and ends a run that does not
move) and, for parts that add notes to prompts, what they have learnt; the processes that play episodes read that.
"""

from __future__ import annotations

import time
from typing import Any

from agentgym.augment import Augmenter
from agentgym.config.recipe import Recipe

NAME, NAMESPACE = "agentgym_board", "agentgym"


class Board:
    """The actor's class: a heartbeat, lines for the terminal, one versioned object."""

    def __init__(self) -> None:
        self._doing, self._step, self._since = "starting", 0, time.monotonic()
        self._lines: list[str] = []
        self._failure = ""
        self._knowledge: tuple[int, Any] = (-1, None)

    def beat(self, doing: str, step: int) -> None:
        """The trainer begins ``doing`` in training step ``step``."""
        self._doing, self._step, self._since = doing, step, time.monotonic()

    def alive(self) -> None:
        """Something was finished: an episode, a batch of them."""
        self._since = time.monotonic()

    def say(self, text: str) -> None:
        """Text for the launcher's terminal."""
        self._lines.append(text)

    def fail(self, reason: str) -> None:
        """Something broke that the run cannot go on without; the first reason stays."""
        self._failure = self._failure or reason

    def look(self) -> tuple[str, int, float, str, list[str]]:
        """What the trainer does, in which step, seconds without progress, what failed; and the lines since the last
        look."""
        lines, self._lines = self._lines, []
        return self._doing, self._step, time.monotonic() - self._since, self._failure, lines

    def publish(self, step: int, knowledge: Any) -> None:
        """What credit parts know from training step ``step`` on."""
        self._knowledge = (step, knowledge)

    def knowledge(self, have: int) -> tuple[int, Any] | None:
        """The newest, unless the caller has it."""
        return self._knowledge if self._knowledge[0] > have else None


class BoardStream:
    """A text stream whose text appears on the launcher's terminal."""

    def __init__(self, board: Any) -> None:
        self._board = board

    def write(self, text: str) -> int:
        """Send it."""
        self._board.say.remote(text)
        return len(text)

    def flush(self) -> None:
        """Nothing waits here."""

    def isatty(self) -> bool:
        """Plain lines."""
        return False


def open_board() -> Any:
    """Make the board; it lives as long as the caller's handle."""
    import ray

    return ray.remote(num_cpus=0)(Board).options(name=NAME, namespace=NAMESPACE).remote()


def find_board() -> Any:
    """The run's board."""
    import ray

    return ray.get_actor(NAME, namespace=NAMESPACE)


class Notebook:
    """Credit parts that add notes to prompts, in a process that plays episodes; they follow the trainer's."""

    def __init__(self, recipe: Recipe, board: Any) -> None:
        from agentgym.credit import CreditPipeline
        from agentgym.trainers.verl.services import playing_services

        self._step, self._board = -1, board
        self._credit = CreditPipeline.from_recipe(recipe, playing_services(recipe))
        self.augmenter: Augmenter | None = self._credit if self._credit.augmenters else None

    async def refresh(self, step: int) -> None:
        """Have what the trainer knew when training step ``step`` began."""
        if self.augmenter is None or step <= self._step:
            return
        found = await self._board.knowledge.remote(self._step)
        if found is not None:
            self._step = found[0]
            self._credit.parts.load_state_dict(found[1])
