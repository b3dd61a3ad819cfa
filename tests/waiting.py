"""Waiting for what happens soon but not at once: no longer than it takes, and never for ever."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import psutil


def eventually(true: Callable[[], Any], seconds: float = 30.0) -> bool:
    """Whether ``true`` gives something true within ``seconds``; asked once more at their end."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.02)
    return bool(true())


def dead(process: psutil.Process) -> bool:
    """Whether it has ended, collected by its parent or not."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def gone(processes: Iterable[psutil.Process], seconds: float = 30.0) -> bool:
    """Whether all end within ``seconds``. A killed process ends soon after its kill, not with it."""
    left = list(processes)
    return eventually(lambda: all(dead(process) for process in left), seconds)
