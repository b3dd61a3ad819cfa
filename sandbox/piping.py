"""Feeding a command's stdin and draining its output until it ends, a deadline passes, or it says too much."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from agentgym.sandbox.base import Limits
from agentgym.sandbox.output import Capture

_CHUNK = 2**17
#: seconds between questions whether the command has ended, where nothing else wakes us
_TICK = 0.05


class Ended(NamedTuple):
    """How a command ended: wall-clock seconds, and why we killed it (None: it ended by itself)."""

    seconds: float
    killed: str | None


class Pipes:
    """The pipes of one command: its ends ``stdin`` and ``output``, ours ``sink`` and ``source``. Each closed once."""

    def __init__(self) -> None:
        self.stdin, self.sink = os.pipe()
        self.source, self.output = os.pipe()
        os.set_blocking(self.sink, False)
        os.set_blocking(self.source, False)

    def close(self, *names: str) -> None:
        """Close the named ends, by default all."""
        for name in names or ("stdin", "output", "sink", "source"):
            fd = getattr(self, name)
            if fd >= 0:
                setattr(self, name, -1)
                os.close(fd)


@contextlib.contextmanager
def pipes() -> Iterator[Pipes]:
    """Pipes that are closed at the end."""
    made = Pipes()
    try:
        yield made
    finally:
        made.close()


def pump(
    ends: Pipes,
    stdin: bytes,
    capture: Capture,
    limits: Limits,
    kill: Callable[[], None],
    poll: Callable[[], int | None],
    wake: int = -1,
) -> Ended:
    """Feed and drain one command until it has ended or was killed; what comes later than that is not waited for.

    ``poll`` gives the exit code, or None while the command runs; ``wake`` is a descriptor that gets readable when it
    may have ended (-1: there is none).
    """
    begun = time.monotonic()
    deadline = begun + limits.timeout
    left = _feed(ends, memoryview(stdin))
    killed = None
    while killed is None:
        wait = min(deadline - time.monotonic(), _TICK)
        if wait <= 0:
            killed = "timeout"
            break
        ready = _ready(ends, wake, wait)
        if ends.sink in ready:
            left = _feed(ends, left)
        if ends.source in ready and not _drain(ends, capture):
            ends.close("source")
        if capture.total > limits.output_kill:
            killed = "output"
        elif ends.source not in ready and poll() is not None:
            break
    if killed:
        kill()
    while ends.source >= 0 and capture.total <= limits.output_kill and ends.source in _ready(ends, -1, 0):
        if not _drain(ends, capture):
            break
    ends.close("sink")
    return Ended(time.monotonic() - begun, killed)


def _ready(ends: Pipes, wake: int, wait: float) -> set[int]:
    poller = select.poll()
    for fd, events in ((ends.source, select.POLLIN), (wake, select.POLLIN), (ends.sink, select.POLLOUT)):
        if fd >= 0:
            poller.register(fd, events)
    return {fd for fd, _ in poller.poll(wait * 1000)}


def _drain(ends: Pipes, capture: Capture) -> bool:
    """Read what there is; False at the end of the output."""
    try:
        data = os.read(ends.source, _CHUNK)
    except BlockingIOError:
        return True
    capture.add(data)
    return bool(data)


def _feed(ends: Pipes, left: memoryview) -> memoryview:
    """Write what the pipe takes; the end is closed when all is written or nobody reads."""
    try:
        while left:
            left = left[os.write(ends.sink, left[:_CHUNK]) :]
    except BlockingIOError:
        return left
    except OSError:
        pass
    ends.close("sink")
    return left[:0]
