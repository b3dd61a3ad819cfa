"""Invented names. Every word belongs to one split by its hash, so that no name of one split occurs in another."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

from agentgym.types import content_hash

#: split -> the last hexadecimal digits of the hashes of its words
SPLITS: Final[Mapping[str, str]] = {"train": "0123456789ab", "valid": "cd", "test": "ef"}

_STARTS: Final = (
    "b br bl ch d dr dw f fl g gh gl gr gw h hr j k kh kl kv l m mr n p pr pl q r rh s sk skr sl sn st sv t th thr tr "
    "ts v vl vr w wr z zh zv"
)
_MIDDLES: Final = "a a a e e e i i i o o o u u u y ae ai au ei ie oa"
_ENDS: Final = "b ck d dd f ft g k l lk lm ln lt m mb n nd ng nk nt p q r rd rg rk rn rth s sk sp st t th v x z"
_ONSETS, _VOWELS, _CODAS = _STARTS.split(), _MIDDLES.split(), _ENDS.split()
#: what is made of a word, by kind of entity
WORK_FORMS: Final = (
    "The Lantern of {}", "A Winter in {}", "The {} Letters", "Songs for {}", "The Weight of {}", "{} by Night",
    "The Keepers of {}", "Beyond {}", "The {} Variations", "An Oath to {}", "The Glass Gates of {}", "{} in Ashes",
)  # fmt: skip
EVENT_FORMS: Final = (
    "{} Siege", "{} Regatta", "{} Flood", "{} Congress", "{} Uprising", "{} Eclipse Fair", "{} Truce", "{} Expedition",
)  # fmt: skip
GUILD_FORMS: Final = (
    "{} Guild", "{} Academy", "{} Trading House", "{} Observatory", "{} Order", "{} Theatre Company", "{} Foundry",
)  # fmt: skip
PLACE_ENDINGS: Final = ("mouth", "holt", "wick", "stead", "garth", "by", "fell", "haven", "mere", "ford")
REGION_ENDINGS: Final = ("land", "mark", "shire", "vale", "reach", "wold")


class Words:
    """Draws words of one split, none twice."""

    def __init__(self, split: str, rng: random.Random) -> None:
        self._digits = SPLITS[split]
        self._rng = rng
        self._used: set[str] = set()

    def word(self, ending: str = "") -> str:
        """A new word of two syllables (three without an ending, sometimes), capitalised."""
        choice, rng = self._rng.choice, self._rng
        while True:
            count = 2 if ending or rng.random() < 0.6 else 3
            made = "".join(choice(_ONSETS) + choice(_VOWELS) for _ in range(count - 1))
            made += choice(_ONSETS) + choice(_VOWELS) + choice(_CODAS) if not ending else choice(_CODAS) + ending
            if made not in self._used and belongs(made, self._digits):
                self._used.add(made)
                return made.capitalize()


def belongs(word: str, digits: str) -> bool:
    """The word's hash ends in one of ``digits``."""
    return content_hash(word.lower())[-1] in digits


def split_of(word: str) -> str:
    """The split whose worlds may use a word."""
    return next(split for split, digits in SPLITS.items() if belongs(word, digits))
