"""A thread that runs calls one after another and answers to any event loop."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any

#: what a call gave: (True, value) or (False, exception)
Outcome = tuple[bool, Any]
_Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Outcome]", Callable[..., Any], tuple[Any, ...]]


class ServiceThread:
    """One daemon thread with a queue. Its calls never overlap, so what it owns needs no locks.

    A daemon, because a call that never returns must not keep the interpreter alive (it is abandoned instead).
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Outcome]:
        """Queue a call; the future belongs to the running loop and never raises: it holds an Outcome."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()
        self._jobs.put((loop, future, function, args))
        return future

    def shut_down(self, last: Callable[[], Any] | None = None, timeout: float = 0.0) -> bool:
        """Run ``last`` after all queued calls, then end. True if the thread ended within ``timeout`` seconds."""
        if self._thread is None:
            if last is not None:
                last()
            return True
        self._last = last
        self._jobs.put(None)
        if timeout and self._thread is not threading.current_thread():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    _last: Callable[[], Any] | None = None

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            loop, future, function, args = job
            outcome: Outcome
            try:
                outcome = (True, function(*args))
            except BaseException as error:  # SystemExit from an environment must not end the thread silently
                outcome = (False, error)
            with contextlib.suppress(RuntimeError):  # the loop has ended; nobody waits any more
                loop.call_soon_threadsafe(_deliver, future, outcome)
            del job, loop, future, function, args, outcome
        if self._last is not None:
            self._last()


def _deliver(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)
