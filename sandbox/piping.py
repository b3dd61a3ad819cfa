"""Feeding a command's stdin and draining its output until it ends, a deadline passes, or it says too much."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable
from typing import IO, NamedTuple

from agentgym.sandbox.base import Limits
from agentgym.sandbox.output import Capture

_CHUNK = 2**16


class Ended(NamedTuple):
    """How a command ended: wall-clock seconds, and why we killed it (None: it ended by itself)."""

    seconds: float
    killed: str | None


def pump(
    source: int,
    sink: IO[bytes],
    stdin: bytes,
    capture: Capture,
    limits: Limits,
    kill: Callable[[], None],
    poll: Callable[[], int | None],
) -> Ended:
    """Run the pipes of one command. ``sink`` is closed when ``stdin`` is written.

    A command has ended when it has exited and its output is drained; what its orphans write later is not waited for.
    """
    begun = time.monotonic()
    deadline = begun + limits.timeout
    os.set_blocking(source, False)
    os.set_blocking(sink.fileno(), False)
    left = memoryview(stdin)
    left = _feed(sink, left)
    killed = None
    while True:
        wait = min(deadline - time.monotonic(), 0.05)
        if wait <= 0 and time.monotonic() >= deadline:
            killed = "timeout"
            break
        ready = _ready(source, sink, max(wait, 0))
        if not sink.closed and sink.fileno() in ready:
            left = _feed(sink, left)
        if source in ready:
            data = os.read(source, _CHUNK)
            if not data:
                break
            capture.add(data)
            if capture.total > limits.output_kill:
                killed = "output"
                break
        elif poll() is not None:
            break
    if killed:
        kill()
    elif not _wait(poll, deadline):
        killed = "timeout"
        kill()
    with contextlib.suppress(OSError):
        sink.close()
    return Ended(time.monotonic() - begun, killed)


def _ready(source: int, sink: IO[bytes], wait: float) -> set[int]:
    poller = select.poll()
    poller.register(source, select.POLLIN)
    if not sink.closed:
        poller.register(sink.fileno(), select.POLLOUT)
    return {fd for fd, _ in poller.poll(wait * 1000)}


def _feed(sink: IO[bytes], left: memoryview) -> memoryview:
    try:
        while left:
            left = left[os.write(sink.fileno(), left[:_CHUNK]) :]
    except BlockingIOError:
        return left
    except OSError:  # the command does not read
        left = left[:0]
    with contextlib.suppress(OSError):
        sink.close()
    return left


def _wait(poll: Callable[[], int | None], deadline: float) -> bool:
    """Whether the process ends before the deadline; it has closed its output already."""
    pause = 0.0005
    while poll() is None:
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    return True
