"""Demonstrations on the student's own paths: the model being trained plays some turns, the expert the others.

This is DAgger's idea (Ross, Gordon, Bagnell 2011, arXiv 1011.0686) within single episodes: states come from a mixture
of both, only the expert's turns are imitated, so the model learns what to do after its own mistakes. Demonstrations of
the expert alone never show those, and a small model then repeats a refused action for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from agentgym.errors import PolicyFault
from agentgym.policy import BatchPolicy, PolicyRequest, SampledTurn
from agentgym.seeding import python_rng
from agentgym.trainers.local.demos import STUDENT_KEY, DemonstrationPolicy


class GuidedPolicy(BatchPolicy):
    """``student`` answers a turn with probability ``share`` (its turns are marked), ``teacher`` the rest.

    Both must use one renderer. Where the expert has no advice the student answers. Batches must not run on an event
    loop (the rollout engine's never do).
    """

    needs_expert = True

    def __init__(self, student: Any, teacher: DemonstrationPolicy, share: float) -> None:
        self.student, self.teacher, self.share = student, teacher, share
        self.name, self.max_batch = f"{student.name} guided by {teacher.base.name}", student.max_batch

    def act_batch(self, requests: Sequence[PolicyRequest]) -> list[SampledTurn | Exception]:
        """Answers in order; one call of the student for all of its turns."""
        own: list[int] = []
        rest: list[int] = []
        for index, request in enumerate(requests):
            (own if self._student_plays(request) else rest).append(index)
        answers: dict[int, SampledTurn | Exception] = {}
        for index, answer in zip(own, self.student.act_batch([requests[i] for i in own]) if own else (), strict=True):
            if isinstance(answer, SampledTurn):
                answer.info[STUDENT_KEY] = True
            answers[index] = answer
        answers.update(zip(rest, asyncio.run(self._teach([requests[i] for i in rest])) if rest else (), strict=True))
        return [answers[index] for index in range(len(requests))]

    def _student_plays(self, request: PolicyRequest) -> bool:
        return request.expert is None or python_rng("guided", request.seed).random() < self.share

    async def _teach(self, requests: Sequence[PolicyRequest]) -> list[SampledTurn | Exception]:
        results = await asyncio.gather(*map(self.teacher.act, requests), return_exceptions=True)
        return [
            result
            if isinstance(result, SampledTurn | Exception)
            else PolicyFault(f"the teacher was cut off: {result!r}")
            for result in results
        ]

    def release(self, session: str) -> None:
        """Free the session in the student, whose renderer the teacher shares."""
        self.student.release(session)
