"""A thread that runs calls one after another and answers to any event loop."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

#: what a call gave: (True, value) or (False, exception)
Outcome = tuple[bool, Any]
_Job = tuple["Mailbox", "asyncio.Future[Outcome]", Callable[..., Any], tuple[Any, ...]]


class Mailbox:
    """Outcomes on their way to one event loop. The loop is woken once for all that arrive before it looks.

    ``call_soon_threadsafe`` alone writes to a socket for every call, and gives the interpreter away each time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._letters: deque[tuple[asyncio.Future[Outcome], Outcome]] = deque()
        self._called = False

    def post(self, future: asyncio.Future[Outcome], outcome: Outcome) -> None:
        """From any thread. A loop that has ended is left alone: nobody waits any more."""
        loop = self._loop()
        if loop is None or loop.is_closed():
            return
        self._letters.append((future, outcome))
        if not self._called:
            self._called = True
            with contextlib.suppress(RuntimeError):  # it has ended just now
                loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._called = False  # before looking: what comes later calls again
        while self._letters:
            future, outcome = self._letters.popleft()
            if not future.done():
                future.set_result(outcome)


#: weak on both sides: a letter that was never read names its loop, which would keep the loop for ever
_MAILBOXES: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[Mailbox]] = weakref.WeakKeyDictionary()


def mailbox() -> Mailbox:
    """That of the running loop; whoever uses it must keep it."""
    loop = asyncio.get_running_loop()
    known = _MAILBOXES.get(loop)
    box = known() if known is not None else None
    if box is None:
        box = Mailbox(loop)
        _MAILBOXES[loop] = weakref.ref(box)
    return box


class ServiceThread:
    """One daemon thread with a queue. Its calls never overlap, so what it owns needs no locks.

    A daemon, because a call that never returns must not keep the interpreter alive (it is abandoned instead).
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._box: Mailbox | None = None

    def submit(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Outcome]:
        """Queue a call; the future belongs to the running loop and never raises: it holds an Outcome."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._box = mailbox()  # kept here, or it would go with the job
        self._jobs.put((self._box, future, function, args))
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
            box, future, function, args = job
            outcome: Outcome
            try:
                outcome = (True, function(*args))
            except BaseException as error:  # SystemExit from an environment must not end the thread silently
                outcome = (False, error)
            box.post(future, outcome)
            del job, box, future, function, args, outcome
        if self._last is not None:
            self._last()
