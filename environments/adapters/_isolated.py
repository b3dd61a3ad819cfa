"""Libraries that draw from Python's process-wide generator, made to draw from one of their own.

TextArena and GEM call ``random.seed`` in reset and ``random.randint`` in play. In their modules, and in no others, the
name ``random`` is replaced by a stand-in that asks the generator of the episode being played in this thread; where none
is played, it is Python's own module. Resets, which may load helpers that do the same, also keep and put back the states
of the process-wide generators, one reset at a time.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import BuiltinMethodType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

_current: Final = threading.local()
_resets: Final = threading.RLock()
_owner: Final = random.random.__self__  # type: ignore[attr-defined] # what the module's functions are bound to


class _StandIn:
    """Looks like the module ``random``."""

    def __getattr__(self, name: str) -> Any:
        generator = getattr(_current, "generator", None)
        if generator is not None and hasattr(generator, name):
            return getattr(generator, name)
        return getattr(random, name)


_STAND_IN: Final = _StandIn()


def _function(name: str) -> Callable[..., Any]:
    def ask(*args: Any, **keywords: Any) -> Any:
        return getattr(_STAND_IN, name)(*args, **keywords)

    return ask


#: what random.random and random.choice are; asking any object for __self__ would wake what loads data when it is asked
_METHODS: Final = (BuiltinMethodType, MethodType)


def isolate(package: str) -> None:
    """Put the stand-in into all loaded modules of ``package``; called again after more were loaded."""
    for name, module in list(sys.modules.items()):
        if name == package or name.startswith(package + "."):
            for key, value in list(vars(module).items()) if isinstance(module, ModuleType) else ():
                if value is random:
                    setattr(module, key, _STAND_IN)
                elif isinstance(value, _METHODS) and value.__self__ is _owner:
                    setattr(module, key, _function(value.__name__))


@contextmanager
def drawing(generator: random.Random) -> Iterator[None]:
    """Within: the isolated modules draw from ``generator``, in this thread; the process-wide ones come back as were."""
    with _resets:
        python, numeric = random.getstate(), np.random.get_state()  # noqa: NPY002 - kept, not drawn from
        before = getattr(_current, "generator", None)
        _current.generator = generator
        try:
            yield
        finally:
            _current.generator = before
            random.setstate(python)
            np.random.set_state(numeric)  # noqa: NPY002


def call(generator: random.Random, function: Callable[..., Any], *args: Any) -> Any:
    """``function(*args)`` with the isolated modules drawing from ``generator``: the cheap form, for steps."""
    _current.generator = generator
    try:
        return function(*args)
    finally:
        _current.generator = None
