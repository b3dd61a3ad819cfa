"""One running game: TextWorld's engine, what it says made plain, and which commands reach it.

The engine is TextWorld's own (Inform 7 in the Frotz interpreter, with the library's state tracking); commands that talk
to the interpreter rather than to the world are kept from it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from agentgym.environments.textworld.library import module
from agentgym.errors import DataError

#: the interpreter's input buffer holds 198 bytes and cuts longer commands silently
MAX_COMMAND: Final = 198
#: the interpreter's clock would seed Inform's dice otherwise
_DICE: Final = 1234
#: first words that Inform or TextWorld takes as orders to the program: they end it, rewind it or print its insides
META: Final = frozenset((
    "restart", "restore", "save", "quit", "q", "undo", "again", "g", "oops", "o", "script", "transcript", "unscript",
    "noscript", "verify", "version", "superbrief", "short", "long", "brief", "verbose", "normal", "nouns", "pronouns",
    "notify", "score", "full", "fullscore", "actions", "print_state", "enable", "disable", "restrict",
    "tw-extra-infos", "tw-trace-actions", "tw-print", "showme", "purloin", "gonear", "abstract", "scope", "rules",
    "random", "relations", "showheap", "showobj", "showverb", "test", "tree", "trace", "messages", "timers",
    "changes", "goto", "routines", "recording", "replay",
))  # fmt: skip
#: commands that Inform answers without one of the actions that TextWorld tracks
_ANSWERED: Final = frozenset(("goal", "help", "wait", "z"))
_PARTS: Final = re.compile(r"[.;,\n\r]| then ")
#: the prompt and the status line (room, score, turns), which the interpreter prints beside each other
_PROMPT: Final = re.compile(r"\s*>?(?: {8,}-= [^\n]* =--?\d+/\d+)?\s*\Z")
_QUESTION: Final = re.compile(r"\s*Would you like to RESTART, RESTORE a saved game, QUIT.*\Z", re.DOTALL)
_SPACES: Final = re.compile(r"[ \t]+$", re.MULTILINE)
_GAPS: Final = re.compile(r"\n{3,}")


def allowed(command: str) -> bool:
    """Whether a command may reach the interpreter: one short line of printable ASCII that speaks to the world."""
    if not command or len(command) > MAX_COMMAND or not (command.isascii() and command.isprintable()):
        return False
    for part in _PARTS.split(f" {command.lower()} "):
        words = part.split()
        if words and (words[0] in META or words[0][0] in "*#"):
            return False
    return True


def plain(text: str) -> str:
    """The engine's text without its prompt, its question after the end, and blank space."""
    text = _QUESTION.sub("", _PROMPT.sub("", text))
    return _GAPS.sub("\n\n", _SPACES.sub("", text)).strip()


class Game:
    """A loaded game. ``policy``: also track TextWorld's own winning policy (slower).

    ``walkthrough``  the generator's commands that win, empty where the file has none
    ``top``          the highest score; 0 where the game has no scored quest
    ``score, won, lost, executed``  after the last command; ``executed``: it was one that the world carried out
    ``text``         what the engine said last; ``commands`` the admissible commands, sorted
    ``state_key``    room description and inventory: the same place looks the same, whatever was said last
    ``facts``        what is true in the world, to recognise a state
    """

    def __init__(self, path: Path, policy: bool = False) -> None:
        textworld = module()
        infos = textworld.EnvInfos(
            admissible_commands=True, description=True, inventory=True, score=True, moves=True, won=True, lost=True,
            policy_commands=policy,
        )  # fmt: skip
        try:
            self._env = textworld.start(str(path), infos)
            self._env.seed(_DICE)
            game = self._env.reset()["game"]
        except Exception as error:
            raise DataError(f"textworld: cannot load the game {path}: {type(error).__name__}: {error}") from error
        self.walkthrough: tuple[str, ...] = tuple(map(str, game.metadata.get("walkthrough") or ()))
        rewards = [quest.reward for quest in game.quests if quest.win_events]
        self.top = sum(reward for reward in rewards if reward > 0)

    def reset(self) -> None:
        """From the beginning."""
        self.executed = False
        self._take(self._env.reset(), first=True)

    def send(self, command: str) -> None:
        """One command, which must be :func:`allowed`."""
        before = self._moves
        self._take(self._env.step(command)[0])
        self.executed = self._moves > before or command.lower() in _ANSWERED

    def _take(self, state: Any, first: bool = False) -> None:
        text = plain(state["feedback"])
        self.text = _introduction(text) if first else text
        self.commands: list[str] = [c for c in state["admissible_commands"] if allowed(c)]
        self.won, self.lost = bool(state["won"]), bool(state["lost"])
        self.score = int(state["score"] or 0)
        self._moves = int(state["moves"] or 0)
        self.state_key = f"{(state['description'] or '').strip()}\n{(state['inventory'] or '').strip()}"
        self.facts = frozenset(state["_facts"])
        self._policy: Any = state.get("policy_commands")

    @property
    def next_command(self) -> str | None:
        """The first command of TextWorld's winning policy from here; needs ``policy``."""
        return str(self._policy[0]) if self._policy else None

    def close(self) -> None:
        """Free the interpreter."""
        self._env.close()


def _introduction(text: str) -> str:
    """The text after TextWorld's banner of letters made of dollar signs."""
    lines = text.split("\n")
    last = max((k for k, line in enumerate(lines) if line.count("$") > 3 or line.count("_") > 7), default=-1)
    return "\n".join(lines[last + 1 :]).strip()
