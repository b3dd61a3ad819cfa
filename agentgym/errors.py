"""Errors that say what is wrong, where, what was expected and seen, and what to do next.

Every error a user can cause derives from :class:`AgentGymError`; the command line prints those
without a traceback. Anything else that escapes is a bug of ours and keeps its traceback.
"""

from __future__ import annotations

import difflib
import os
import traceback
from collections.abc import Iterable

_OURS = os.path.dirname(__file__)


class AgentGymError(Exception):
    """Base of all errors that a user's input or surroundings can cause."""


class ConfigError(AgentGymError):
    """A recipe, an override or an option is wrong: unknown key, wrong type, impossible combination."""


class DataError(AgentGymError):
    """Data on disk is missing, damaged or of the wrong version."""


class UnknownNameError(AgentGymError):
    """A registry, split, environment or option does not know this name."""


class EnvironmentFault(AgentGymError):
    """An environment, or the worker that runs it, failed. Ends one episode as ``env_error``.

    ``exit_code`` and ``log_tail`` are set where a worker process died.
    """

    def __init__(self, message: str, *, exit_code: int | None = None, log_tail: str = "") -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.log_tail = log_tail


class PolicyFault(AgentGymError):
    """The policy could not answer: endpoint down after retries, generation failed."""


class ContextOverflow(AgentGymError):
    """Prompt plus requested tokens exceed the model window. Ends one episode as ``context_limit``."""


class MissingDependency(AgentGymError):
    """An optional package is needed; the message holds the exact install line."""


def failed_code(what: str, error: BaseException) -> AgentGymError:
    """The error for a user's own module, constructor or ``tasks`` that raised: what, why, and on which line of it."""
    place = ""
    if isinstance(error, SyntaxError):
        place = f" ({error.filename}:{error.lineno})"
    elif frames := [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_OURS)]:
        place = f" ({frames[-1].filename}:{frames[-1].lineno})"
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return AgentGymError(f"{what} raised {type(error).__name__}: {text}{place}. --debug shows the whole traceback.")


def nearest(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The up to ``limit`` known names closest to ``name``, best first; hyphens, underscores and case do not count."""

    def fold(text: str) -> str:
        return text.lower().replace("-", "_")

    by_fold: dict[str, str] = {}
    for candidate in known:
        by_fold.setdefault(fold(candidate), candidate)
    hits = difflib.get_close_matches(fold(name), list(by_fold), n=limit, cutoff=0.5)
    return [by_fold[hit] for hit in hits]


def unknown(kind: str, name: str, known: Iterable[str], hint: str = "") -> UnknownNameError:
    """An :class:`UnknownNameError` naming the nearest matches, or all names when they are few."""
    names = sorted(known)
    close = nearest(name, names)
    message = f"unknown {kind} {name!r}."
    if close:
        message += f" Did you mean {' or '.join(repr(c) for c in close)}?"
    elif 0 < len(names) <= 12:
        message += f" Known: {', '.join(names)}."
    if hint:
        message += f" {hint}"
    return UnknownNameError(message)
