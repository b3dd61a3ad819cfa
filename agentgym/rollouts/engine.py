"""The rollout engine: many episodes in flight, none waiting for another.

A fixed number of slots draw (task, index) pairs from one lazy stream; an episode that ends frees its slot at once.
What an episode does depends on its own seed only, so concurrency and worker kind change the time, never the episodes.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace
from typing import Any

from agentgym.environment import Environment
from agentgym.errors import AgentGymError
from agentgym.policy import BatchPolicy, Policy
from agentgym.rollouts.batching import Batcher
from agentgym.rollouts.config import RolloutConfig, RolloutStats
from agentgym.rollouts.episode import EpisodeLoop
from agentgym.rollouts.handles import EnvHandle
from agentgym.rollouts.pool import HandlePool
from agentgym.rollouts.threads import ServiceThread
from agentgym.types import Episode, Group, Task

OnEpisode = Callable[[Episode], None]
LAG_PERIOD = 0.25  # seconds between two looks at how late the event loop is


class RolloutEngine:
    """Runs episodes of one environment with one policy. Reusable; a context manager; owns its environment workers.

    ``env`` is a registry name, ``module:Class`` or a class. ``stats`` counts what happened over all runs.
    """

    def __init__(
        self,
        env: str | type[Environment] | Environment,
        policy: Policy,
        config: RolloutConfig | None = None,
        env_options: dict[str, Any] | None = None,
    ) -> None:
        self.policy = policy
        self.config = config or RolloutConfig()
        self.stats = RolloutStats()
        self.pool = HandlePool(env, env_options, self.config, self.stats)
        self._policy_thread = ServiceThread("agentgym-policy")
        self._stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots: list[asyncio.Task[None]] = []
        self._live = 0

    def __enter__(self) -> RolloutEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def stopped(self) -> bool:
        """True after :meth:`stop`; such an engine starts no more episodes."""
        return self._stopped

    def limit_turns(self, max_turns: int) -> None:
        """Change the turn limit of episodes that start from now on."""
        self.config = replace(self.config, limits=replace(self.config.limits, max_turns=max_turns))

    def stop(self) -> None:
        """Stop for good: episodes in flight end as ABORTED and are recorded. Safe from threads and signal handlers.

        A batch of a BatchPolicy that is under way is waited for.
        """
        self._stopped = True
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop may have closed meanwhile
                loop.call_soon_threadsafe(self._cancel_slots)

    def close(self) -> None:
        """End all environment workers; none is left behind. May be called twice."""
        self._stopped = True
        self.pool.close()
        self._policy_thread.shut_down()

    async def run(
        self,
        tasks: Iterable[Task],
        n: int = 1,
        seed: int = 0,
        on_episode: OnEpisode | None = None,
        collect: bool = True,
        skip: Container[tuple[str, int]] = (),
    ) -> list[Group]:
        """Play ``n`` episodes of every task; groups in task order, episodes by index.

        ``tasks`` may be a generator; it is drawn from as slots get free. ``on_episode`` is called with each finished
        episode, failed ones included, in order of finishing; what it raises ends the run. With ``collect`` False
        nothing is kept and the list is empty. After :meth:`stop` a group may hold fewer episodes than ``n``. ``skip``:
        (task id, index) pairs that are not played, because they are there already.
        Cancelling the call (Ctrl-C under ``asyncio.run``) records the episodes in flight as ABORTED first.
        """
        if n < 1:
            raise ValueError(f"run needs n >= 1 episodes a task, got {n}")
        if self._loop is not None:
            raise AgentGymError("this RolloutEngine is running already; use one engine per concurrent run")
        self._loop = asyncio.get_running_loop()
        state = _Run(self, tasks, n, seed, on_episode, collect, skip)
        try:
            await state.play()
        finally:
            self._loop = None
        return state.groups()

    def run_sync(
        self,
        tasks: Iterable[Task],
        n: int = 1,
        seed: int = 0,
        on_episode: OnEpisode | None = None,
        collect: bool = True,
        skip: Container[tuple[str, int]] = (),
    ) -> list[Group]:
        """:meth:`run`, blocking. Works inside a running event loop too (notebooks): it then uses a thread."""

        def call() -> list[Group]:
            groups: list[Group] = []

            async def whole() -> None:
                groups.extend(await self.run(tasks, n, seed, on_episode, collect, skip))

            # the task has no result of its own: asyncio.run asks signal.getsignal, which writes the task and its result
            # out as text (CPython 3.11), and that took as long as half the rollout
            asyncio.run(whole())
            return groups

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return call()
        return self._in_thread(call)

    def _in_thread(self, call: Callable[[], list[Group]]) -> list[Group]:
        outcome: list[Any] = []

        def body() -> None:
            try:
                outcome.extend((True, call()))
            except BaseException as error:
                outcome.extend((False, error))

        thread = threading.Thread(target=body, name="agentgym-rollout")
        thread.start()
        try:
            thread.join()
        except BaseException:  # Ctrl-C: record what is in flight, then pass it on
            self.stop()
            thread.join()
            raise
        if not outcome[0]:
            raise outcome[1]
        groups: list[Group] = outcome[1]
        return groups

    def _cancel_slots(self) -> None:
        for slot in self._slots:
            slot.cancel()


class _Run:
    """The state of one ``run`` call."""

    def __init__(
        self, engine: RolloutEngine, tasks: Iterable[Task], n: int, seed: int, on_episode: OnEpisode | None,
        collect: bool, skip: Container[tuple[str, int]] = (),
    ) -> None:  # fmt: skip
        self.engine, self.n, self.seed, self.on_episode, self.collect = engine, n, seed, on_episode, collect
        self._collected: list[tuple[Task, list[Episode | None]]] = []
        self._skip = skip
        self._jobs = self._stream(tasks, n)
        self._interrupted = False
        config = engine.config
        if isinstance(engine.policy, BatchPolicy):
            self.batcher: Batcher | None = Batcher(
                engine.policy, engine._policy_thread, lambda: engine._live, engine.pool.kind != "inline",
                config.limits.policy_timeout, engine.stats,
            )  # fmt: skip
        else:
            self.batcher = None
        self.policy: Policy = self.batcher or engine.policy

    def _stream(self, tasks: Iterable[Task], n: int) -> Iterator[tuple[Task, int, list[Episode | None]]]:
        for task in tasks:
            places: list[Episode | None] = [None] * n if self.collect else []
            if self.collect:
                self._collected.append((task, places))
            for index in range(n):
                if (task.id, index) not in self._skip:
                    yield task, index, places

    def groups(self) -> list[Group]:
        """What was collected; tasks without any episode (after a stop) are left out."""
        full = ((task, [e for e in places if e is not None]) for task, places in self._collected)
        return [Group(task, episodes) for task, episodes in full if episodes]

    async def play(self) -> None:
        engine = self.engine
        loop = asyncio.get_running_loop()
        engine._live = engine.pool.limit
        lag = loop.create_task(self._watch_lag())
        engine._slots = slots = [loop.create_task(self._slot()) for _ in range(engine._live)]
        try:
            done, _ = await asyncio.wait(slots, return_when=asyncio.FIRST_EXCEPTION)
            for slot in done:
                if not slot.cancelled():  # stop() cancels
                    slot.result()
        except asyncio.CancelledError:
            self._interrupted = True  # the slots record what they had
            raise
        finally:
            for task in (lag, *slots):
                task.cancel()
            await asyncio.wait((lag, *slots))
            for slot in slots:
                if not slot.cancelled():
                    slot.exception()  # one failure is raised; the others need not be logged by asyncio
            engine._slots = []
            if self.batcher is not None:
                await self.batcher.drain()

    async def _slot(self) -> None:
        """Play episode after episode until the stream is dry."""
        engine = self.engine
        handle: EnvHandle | None = None
        try:
            for task, index, places in self._jobs:
                if engine._stopped or self._interrupted:
                    break
                handle = engine.pool.take(handle)
                loop = EpisodeLoop(task, index, handle, self.policy, engine.config, self.seed, self.n)
                episode = await self._episode(loop)
                self._record(episode, places)
                await asyncio.sleep(0)  # a policy that never waits would shut out stop() and Ctrl-C
        finally:
            if handle is not None:
                engine.pool.give_back(handle)
            engine._live -= 1
            if self.batcher is not None:
                self.batcher.poke()  # those who wait may now be all

    async def _episode(self, loop: EpisodeLoop) -> Episode:
        try:
            return await loop.play()
        except asyncio.CancelledError:
            if self.engine._stopped or self._interrupted:
                return loop.abort("the run was stopped")
            raise

    def _record(self, episode: Episode, places: list[Episode | None]) -> None:
        stats = self.engine.stats
        stats.episodes += 1
        stats.turns += len(episode.turns)
        stats.sampled_tokens += sum(turn.sampled_tokens for turn in episode.turns)
        stats.terminations[episode.termination.value] += 1
        if places:
            places[episode.index] = episode
        if self.on_episode is not None:
            self.on_episode(episode)

    async def _watch_lag(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LAG_PERIOD
            await asyncio.sleep(LAG_PERIOD)
            self.engine.stats.loop_lag = max(self.engine.stats.loop_lag, loop.time() - due)
