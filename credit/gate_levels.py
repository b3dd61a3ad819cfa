"""Tiers of a gate, and their levels: one number per episode by which a tier is open or closed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from agentgym.credit.components import turn_rewards
from agentgym.errors import ConfigError, nearest, unknown
from agentgym.types import Episode, Termination

Level = Callable[[Episode], float]
#: what a mapping may name: how an episode ended, whether it succeeded, and all the rest
WORDS = (*(t.value for t in Termination if not t.is_failure), "success", "default")


@dataclass(frozen=True, slots=True)
class Tier:
    """``components`` count where every tier above is open; this one is open where ``level(episode) > threshold``."""

    name: str
    level: Level | None
    threshold: float
    components: tuple[str, ...]


def swe(episode: Episode) -> float:
    """G-RA's four ordered levels of a software task (values are ours; the paper's are not public).

    ``-1``   nothing submitted: the episode ended neither by ``env_done`` nor by ``agent_stop``
    ``-0.5`` an empty patch submitted: ``info["patch"]`` of the last turn, or of the episode, is blank
    ``0``    a patch that does not pass, or one whose text is not recorded
    ``1``    success
    """
    if episode.success:
        return 1.0
    if episode.termination not in (Termination.ENV_DONE, Termination.AGENT_STOP):
        return -1.0
    patch = (episode.turns[-1].info if episode.turns else {}).get("patch", episode.info.get("patch"))
    return -0.5 if isinstance(patch, str) and not patch.strip() else 0.0


def make_level(spec: str | Mapping[str, float]) -> tuple[Level, float | None]:
    """The level function and its usual threshold (None: it has none).

    ``outcome`` (0), ``success`` (0), ``swe`` (-0.5), ``component:NAME`` (its sum over the episode), or a mapping from
    how an episode ended (and ``success``, which goes first) to a number, with ``default`` for the rest.
    """
    if isinstance(spec, Mapping):
        return _by_ending(spec), None
    if spec == "outcome":
        return lambda episode: episode.outcome, 0.0
    if spec == "success":
        return lambda episode: float(episode.success), 0.0
    if spec == "swe":
        return swe, -0.5
    if spec.startswith("component:") and (name := spec.removeprefix("component:")):
        # rounded, so that a sum that meets the threshold is not above it by float noise (3 * 0.05 > 0.15)
        return lambda episode: round(float(turn_rewards(episode, [name]).sum()), 9), None
    raise unknown("level of a gate", spec, ("outcome", "success", "swe", "component:NAME"))


def _by_ending(spec: Mapping[str, float]) -> Level:
    for word, value in spec.items():
        if word not in WORDS:
            raise unknown("word in a gate's levels", str(word), WORDS)
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise ConfigError(f"gate: level of {word!r} must be a finite number, got {value!r}")
    missing = [word for word in WORDS[:-2] if word not in spec]
    if missing and "default" not in spec:
        raise ConfigError(f"gate: levels say nothing about {', '.join(missing)}; add them, or a 'default'")
    levels = dict(spec)

    def level(episode: Episode) -> float:
        if episode.success and "success" in levels:
            return float(levels["success"])
        return float(levels.get(episode.termination.value, levels.get("default", 0.0)))

    return level


def make_tier(number: int, spec: Mapping[str, Any], last: bool) -> Tier:
    """A tier of a recipe; only the ``last`` needs no level. Raises ConfigError or UnknownNameError."""
    where = f"gated: tier {number}"
    _refuse_unknown(where, spec, ("name", "level", "threshold", "components"))
    name, given = str(spec.get("name", number)), spec.get("components", ())
    if isinstance(given, str):
        raise ConfigError(f"{where} ({name}): components is a list of names, got {given!r}")
    if spec.get("level") is None:
        if not last:
            raise ConfigError(f"{where} ({name}) needs a level: only the last tier gates nothing")
        return Tier(name, None, 0.0, tuple(given))
    level, usual = make_level(spec["level"])
    threshold = usual if spec.get("threshold") is None else spec["threshold"]
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not isfinite(threshold):
        raise ConfigError(f"{where} ({name}): level {spec['level']!r} needs a finite threshold, got {threshold!r}")
    return Tier(name, level, float(threshold), tuple(given))


def _refuse_unknown(where: str, given: Mapping[str, object], known: tuple[str, ...]) -> None:
    for key in given:
        if key not in known:
            close = nearest(str(key), known)
            hint = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(known)}"
            raise ConfigError(f"{where} has no key {key!r}; {hint}")
