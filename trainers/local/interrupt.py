"""Ctrl-C: the first asks for an orderly end, the second kills."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


class Interrupted(Exception):
    """An orderly end was asked for; raised where the run's state is consistent."""


class InterruptGuard:
    """While active, SIGINT sets a flag that :meth:`check` turns into :class:`Interrupted`; a second one is Python's.

    Outside the main thread, where no handler can be installed, it does nothing.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note
        self.asked = False
        self._before: Any = None
        self._active = False

    def __enter__(self) -> InterruptGuard:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
            self._active = True
        return self

    def __exit__(self, *exc: object) -> None:
        if self._active:
            signal.signal(signal.SIGINT, self._before)
            self._active = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.raise_signal(signal.SIGINT)
        self.asked = True
        self.note("stopping: the present step ends, then the state is saved (Ctrl-C again kills)")

    def check(self) -> None:
        """Raise Interrupted if an end was asked for."""
        if self.asked:
            raise Interrupted
