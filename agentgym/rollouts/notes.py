"""What an augmenter adds to the prompts of one episode, and the record of it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence

from agentgym.augment import PromptContext, PromptPatch
from agentgym.errors import PolicyFault
from agentgym.prompts import NOTE_KEY
from agentgym.rollouts.config import RolloutConfig
from agentgym.types import Observation, Task, Turn

#: key in ``Turn.info`` and ``Episode.info`` of where notes came from
SOURCE_KEY = "note_source"
SOURCES_KEY = "prompt_sources"


class Notes:
    """Asks the augmenter once a turn. ``sources``: those of all patches so far, each once, in order."""

    def __init__(self, config: RolloutConfig, task: Task, slot: int, slots: int) -> None:
        self._config, self._task, self._slot, self._slots = config, task, slot, slots
        self._sticky: list[str] = []
        self._last: PromptPatch | None = None
        self.sources: list[str] = []

    async def ask(self, turns: Sequence[Turn], observation: Observation, milestone_names: tuple[str, ...]) -> str:
        """The note for the turn to come; empty: none. Raises PolicyFault where the augmenter fails or is late."""
        augmenter = self._config.augmenter
        if augmenter is None:
            return ""
        context = PromptContext(
            self._task, self._slot, self._slots, tuple(turns), observation, milestone_names, self._config.mode
        )
        timeout = self._config.limits.policy_timeout
        try:
            patch = augmenter.augment(context)
            if inspect.isawaitable(patch):
                patch = await asyncio.wait_for(patch, timeout)
        except TimeoutError as error:
            raise PolicyFault(f"the augmenter gave nothing within {timeout:g} s") from error
        except Exception as error:
            raise PolicyFault(f"the augmenter raised {type(error).__name__}: {error}") from error
        if patch is not None and not isinstance(patch, PromptPatch):
            raise PolicyFault(f"the augmenter gave {type(patch).__name__}, expected PromptPatch or None")
        self._last = patch
        window = self._config.layout.layout == "window"
        kept = list(self._sticky) if window else []
        if patch is not None:
            self.sources += [patch.source] if patch.source not in self.sources else []
            kept.append(patch.text)
            if patch.sticky:
                self._sticky.append(patch.text)
        return "\n".join(kept)

    def record(self, turn: Turn, note: str) -> None:
        """Write the note into the turn that it was made for; later prompts of a chat repeat it from there."""
        if note:
            turn.info[NOTE_KEY] = note
        if self._last is not None:
            turn.info[SOURCE_KEY] = self._last.source
