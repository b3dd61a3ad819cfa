"""``textarena``: TextArena's single-player games (Guertler et al. 2025, arXiv:2504.11442) from the package itself."""

from __future__ import annotations

import random
import re
from typing import Any, ClassVar

from agentgym.environment import EnvironmentSpec
from agentgym.environments.adapters._base import Adapter, library
from agentgym.environments.adapters._isolated import call, drawing, isolate
from agentgym.errors import ConfigError, DataError, unknown
from agentgym.types import Observation, Step


class TextArena(Adapter):
    """A single-player TextArena game.

    ``id``       TextArena's id, such as ``GuessTheNumber-v0``
    ``options``  keyword arguments of ``textarena.make``
    ``solved``   a final reward of at least so much is a success (default 1)

    An observation holds what is new, in TextArena's words: the conversation is the prompt's business. The reward comes
    at the end and may be a part of 1. TextArena counts turns and wrong moves itself and ends the game then.
    """

    family = "textarena"
    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="textarena",
        max_turns=100,
        snapshots=True,
        splits=("train", "valid", "test"),
        action_help="The game says how to move, usually [in square brackets].",
        description="TextArena's single-player games; option id, or textarena:ID",
        expert_success=0.0,
    )

    def __init__(self, id: str = "", options: dict[str, Any] | None = None, solved: float = 1.0) -> None:
        super().__init__(id)
        self._library = _textarena()
        self._generator = random.Random(0)
        isolate("textarena")
        self._raw, self._solved = self._known(self.id), float(solved)
        with drawing(self._generator):
            try:
                self._env = self._library.make(self._raw, **dict(options or {}))
            except LookupError as error:
                raise _no_words(error) from error
            except (ImportError, TypeError, OSError, ValueError) as error:
                raise ConfigError(
                    f"environment 'textarena': {self.id!r} cannot be made: {type(error).__name__}: {error}"
                ) from error
        isolate("textarena")  # the game's own module is loaded now
        self._step = self._env.step
        own = getattr(self._env, "max_turns", None)
        # wrong moves do not count as turns there
        self.describe(2 * own + 2 if isinstance(own, int) else None, self.spec.action_help)

    def _known(self, id: str) -> str:
        """The game without the wrapper that repeats the whole conversation every turn."""
        known = self._library.envs.registration.ENV_REGISTRY
        if id not in known:
            raise unknown("TextArena game", id, (name for name in known if not name.endswith(("-raw", "-train"))))
        return f"{id}-raw" if f"{id}-raw" in known else id

    def _start(self, seed: int) -> Observation:
        with drawing(self._generator):
            self._generator.seed(seed)
            try:
                self._env.reset(num_players=1, seed=seed)
            except AssertionError as error:
                raise ConfigError(f"environment 'textarena': {self.id!r} is no game for one player: {error}") from error
        return self._observe()

    def _observe(self) -> Observation:
        player, said = self._env.get_observation()
        if isinstance(said, str):
            return Observation(said)
        text = "\n".join(message.strip() for sender, message, _ in said if sender != player)
        return Observation(text or "(nothing new)")

    def step(self, action: str) -> Step:
        """One move; TextArena judges it."""
        self.running()
        state = self._env.state
        before = state.error_count
        done, _ = call(self._generator, self._step, action)
        self._actions.append(action)
        fine = state.error_count <= before
        if not done:
            return Step(self._observe(), grounded=fine)
        self._over = True
        rewards, facts = self._env.close()
        facts = facts.get(0, {})
        reward = float((rewards or {}).get(0, 0.0))
        reason = str(facts.get("reason", "")) or "The game is over."
        fine = fine and not facts.get("invalid_move")
        info = {"reason": reason, "invalid_move": bool(facts.get("invalid_move"))}
        return Step(Observation(reason), reward, True, reward >= self._solved, fine, info=info)


def _textarena() -> Any:
    """The package. Its import reads NLTK's word lists, which are no part of it."""
    try:
        with drawing(random.Random(0)):
            return library("textarena", "textarena")
    except LookupError as error:
        raise _no_words(error) from error


def _no_words(error: LookupError) -> DataError:
    found = re.search(r"nltk\.download\('([\w-]+)'\)", str(error))
    which = found[1] if found else "words"
    return DataError(
        f"environment 'textarena': the package needs NLTK's {which!r}, which is not there. "
        f"Run: python -m nltk.downloader {which}"
    )
