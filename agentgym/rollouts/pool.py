"""The environment workers of an engine: made when needed, reused, replaced when broken, closed without leftovers."""

from __future__ import annotations

import os
import time
import weakref
from typing import Any

from agentgym.environment import Environment
from agentgym.errors import AgentGymError
from agentgym.rollouts.config import RolloutConfig, RolloutStats
from agentgym.rollouts.handles import EnvHandle, InlineHandle, make_handle

CLOSE_TIMEOUT = 3.0  # seconds that all workers together get to close their environments


class HandlePool:
    """Handles of one environment, one episode at a time each.

    ``kind``: ``inline``, ``thread`` or ``process``; ``limit``: most handles at once, hence most episodes in flight.
    An environment *instance* is used as it is, for one episode at a time, and stays open.
    """

    def __init__(
        self,
        env: str | type[Environment] | Environment,
        env_options: dict[str, Any] | None,
        config: RolloutConfig,
        stats: RolloutStats,
    ) -> None:
        self._env, self._options, self._limits, self._stats = env, env_options, config.limits, stats
        self._idle: list[EnvHandle] = [self._make()]  # made now, so that a wrong name or option is refused at once
        self._all: dict[int, EnvHandle] = {id(handle): handle for handle in self._idle}
        self.kind = self._idle[0].kind
        self.spec = self._idle[0].spec
        self.limit = self._slots(config)
        self.closed = False
        self._finalizer = weakref.finalize(self, _close_all, self._all, os.getpid())

    def _make(self) -> EnvHandle:
        env = self._env
        self._stats.workers_started += 1
        if isinstance(env, Environment):
            if self._options:
                raise AgentGymError("env_options need an environment name or class, not an instance")
            return InlineHandle(env.spec, lambda: env, keep_open=True)
        return make_handle(env, self._options, self._limits)

    def _slots(self, config: RolloutConfig) -> int:
        if isinstance(self._env, Environment):
            return 1
        if self.kind == "inline":
            return config.concurrency
        default = config.concurrency if self.kind == "thread" else 4 * (os.cpu_count() or 1)
        return min(config.concurrency, config.workers or default)

    def take(self, held: EnvHandle | None = None) -> EnvHandle:
        """The handle that is ``held``, unless it broke (then it is replaced); else an idle one, or a new one."""
        if held is not None:
            if not held.broken:
                return held
            self._drop(held)
            self._stats.workers_replaced += 1
        if self.closed:
            raise AgentGymError("this rollout engine is closed")
        if self._idle:
            return self._idle.pop()
        handle = self._make()
        self._all[id(handle)] = handle
        return handle

    def give_back(self, handle: EnvHandle) -> None:
        """The slot is done with ``handle``."""
        if handle.broken or self.closed:
            self._drop(handle)
        else:
            self._idle.append(handle)

    def _drop(self, handle: EnvHandle) -> None:
        if handle.kind == "thread" and handle.fate in ("deadline", "cancelled"):
            self._stats.threads_abandoned += 1
        self._all.pop(id(handle), None)
        handle.close()

    def close(self) -> None:
        """End all workers: first asked, then killed."""
        self.closed = True
        self._idle.clear()
        self._finalizer()


def _close_all(handles: dict[int, EnvHandle], owner: int) -> None:
    if os.getpid() != owner:  # a forked child must not end its parent's workers
        return
    for handle in handles.values():
        handle.ask_to_close()
    deadline = time.monotonic() + CLOSE_TIMEOUT
    for handle in handles.values():
        handle.close(max(0.01, deadline - time.monotonic()))
    handles.clear()
