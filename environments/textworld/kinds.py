"""The kinds of games that TextWorld's ``tw-make`` generates, their settings, and what each split adds to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from agentgym.environments import _games
from agentgym.errors import ConfigError, unknown

Check = Callable[[str, Any], Any]


def _whole(low: int, high: int) -> Check:
    return lambda name, value: _games.whole("textworld", name, value, low, high)


def _flag(name: str, value: Any) -> bool:
    return _games.yes_no("textworld", name, value)


def _one_of(*choices: Any) -> Check:
    def check(name: str, value: Any) -> Any:
        if value not in choices or isinstance(value, bool):
            listed = ", ".join(map(str, choices))
            raise ConfigError(f"environment 'textworld': {name} must be one of {listed}; got {value!r:.80}")
        return value

    return check


@dataclass(frozen=True, slots=True)
class Kind:
    """``challenge``: TextWorld's name, empty for custom games. ``settings``: name -> (default, check)."""

    challenge: str
    settings: Mapping[str, tuple[Any, Check]]


KINDS: Final[Mapping[str, Kind]] = {
    "coin_collector": Kind("tw-coin_collector", {"level": (5, _whole(1, 300))}),
    "treasure_hunter": Kind("tw-treasure_hunter", {"level": (5, _whole(1, 30))}),
    "simple": Kind(
        "tw-simple",
        {
            "rewards": ("balanced", _one_of("dense", "balanced", "sparse")),
            "goal": ("detailed", _one_of("detailed", "brief", "none")),
        },
    ),
    "cooking": Kind(
        "tw-cooking",
        {
            "recipe": (1, _whole(1, 5)),
            "take": (1, _whole(0, 5)),
            "go": (1, _one_of(1, 6, 9, 12)),
            "open": (False, _flag),
            "cook": (False, _flag),
            "cut": (False, _flag),
            "drop": (False, _flag),
        },
    ),
    "custom": Kind(
        "",
        {
            "world_size": (5, _whole(1, 50)),
            "nb_objects": (10, _whole(0, 100)),
            "quest_length": (5, _whole(1, 30)),
            "quest_breadth": (1, _whole(1, 5)),
        },
    ),
}


def settings_of(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a kind, checked. Raises UnknownNameError (kind or setting) or ConfigError (a wrong value)."""
    if kind not in KINDS:
        raise unknown("game of environment 'textworld'", str(kind), [*KINDS, "files"])
    known = KINDS[kind].settings
    _games.check_options("textworld", options, ["game", "n", "seed", *known])
    settings = {name: check(name, options.get(name, default)) for name, (default, check) in known.items()}
    level = settings.get("level", 0)
    if kind == "coin_collector" and ((level - 1) // 100 + 1) * ((level - 1) % 100 + 1) > 100:
        raise ConfigError(
            f"environment 'textworld': coin_collector level {level} has more than the 100 rooms that TextWorld can "
            "compile; take a level up to 100, from 101 to 150, or from 201 to 233"
        )
    if kind == "cooking" and settings["take"] > settings["recipe"]:
        raise ConfigError(
            f"environment 'textworld': take must not exceed recipe, got take={settings['take']} and "
            f"recipe={settings['recipe']}"
        )
    return settings


def library_settings(kind: str, settings: Mapping[str, Any], split: str) -> dict[str, Any]:
    """What TextWorld's maker is given: its own held-out foods for the splits, where a kind has them."""
    if kind == "cooking":
        return {**settings, "split": split, "recipe_seed": 0}
    if kind == "simple":
        return {**settings, "test": split == "test"}
    return dict(settings)
