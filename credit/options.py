"""Options of credit parts, checked against the annotations of their constructors before anything is made."""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping
from math import isfinite
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from agentgym.errors import ConfigError, nearest

_STRICT = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
_LAX = ConfigDict(allow_inf_nan=False, arbitrary_types_allowed=True)  # lists for tuples and sets


def checked(what: str, target: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` unchanged, for the constructor ``target``. ConfigError for unknown names, types, NaN, infinity."""
    if not isinstance(options, Mapping):
        raise ConfigError(f"{what}: options are {{name: value}}, got {options!r}")
    parameters = inspect.signature(target).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        for key in options:
            if key not in parameters:
                close = nearest(str(key), parameters)
                hint = f"Did you mean {close[0]!r}?" if close else f"It takes: {', '.join(parameters) or 'no options'}."
                raise ConfigError(f"{what} has no option {key!r}. {hint}")
    hints = _hints(target)
    for key, value in options.items():
        if not _finite(value):
            raise ConfigError(f"{what}: option {key} must be finite, got {value!r}")
        if key in hints:
            _check(f"{what}: option {key}", hints[key], value)
    return dict(options)


def _hints(target: Any) -> dict[str, Any]:
    """The constructor's annotations; none where they cannot be resolved (a user's own module may have none)."""
    try:
        return get_type_hints(target.__init__ if inspect.isclass(target) else target)
    except Exception:
        return {}


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, Mapping):
        return all(map(_finite, value.values()))
    return all(map(_finite, value)) if isinstance(value, list | tuple) else True


def _check(what: str, hint: Any, value: Any) -> None:
    if isinstance(value, str) and not _takes_text(hint):
        raise ConfigError(f"{what} must be {_shown(hint)}, got the text {value!r}")
    lax = isinstance(value, list)  # recipes have lists only
    try:
        TypeAdapter(hint, config=_LAX if lax else _STRICT).validate_python(value)
    except ValidationError as error:
        raise ConfigError(f"{what} must be {_shown(hint)}, got {value!r}{_meant(hint, value, error)}") from error
    except Exception:  # an annotation that cannot be checked
        return


def _meant(hint: Any, value: Any, error: ValidationError) -> str:
    """The nearest of the words that may stand there; for other values what pydantic says."""
    if get_origin(hint) is Literal and isinstance(value, str):
        close = nearest(value, [str(word) for word in get_args(hint)])
        return f". Did you mean {close[0]!r}?" if close else ""
    return f" ({error.errors()[0]['msg'].lower()})"


def _takes_text(hint: Any) -> bool:
    """Is a text meant by this annotation? A text is a sequence of letters too, but nobody means that."""
    if hint in (str, Any, object):
        return True
    if get_origin(hint) in (Union, types.UnionType):
        return any(map(_takes_text, get_args(hint)))
    return get_origin(hint) is Literal or hint is Literal or getattr(hint, "__name__", "") in ("Path", "PathLike")


def _shown(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_shown(part) for part in get_args(hint))
    if hint is type(None):
        return "null"
    plain = {int: "an integer", float: "a number", str: "a text", bool: "true or false"}
    return plain.get(hint, str(hint).replace("typing.", "").replace("collections.abc.", ""))
