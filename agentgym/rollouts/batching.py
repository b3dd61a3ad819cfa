"""Gathers the requests of many episodes into the batches of a :class:`~agentgym.policy.BatchPolicy`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from agentgym.errors import ContextOverflow, PolicyFault
from agentgym.policy import BatchPolicy, Policy, PolicyRequest, SampledTurn
from agentgym.rollouts.config import RolloutStats
from agentgym.rollouts.threads import Outcome, ServiceThread

log = logging.getLogger(__name__)
_Waiting = tuple[PolicyRequest, "asyncio.Future[SampledTurn | Exception]"]

LINGER_SHARE = 0.1  # of the last batch's duration: how long a batch waits for environments still at work
MAX_LINGER = 0.05  # seconds


class Batcher(Policy):
    """Runs ``act_batch`` in one thread, one batch at a time.

    A batch starts when every live episode waits for the policy or ``max_batch`` requests are there. With inline
    environments that is all, so the batches are the same in every run. With workers (``linger``) a batch also
    starts when the stragglers do not come within a tenth of a batch's time. ``release`` is queued behind the batches
    in the same thread, so the policy is never called twice at once.
    """

    own_deadline = True  # one batch gets policy_timeout; waiting in line does not count

    def __init__(
        self, policy: BatchPolicy, thread: ServiceThread, live: Callable[[], int], linger: bool, timeout: float,
        stats: RolloutStats,
    ) -> None:  # fmt: skip
        self.name, self.needs_expert = policy.name, policy.needs_expert
        self._policy, self._thread, self._live, self._linger = policy, thread, live, linger
        self._timeout, self._stats = timeout, stats
        self._pending: list[_Waiting] = []
        self._running: asyncio.Task[None] | None = None
        self._stuck: asyncio.Future[Outcome] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._last_duration = 0.0
        self._releases: set[asyncio.Future[Outcome]] = set()

    async def act(self, request: PolicyRequest) -> SampledTurn:
        """Wait for the batch that answers ``request``."""
        future: asyncio.Future[SampledTurn | Exception] = asyncio.get_running_loop().create_future()
        self._pending.append((request, future))
        self.poke()
        try:
            answer = await future
        except asyncio.CancelledError:
            self._pending = [waiting for waiting in self._pending if waiting[1] is not future]
            # The policy may be at work on this session: it is released only when the batch is done.
            if self._running is not None:
                await asyncio.wait((self._running,))
            raise
        if isinstance(answer, Exception):
            raise answer
        return answer

    def release(self, session: str) -> None:
        """Queue the release behind the batches under way."""
        future = self._thread.submit(self._release, session)
        self._releases.add(future)
        future.add_done_callback(self._releases.discard)

    def _release(self, session: str) -> None:
        try:
            self._policy.release(session)
        except Exception:
            log.exception("policy %r failed to release session %s", self.name, session)

    async def drain(self) -> None:
        """Wait until all releases are done (briefly, where the policy is stuck in a batch)."""
        if self._releases:
            await asyncio.wait(set(self._releases), timeout=1.0 if self._is_stuck else self._timeout)

    @property
    def _is_stuck(self) -> bool:
        return self._stuck is not None and not self._stuck.done()

    def poke(self) -> None:
        """Look whether a batch can start: after each request, each batch, and each change of ``live``."""
        if self._running is not None or not self._pending:
            return
        waiting = len(self._pending)
        if waiting >= self._policy.max_batch or waiting >= self._live():
            self._launch()
        elif self._linger and self._timer is None:
            delay = min(MAX_LINGER, LINGER_SHARE * self._last_duration)
            self._timer = asyncio.get_running_loop().call_later(delay, self._launch)

    def _launch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._running is None and self._pending:
            batch = self._pending[: self._policy.max_batch]
            del self._pending[: len(batch)]
            self._running = asyncio.get_running_loop().create_task(self._run(batch))

    async def _run(self, batch: list[_Waiting]) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        answers = await self._answers([request for request, _ in batch])
        self._last_duration = loop.time() - begun
        self._stats.batches += 1
        self._stats.batched_requests += len(batch)
        self._running = None
        for (_, future), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)
        self.poke()

    async def _answers(self, requests: list[PolicyRequest]) -> list[SampledTurn | Exception]:
        if self._is_stuck:
            return self._all_fail(requests, f"is still stuck in a batch that passed its {self._timeout:g} s")
        call = self._thread.submit(self._policy.act_batch, requests)
        done, _ = await asyncio.wait((call,), timeout=self._timeout)
        if not done:
            self._stuck = call
            return self._all_fail(requests, f"gave no answer to {len(requests)} requests within {self._timeout:g} s")
        ok, value = call.result()
        if not ok:
            log.error("policy %r failed on a batch", self.name, exc_info=value)
            if isinstance(value, PolicyFault | ContextOverflow):
                return [value] * len(requests)
            return self._all_fail(requests, f"raised {type(value).__name__}: {value}")
        if not isinstance(value, list | tuple):
            return self._all_fail(requests, f"gave {type(value).__name__}, expected a list of answers")
        if len(value) != len(requests):
            return self._all_fail(requests, f"gave {len(value)} answers to {len(requests)} requests")
        return list(value)

    def _all_fail(self, requests: list[PolicyRequest], problem: str) -> list[SampledTurn | Exception]:
        return [PolicyFault(f"policy {self.name!r} {problem}") for _ in requests]
