"""The episodes that a server plays: each in a handle of its own, bounded in number, size and idle time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import Awaitable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from agentgym.environment import Environment
from agentgym.errors import AgentGymError, EnvironmentFault
from agentgym.rollouts.handles import EnvHandle, make_handle
from agentgym.types import Observation, Step, Task, TaskSet

#: task sets and idle handles that are kept
_SETS: Final = 32
_SPARE: Final = 16


@dataclass(frozen=True, slots=True)
class Limits:
    """What clients may take together.

    ``episodes`` open at once; ``idle``: seconds after which one that nobody steps is closed; ``turns`` of an episode;
    ``action``: characters of an action; ``body``: bytes of a request; ``seconds`` in which it must have come;
    ``tasks`` in one listing.
    """

    episodes: int = 256
    idle: float = 600.0
    turns: int = 10_000
    action: int = 100_000
    body: int = 1 << 20
    seconds: float = 30.0
    tasks: int = 100_000


class Refused(Exception):
    """A request that is not carried out: HTTP ``status`` and the reason."""

    def __init__(self, status: int, problem: str) -> None:
        super().__init__(problem)
        self.status = status


@dataclass(slots=True)
class Session:
    """One episode. ``turn``: steps taken; ``last``: the answer to the last one, for a client that asks again."""

    handle: EnvHandle
    used: float
    turn: int = 0
    over: bool = False
    busy: bool = False
    last: bytes = b""


@dataclass(slots=True)
class Episodes:
    """All episodes of one server. Lives on one event loop."""

    env: str
    options: Mapping[str, Any]
    limits: Limits
    lister: Environment
    sessions: dict[str, Session] = field(default_factory=dict)
    _spare: list[EnvHandle] = field(default_factory=list)
    _sets: dict[str, TaskSet] = field(default_factory=dict)

    def tasks(self, split: str, options: Mapping[str, Any]) -> TaskSet:
        """The tasks of a split. Refused: what the environment refuses."""
        key = json.dumps([split, options], sort_keys=True)
        if key not in self._sets:
            try:
                found = self.lister.tasks(split, **options)
            except (AgentGymError, TypeError) as error:
                raise Refused(422, str(error)) from error
            while len(self._sets) >= _SETS:
                del self._sets[next(iter(self._sets))]
            self._sets[key] = found
        return self._sets[key]

    async def open(self, split: str, options: Mapping[str, Any], task_id: str) -> dict[str, Any]:
        """Start a task; only tasks that the environment itself lists can be played."""
        await self.close_idle()
        if len(self.sessions) >= self.limits.episodes:
            raise Refused(429, f"{len(self.sessions)} episodes are open, at most {self.limits.episodes}; close some")
        task = next((task for task in self.tasks(split, options) if task.id == task_id), None)
        if task is None:
            raise Refused(404, f"split {split!r} with these options has no task {task_id!r:.40}")
        handle = self._spare.pop() if self._spare else make_handle(self.env, dict(self.options))
        session = Session(handle, time.monotonic(), busy=True)
        key = secrets.token_urlsafe(12)
        self.sessions[key] = session  # counted while it starts
        try:
            observation = await handle.reset(task)
        except AgentGymError as error:
            self._drop(key)
            raise Refused(500, str(error)) from error
        except BaseException:  # cancelled
            self._drop(key)
            raise
        session.busy = False
        return {"episode": key, "observation": plain(observation), "milestone_names": list(handle.milestone_names)}

    def find(self, key: str) -> Session:
        """The episode, not in use by another request."""
        session = self.sessions.get(key)
        if session is None:
            raise Refused(404, "there is no such episode: it was closed, or was idle for too long")
        if session.busy:
            raise Refused(409, "another request to this episode is being carried out")
        session.used = time.monotonic()
        return session

    async def step(self, key: str, action: Any, turn: Any) -> bytes:
        """One action; ``turn`` (optional) counts steps, so that one that was carried out can be asked for again."""
        session = self.find(key)
        if not isinstance(action, str):
            raise Refused(422, f"action must be text, got {type(action).__name__}")
        if len(action) > self.limits.action:
            raise Refused(413, f"an action of {len(action)} characters, at most {self.limits.action}")
        if turn is not None and turn != session.turn:
            if turn == session.turn - 1 and session.last:
                return session.last
            raise Refused(409, f"this is turn {session.turn}, the request is for turn {turn!r:.20}")
        if session.over:
            raise Refused(409, "the episode is over; start another")
        if session.turn >= self.limits.turns:
            raise Refused(409, f"the episode has had its {self.limits.turns} turns")
        step: Step = await self._call(key, session, session.handle.step(action))
        session.turn += 1
        session.over = step.terminated
        session.last = encoded(step)
        return session.last

    async def expert(self, key: str) -> dict[str, Any]:
        """The expert's action in the present state, or null."""
        session = self.find(key)
        return {"action": await self._call(key, session, session.handle.expert())}

    async def _call(self, key: str, session: Session, call: Awaitable[Any]) -> Any:
        """Await a call into the environment; one that fails ends the episode."""
        session.busy = True
        try:
            found = await call
        except EnvironmentFault as fault:
            self._drop(key)
            raise Refused(500, str(fault)) from fault
        except BaseException:  # cancelled
            self._drop(key)
            raise
        session.busy = False
        return found

    def close(self, key: str) -> None:
        """End an episode; its environment may play the next one."""
        self.find(key)
        self._drop(key)

    def _drop(self, key: str) -> None:
        handle = self.sessions.pop(key).handle
        if handle.broken or len(self._spare) >= _SPARE:
            handle.close()
        else:
            self._spare.append(handle)

    async def close_idle(self) -> None:
        """Close what nobody has used for too long."""
        oldest = time.monotonic() - self.limits.idle
        for key in [k for k, session in self.sessions.items() if session.used < oldest and not session.busy]:
            self._drop(key)

    async def watch(self) -> None:
        """Close idle episodes until cancelled."""
        while True:
            await asyncio.sleep(min(30.0, max(0.05, self.limits.idle / 4)))
            await self.close_idle()

    def end(self) -> None:
        """Close everything."""
        for session in self.sessions.values():
            session.handle.close()
        for handle in self._spare:
            handle.close()
        self.sessions.clear()
        self._spare.clear()
        with contextlib.suppress(Exception):
            self.lister.close()


def plain(observation: Observation) -> dict[str, Any]:
    """An observation as JSON-compatible data."""
    listed = observation.admissible
    return {
        "text": observation.text,
        "admissible": None if listed is None else list(listed),
        "state_key": observation.state_key,
    }


def encoded(step: Step) -> bytes:
    """A step as JSON."""
    data = {
        "observation": plain(step.observation), "reward": step.reward, "terminated": step.terminated,
        "success": step.success, "grounded": step.grounded, "milestones": step.milestones, "score": step.score,
        "info": dict(step.info) if step.info else None,
    }  # fmt: skip
    return json.dumps(data).encode("utf-8", "surrogatepass")


def task_row(task: Task) -> dict[str, Any]:
    """A task as a client sees it: without its data, which stays with the server."""
    row = asdict(task)
    del row["data"]
    return row
