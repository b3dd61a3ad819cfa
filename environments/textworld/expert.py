"""What to do next: the generator's walkthrough, and TextWorld's own winning policy for those who left it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentgym.environments.textworld.game import Game


class Guide:
    """Follows one game. The walkthrough is known to win; every state along it is remembered and recognised again.

    Off the walkthrough a second copy of the game, which tracks TextWorld's winning policy, is played to the same state.
    Where it has no policy either (a quest without known actions, or one that can no longer be won), there is no advice.
    """

    def __init__(self, path: Path, walkthrough: Sequence[str]) -> None:
        self._path, self._walkthrough = path, walkthrough
        self._second: Game | None = None

    def reset(self, game: Game) -> None:
        """The game is at its beginning."""
        self._known: dict[frozenset[object], int] = {game.facts: 0}
        self._at: int | None = 0
        self._sent: int | None = None  # how many commands the second game has had; None: not started

    def follow(self, game: Game, command: str) -> None:
        """``command`` was played."""
        at = self._at
        if at is not None and at < len(self._walkthrough) and command == self._walkthrough[at]:
            self._at = at + 1
            self._known[game.facts] = at + 1  # the latest: quests passed on the way stay completed
        else:
            self._at = self._known.get(game.facts)

    def advice(self, game: Game, commands: Sequence[str]) -> str | None:
        """The next command after ``commands``, or None."""
        if self._at is not None and self._at < len(self._walkthrough):
            return self._walkthrough[self._at]
        if self._second is None:
            self._second = Game(self._path, policy=True)
        if self._sent is None:
            self._second.reset()
            self._sent = 0
        for command in commands[self._sent :]:
            self._second.send(command)
        self._sent = len(commands)
        return self._second.next_command

    def close(self) -> None:
        """Free the second game."""
        if self._second is not None:
            self._second.close()
            self._second = None
