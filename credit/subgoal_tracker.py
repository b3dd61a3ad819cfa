"""The judge's word on subgoals while episodes are played: written before the first turn, checked before later ones."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from agentgym.augment import PromptContext
from agentgym.credit.protocols import TextGenerator
from agentgym.credit.subgoal_judge import Subgoal, SubgoalWriter, ask, check_prompt, read_steps
from agentgym.errors import AgentGymError, ConfigError
from agentgym.types import Turn

_log = logging.getLogger(__name__)
_HISTORIES = 50_000  # whose answers are kept: far more than the turns of all episodes in flight
_LOGGED = 20  # failures that are logged; all are counted


class SubgoalTracker:
    """Which subgoals an episode has reached (MiRA's ``z``), by a judge that is asked as the episode is played.

    ``count``     subgoals of a task; ``clip``: most characters of one observation that the judge is shown
    ``every``     the judge is asked before every so many turns; in between, its last word holds
    ``deadline``  seconds that a turn waits for the judge

    A subgoal that was reached stays reached. Who asks the same at the same time waits for one call, and a call goes on
    after a turn that gave up on it, so that the next turn finds its answer. What is known hangs on the history alone
    (actions and observations), never on which episode came first. ``failures``: turns without a usable answer.
    """

    def __init__(self, count: int = 4, clip: int = 2000, every: int = 1, deadline: float = 60.0) -> None:
        if not 1 <= count <= 12 or clip < 100 or every < 1 or not deadline > 0:
            raise ConfigError(
                "subgoal_hint: count 1 to 12, clip >= 100, check_every >= 1, deadline > 0 seconds; "
                f"got {count}, {clip}, {every}, {deadline}"
            )
        self.every, self.clip, self.deadline = every, clip, deadline
        self.writer = SubgoalWriter(count, clip)
        self.failures = 0
        self._reached: dict[str, frozenset[int]] = {}  # history -> subgoals
        self._calls: dict[str, asyncio.Task[Any]] = {}

    async def progress(
        self, context: PromptContext, judge: TextGenerator
    ) -> tuple[Sequence[Subgoal], frozenset[int]] | None:
        """The task's subgoals and the indices of those reached; None where the judge gave no usable answer in time."""
        try:
            async with asyncio.timeout(self.deadline):
                return await self._progress(context, judge)
        except (AgentGymError, TimeoutError, OSError) as error:
            self.failures += 1
            if self.failures <= _LOGGED:
                task, last = context.task, "; later failures are only counted" if self.failures == _LOGGED else ""
                what = f"the judge gave nothing within {self.deadline:g} s" if not str(error) else error
                _log.warning("%s task %r turn %d has no hint: %s%s", task.env, task.name, context.turn, what, last)
            return None

    async def _progress(
        self, context: PromptContext, judge: TextGenerator
    ) -> tuple[Sequence[Subgoal], frozenset[int]] | None:
        due = context.turn % self.every == 0
        goals = self.writer.known.get(context.task.id)
        if goals is None:
            if not due:
                return None
            start = context.turns[0].observation if context.turns else context.observation.text
            goals = await self._once(context.task.id, self.writer.written(context.task, start, judge))
        histories = _histories(context, goals)
        known = next((self._reached[key] for key in reversed(histories) if key in self._reached), frozenset[int]())
        if due and context.turns and histories[-1] not in self._reached and len(known) < len(goals):
            known = await self._once(histories[-1], self._check(histories[-1], goals, known, context.turns, judge))
        return goals, known

    async def _check(
        self, history: str, goals: Sequence[Subgoal], known: frozenset[int], turns: Sequence[Turn], judge: TextGenerator
    ) -> frozenset[int]:
        """Ask about those that are open."""
        still = [at for at in range(len(goals)) if at not in known]
        prompt = check_prompt([goals[at] for at in still], turns, self.clip)
        steps = await ask(judge, prompt, lambda answer: read_steps(answer, len(still), len(turns)))
        found = known | {at for at, step in zip(still, steps, strict=True) if step is not None}
        while len(self._reached) >= _HISTORIES:
            del self._reached[next(iter(self._reached))]
        self._reached[history] = found
        return found

    async def _once(self, key: str, work: Coroutine[Any, Any, Any]) -> Any:
        """``work``'s result, or that of the same call where one is under way in this event loop."""
        loop = asyncio.get_running_loop()
        call = self._calls.get(key)
        if call is not None and call.get_loop() is loop and not call.done():
            work.close()
        else:
            call = self._calls[key] = loop.create_task(work)
            call.add_done_callback(lambda done: self._over(key, done))
        return await asyncio.shield(call)

    def _over(self, key: str, call: asyncio.Task[Any]) -> None:
        if self._calls.get(key) is call:
            del self._calls[key]
        if not call.cancelled():
            call.exception()  # those who still wait are told; asyncio need not log it


def _histories(context: PromptContext, goals: Sequence[Subgoal]) -> list[str]:
    """A key for the beginning and for what has happened up to each turn."""
    digest = hashlib.blake2b(repr([context.task.id, *(goal.name for goal in goals)]).encode(), digest_size=16)
    out = [digest.hexdigest()]
    for turn in context.turns:
        digest.update(repr((turn.action, turn.next_observation)).encode())
        out.append(digest.hexdigest())
    return out
