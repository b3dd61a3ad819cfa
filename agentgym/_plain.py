"""Plain values out of what environments answer: numbers of NumPy and torch become Python's, wrong types are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any


def finite(name: str, value: Any) -> float:
    """``value`` as a float; a number of any library is one, text and NaN are not."""
    if isinstance(value, str | bytes):
        raise TypeError(f"{name} must be a number, got {value!r:.80}")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name} must be a number, got {repr(value)[:80]}") from error
    if not isfinite(number):
        raise ValueError(f"{name} must be finite, got {value!r:.80}")
    return number


def yes_or_no(name: str, value: Any) -> bool:
    """``value`` as a bool: 0 and 1 of any library are one, text and None are not."""
    if isinstance(value, bool | int | float) or hasattr(value, "item"):
        try:
            if value in (0, 1):
                return bool(value)
        except (TypeError, ValueError, RuntimeError):  # an array of several
            pass
    raise TypeError(f"{name} must be True or False, got {repr(value)[:80]}")


def names(name: str, value: Any) -> tuple[str, ...]:
    """``value``, a list or tuple of texts, as a tuple. A set has no order that two processes share."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(part, str) for part in value):
        raise TypeError(f"{name} must be a tuple of names, got {repr(value)[:80]}")
    return tuple(value)


def check_observation(observation: Any) -> None:
    """Refuse wrong types; the elements of ``admissible`` are looked at when it is used."""
    key, listed = observation.state_key, observation.admissible
    if not isinstance(key, str):
        raise TypeError(f"Observation.state_key must be str, got {type(key).__name__}")
    if listed is not None and (isinstance(listed, str | bytes) or not isinstance(listed, Sequence)):
        raise TypeError(f"Observation.admissible must be a list of actions or None, got {type(listed).__name__}")


def settle(step: Any, observation: type) -> None:
    """Make the fields of a Step plain; ``observation``: the class that its observation must have."""
    if not isinstance(step.observation, observation):
        raise TypeError(f"Step.observation must be an Observation, got {type(step.observation).__name__}")
    step.reward = finite("Step.reward", step.reward)
    for name in ("terminated", "success", "grounded"):
        setattr(step, name, yes_or_no(f"Step.{name}", getattr(step, name)))
    if step.milestones.__class__ is not tuple:
        step.milestones = names("Step.milestones", step.milestones)
    if step.score is not None:
        step.score = finite("Step.score", step.score)
    if step.info is not None and not isinstance(step.info, Mapping):
        raise TypeError(f"Step.info must be a mapping or None, got {type(step.info).__name__}")
