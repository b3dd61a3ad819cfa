"""Milestones by a judge: subgoals that it writes once a task, and its word on when each was reached (MiRA)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Literal

from agentgym.credit.milestone_sources import Progress, accumulate
from agentgym.credit.protocols import Services, TextGenerator
from agentgym.credit.subgoal_judge import Subgoal, SubgoalWriter, ask, check_prompt, read_steps
from agentgym.errors import ConfigError
from agentgym.judge import JudgeError
from agentgym.types import Episode, Group, Turn

_log = logging.getLogger(__name__)


class Judged:
    """A source of :class:`Progress` (see :mod:`agentgym.credit.milestone_sources`); needs the service ``judge``.

    ``check="episode"``  one question an episode, over its whole transcript: at which step was each reached [ours]
    ``check="turn"``     MiRA's binary ``z_k(t)``: one question a turn, over the transcript up to it
    ``limit``            most characters of one observation that the judge is shown

    An episode without a usable answer has no milestones; it is counted and logged, and so is a whole group of them.
    """

    label, requires = "judge", frozenset({"judge"})

    def __init__(self, count: int = 4, check: Literal["episode", "turn"] = "episode", limit: int = 2000) -> None:
        if not 1 <= count <= 12 or limit < 100 or check not in ("episode", "turn"):
            raise ConfigError(
                f"milestones: subgoals 1 to 12, clip >= 100, check episode or turn; got {count}, {limit}, {check!r}"
            )
        self.check, self.limit = check, limit
        self.counts: dict[str, float] = {}
        self.writer = SubgoalWriter(count, limit)

    async def read(self, groups: list[Group], svc: Services) -> list[list[Progress]]:
        """``[group][episode]``; all questions of a batch at once, the same transcript asked about once."""
        before = self.writer.failed
        questions = _Questions(svc.offered["judge"], self.limit)
        out = list(await asyncio.gather(*(self._group(group, questions) for group in groups)))
        failed = [
            [not progress.names for progress, episode in zip(found, group, strict=True) if episode.turns]
            for found, group in zip(out, groups, strict=True)
        ]
        self.counts = {
            "judge_failed_tasks": float(self.writer.failed - before),
            "judge_failed_episodes": float(sum(map(sum, failed))),
            "judge_failed_groups": float(sum(bool(flags) and all(flags) for flags in failed)),
        }
        return out

    async def _group(self, group: Group, questions: _Questions) -> list[Progress]:
        start = next((episode.turns[0].observation for episode in group if episode.turns), None)
        goals = () if start is None else await self.writer.write(group.task, start, questions.judge)
        return list(await asyncio.gather(*(self._episode(episode, goals, questions) for episode in group)))

    async def _episode(self, episode: Episode, goals: tuple[Subgoal, ...], questions: _Questions) -> Progress:
        turns, names = episode.turns, tuple(goal.name for goal in goals)
        nothing = Progress((), [()] * len(turns))
        if not goals or not turns:
            return nothing
        cuts = range(1, len(turns) + 1) if self.check == "turn" else [len(turns)]
        answers = await asyncio.gather(*(questions.steps(goals, turns[:cut]) for cut in cuts))
        for answer in answers:
            if isinstance(answer, JudgeError):
                _log.warning("%s has no milestones: %s", episode.where, answer)
                return nothing
        said = [answer for answer in answers if not isinstance(answer, JudgeError)]
        if self.check == "turn":
            met = [[name for name, step in zip(names, steps, strict=True) if step] for steps in said]
        else:
            met = [
                [name for name, step in zip(names, said[0], strict=True) if step == t + 1] for t in range(len(turns))
            ]
        return accumulate(names, met)


class _Questions:
    """One batch's questions: episodes that began alike are asked about once."""

    def __init__(self, judge: TextGenerator, limit: int) -> None:
        self.judge, self.limit = judge, limit
        self._asked: dict[str, asyncio.Task[list[int | None] | JudgeError]] = {}

    async def steps(self, goals: Sequence[Subgoal], turns: Sequence[Turn]) -> list[int | None] | JudgeError:
        """For each subgoal the step that reached it first, or None."""
        prompt = check_prompt(goals, turns, self.limit)
        if prompt not in self._asked:
            self._asked[prompt] = asyncio.ensure_future(self._ask(prompt, len(goals), len(turns)))
        return await self._asked[prompt]

    async def _ask(self, prompt: str, goals: int, steps: int) -> list[int | None] | JudgeError:
        try:
            return await ask(self.judge, prompt, lambda answer: read_steps(answer, goals, steps))
        except JudgeError as error:
            return error
