"""``--engine ray``: the episodes of an evaluation as tasks of a Ray cluster.

Chunks of episodes go to the nodes, which run environments and sandboxes and ask the model: an endpoint, a copy in each
worker, or ``actors`` that hold it (vLLM where CUDA is, else torch). Episodes come back to this process, which writes
the one file. An episode hangs on its own seed alone, so where it was played changes nothing. A chunk whose worker or
node died is played again elsewhere; after ``retries`` of that its episodes are recorded as errors of the environment.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import agentgym
from agentgym.errors import AgentGymError, ConfigError, MissingDependency, PolicyFault
from agentgym.policy import BatchPolicy, Policy, PolicyRequest, SampledTurn
from agentgym.rollouts.config import RolloutConfig
from agentgym.rollouts.engine import RolloutEngine
from agentgym.seeding import derive_seed
from agentgym.types import Episode, Task, Termination

if TYPE_CHECKING:
    from agentgym.leaderboards.run import Job

INSTALL = "engine=ray needs Ray: pip install 'agentgym-turns[ray]'"
Pair = tuple[Task, int]


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker needs to play some episodes; picklable."""

    version: str
    environment: str
    env_options: Mapping[str, Any]
    model: str
    model_options: Mapping[str, Any]
    config: RolloutConfig
    attempts: int
    seed: int
    pairs: tuple[Pair, ...]


class RayPlayer:
    """Plays on a cluster: the one at ``address``, else of RAY_ADDRESS or of this machine, else a new local one.

    ``chunk``    episodes of one Ray task, played concurrently in its worker
    ``cpus, gpus``  resources of one Ray task (with actors: ``gpus`` are those of one actor)
    ``actors``   so many actors hold the model; 0: each worker loads or calls it itself
    ``retries``  times that a chunk is played again after its worker or node died
    ``stall``    seconds without any finished chunk after which the evaluation stops with an error
    """

    name = "ray"

    def __init__(
        self, model: str, model_options: Mapping[str, Any] | None = None, *, address: str | None = None,
        chunk: int = 16, cpus: float = 1.0, gpus: float = 0.0, actors: int = 0, retries: int = 3, stall: float = 3600.0,
    ) -> None:  # fmt: skip
        if chunk < 1 or actors < 0 or retries < 0 or not stall > 0:
            raise ConfigError("engine ray: chunk >= 1, actors >= 0, retries >= 0, stall > 0")
        self.model, self.model_options = model, dict(model_options or {})
        self.address, self.chunk, self.cpus, self.gpus = address, chunk, cpus, gpus
        self.actors, self.retries, self.stall = actors, retries, stall
        self._stopped = False

    def stop(self) -> None:
        """Hand out nothing more and cancel what is under way; it is not recorded, so a later start plays it."""
        self._stopped = True

    def play(self, job: Job, skip: set[tuple[str, int]], finished: Callable[[Episode], None]) -> None:
        """Play what is not in ``skip``; ``finished`` is called in this thread."""
        if job.augmenter is not None:
            raise ConfigError("engine=ray cannot add notes to prompts; use --no-notes or the local engine")
        ray = _ray()
        mine = not ray.is_initialized()
        if mine:
            ray.init(address=self.address, log_to_driver=False, logging_level="ERROR")
        try:
            self._play(ray, job, skip, finished)
        finally:
            if mine:
                ray.shutdown()

    def _play(self, ray: Any, job: Job, skip: set[tuple[str, int]], finished: Callable[[Episode], None]) -> None:
        actors = self._start_actors(ray)
        gpus = 0.0 if actors else self.gpus
        remote = ray.remote(num_cpus=self.cpus, num_gpus=gpus, max_retries=0)(play_chunk)
        room = max(2, int(2 * ray.cluster_resources().get("CPU", 1) / max(self.cpus, 0.01)))
        waiting = [(work, 0) for work in self._works(job, skip)][::-1]
        flying: dict[Any, tuple[Work, int]] = {}
        last = time.monotonic()
        handed = 0
        while (waiting or flying) and not self._stopped:
            while waiting and len(flying) < room:
                work, tries = waiting.pop()
                actor = actors[handed % len(actors)] if actors else None
                flying[remote.remote(work, actor)] = (work, tries)
                handed += 1
            done, _ = ray.wait(list(flying), num_returns=1, timeout=0.5)
            for reference in done:
                last = time.monotonic()
                work, tries = flying.pop(reference)
                episodes = self._result(ray, reference, work, tries)
                if episodes is None:
                    waiting.append((work, tries + 1))
                for episode in episodes or ():
                    finished(episode)
            if time.monotonic() - last > self.stall:
                raise AgentGymError(
                    f"engine ray: no chunk was finished within {self.stall:g} s; {len(flying)} are under way. Does the "
                    f"cluster have what one needs ({self.cpus:g} CPU, {gpus:g} GPU)? See 'ray status'"
                )
        for reference in flying:
            ray.cancel(reference, force=True)

    def _start_actors(self, ray: Any) -> list[Any]:
        kind = ray.remote(num_cpus=1, num_gpus=self.gpus, max_restarts=3, max_task_retries=3, max_concurrency=1000)(
            ModelActor
        )
        return [kind.remote(self.model, self.model_options) for _ in range(self.actors)]

    def _works(self, job: Job, skip: set[tuple[str, int]]) -> Iterator[Work]:
        pairs = [(task, i) for task in job.tasks for i in range(job.board.attempts) if (task.id, i) not in skip]
        for start in range(0, len(pairs), self.chunk):
            yield Work(
                agentgym.__version__, job.board.environment, job.board.env_options, self.model, self.model_options,
                replace(job.config(), concurrency=min(self.chunk, job.concurrency)), job.board.attempts, job.seed,
                tuple(pairs[start : start + self.chunk]),
            )  # fmt: skip

    def _result(self, ray: Any, reference: Any, work: Work, tries: int) -> list[Episode] | None:
        """The episodes of a chunk; None: its worker died, play it again."""
        try:
            found: list[Episode] = ray.get(reference)
            return found
        except ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, AgentGymError) else None
            raise cause or AgentGymError(f"engine ray: playing a chunk raised: {error}") from error
        except ray.exceptions.RayError as error:
            if tries < self.retries:
                return None
            why = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            return [_lost(work, task, index, tries + 1, why) for task, index in work.pairs]


def play_chunk(work: Work, actor: Any = None) -> list[Episode]:
    """Play the pairs of ``work``; runs in a Ray worker."""
    if work.version != agentgym.__version__:
        raise ConfigError(f"a Ray node has agentgym {agentgym.__version__}, the evaluation runs {work.version}")
    policy = _ActorPolicy(actor) if actor is not None else _policy(work.model, work.model_options)
    tasks = {task.id: task for task, _ in work.pairs}
    wanted = {(task.id, index) for task, index in work.pairs}
    skip = {(key, i) for key in tasks for i in range(work.attempts)} - wanted
    episodes: list[Episode] = []
    with RolloutEngine(work.environment, policy, work.config, dict(work.env_options)) as engine:
        engine.run_sync(tasks.values(), work.attempts, work.seed, episodes.append, collect=False, skip=skip)
    return episodes


class ModelActor:
    """Holds the model; answers the requests of many workers, in batches where the policy takes batches."""

    def __init__(self, model: str, options: Mapping[str, Any]) -> None:
        from agentgym.policies import load_policy

        self._policy = load_policy(model, **options)
        self._waiting: list[tuple[PolicyRequest, asyncio.Future[SampledTurn | Exception]]] = []
        self._worker: asyncio.Task[None] | None = None

    async def facts(self) -> tuple[str, bool]:
        """Name, and whether it wants the expert's action."""
        return self._policy.name, self._policy.needs_expert

    async def act(self, request: PolicyRequest) -> SampledTurn:
        """One answer."""
        if not isinstance(self._policy, BatchPolicy):
            return await self._policy.act(request)
        future: asyncio.Future[SampledTurn | Exception] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._serve(self._policy))
        answer = await future
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def release(self, session: str) -> None:
        """Forget a session."""
        self._policy.release(session)

    async def _serve(self, policy: BatchPolicy) -> None:
        while self._waiting:
            batch = self._waiting[: policy.max_batch]
            del self._waiting[: len(batch)]
            requests = [request for request, _ in batch]
            answers: Sequence[SampledTurn | Exception]
            try:
                answers = await asyncio.to_thread(policy.act_batch, requests)
            except Exception as error:
                answers = [error] * len(batch)
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)


class _ActorPolicy(Policy):
    """Asks a :class:`ModelActor` on another node."""

    def __init__(self, actor: Any) -> None:
        ray = _ray()
        self._actor = actor
        self.name, self.needs_expert = ray.get(actor.facts.remote(), timeout=600)

    async def act(self, request: PolicyRequest) -> SampledTurn:
        """The actor's answer; PolicyFault where it died or failed."""
        ray = _ray()
        try:
            turn: SampledTurn = await self._actor.act.remote(request)
            return turn
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, AgentGymError):
                raise error.cause from error
            raise PolicyFault(f"the model's actor raised {error}") from error
        except ray.exceptions.RayError as error:
            raise PolicyFault(f"the model's actor is gone: {type(error).__name__}: {error}") from error

    def release(self, session: str) -> None:
        """Passed on, without waiting."""
        self._actor.release.remote(session)


_loaded: dict[str, Policy] = {}


def _policy(model: str, options: Mapping[str, Any]) -> Policy:
    """The policy, loaded once in a worker process."""
    from agentgym.policies import load_policy

    key = json.dumps([model, dict(options)], sort_keys=True, default=str)
    if key not in _loaded:
        _loaded[key] = load_policy(model, **options)
    return _loaded[key]


def _lost(work: Work, task: Task, index: int, tries: int, why: str) -> Episode:
    """The record of an episode that no node lived to finish."""
    error = f"{task.env} task {task.name!r} episode {index}: its Ray worker or node died, {tries} times. Last: {why}"
    return Episode(task, index, derive_seed(work.seed, task.id, index), [], Termination.ENV_ERROR, error=error)


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingDependency(INSTALL) from error
    return ray
