"""Prompt layouts: how the turns so far become the conversation a policy sees.

``chat``    append-only conversation: system, observation, response, observation, ... Every token is encoded once.
``window``  one user message rebuilt each turn: task, the last k (observation, action) pairs, the present observation.
            The layout of verl-agent and RetroAgent; the prompt stays short, each turn is a training row of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from agentgym.parsing import ActionFormat
from agentgym.policy import Message
from agentgym.types import Turn

LayoutName = Literal["chat", "window"]


#: key in ``Turn.info`` of what was added to the turn's prompt
NOTE_KEY = "note"


def _noted(text: str, note: str) -> str:
    return f"{text}\n{note}" if note else text


def _check_rewrite(pattern: str, replacement: str) -> None:
    try:
        compiled = re.compile(pattern)
        compiled.sub(replacement, "")
        re.compile(f"{pattern}|").sub(replacement, "")  # an empty match, so that group references are looked at
    except (re.error, IndexError) as error:
        raise ValueError(f"prompt rewrite {pattern!r} -> {replacement!r}: {error}") from error


@lru_cache(maxsize=4096)
def _rewritten(rules: tuple[tuple[str, str], ...], text: str) -> str:
    for pattern, replacement in rules:
        text = re.sub(pattern, replacement, text)
    return text


@dataclass(frozen=True, slots=True)
class PromptLayout:
    """How prompts are built.

    ``layout``           ``chat`` or ``window``
    ``system``           system message; ``{action_help}`` and ``{format}`` are filled in; empty: none
    ``history``          window only: how many earlier (observation, action) pairs are shown
    ``show_admissible``  list the admissible actions (the largest single factor in comparisons; reported with results)
    ``show_task``        window only: repeat the first observation (it holds the task) at the top
    ``max_observation``  observations are cut to this many characters, with a mark; 0: never
    ``rewrite``          (regular expression, replacement) pairs applied in order to every observation shown. Terse
                         prompts for small models; the recorded observations stay the environment's own
    """

    layout: LayoutName = "chat"
    system: str = ""
    history: int = 2
    show_admissible: bool = False
    show_task: bool = True
    max_observation: int = 20_000
    rewrite: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for pattern, replacement in self.rewrite:
            _check_rewrite(pattern, replacement)
        if self.layout not in ("chat", "window"):
            raise ValueError(f"prompt layout must be chat or window, got {self.layout!r}")
        if self.history < 0:
            raise ValueError(f"prompt history must be >= 0, got {self.history}")

    def messages(
        self,
        turns: Sequence[Turn],
        observation: str,
        admissible: Sequence[str] | None,
        action_format: ActionFormat,
        action_help: str = "",
        note: str = "",
        tools: bool = False,
    ) -> list[Message]:
        """The conversation for the next response: ``turns`` are complete, ``observation`` is the present one.

        ``note``: what an augmenter adds below the present observation (:mod:`agentgym.augment`). A chat shows the
        notes of earlier turns where they were given; a window shows the present one only. ``tools``: in a chat, what
        follows a tool call is its answer, a message of role ``tool``.
        """
        out: list[Message] = []
        if self.system:
            text = self.system.replace("{action_help}", action_help).replace("{format}", action_format.describe())
            out.append({"role": "system", "content": text})
        if self.layout == "chat":
            role = "user"
            for turn in turns:
                shown = self._with_actions(turn.observation, turn.admissible)
                out.append({"role": role, "content": _noted(shown, turn.info.get(NOTE_KEY, ""))})
                out.append({"role": "assistant", "content": turn.response})
                role = "tool" if tools and turn.valid else "user"
            out.append({"role": role, "content": _noted(self._with_actions(observation, admissible), note)})
        else:
            out.append({"role": "user", "content": _noted(self._window(turns, observation, admissible), note)})
        return out

    def _with_actions(self, observation: str, admissible: Sequence[str] | None) -> str:
        text = self.shown(observation)
        if self.show_admissible and admissible is not None:
            text += "\nAdmissible actions: " + ", ".join(admissible)
        return text

    def shown(self, observation: str) -> str:
        """An observation as prompts show it, rewritten and cut, without its admissible actions."""
        text = _rewritten(self.rewrite, observation) if self.rewrite else observation
        limit = self.max_observation
        if not limit or len(text) <= limit:
            return text
        return f"{text[:limit]} [cut: {len(text) - limit} more characters]"

    def _window(self, turns: Sequence[Turn], observation: str, admissible: Sequence[str] | None) -> str:
        parts: list[str] = []
        if self.show_task and turns:
            parts.append(self.shown(turns[0].observation))
        for turn in turns[-self.history :] if self.history else ():
            shown = turn.action if turn.action is not None else ""
            prefix = "" if self.show_task and turn.index == 0 else self.shown(turn.observation) + "\n"
            parts.append(f"{prefix}> {shown}")
        parts.append(self._with_actions(observation, admissible))
        return "\n".join(parts)
