"""Porter's stemmer as Lucene runs it: the algorithm of 1980 with the author's own three departures.

M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980; the departures of his later reference
implementation: words of one or two letters stay, ``-abli`` became ``-bli``, and ``-logi`` goes to ``-log``. Equal on
all terms of Lucene's recorded index (tests), and to NLTK's ``PorterStemmer(MARTIN_EXTENSIONS)``; Snowball's "porter"
lacks the departures.
"""

from __future__ import annotations

from typing import Final

_VOWELS: Final = "aeiou"
#: suffix -> replacement, tried longest first; the first that fits ends the step
_STEP2: Final = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble",
    "logi": "log",
}  # fmt: skip
_STEP3: Final = {"icate": "ic", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP3["ative"] = ""  # codespell:ignore ative
_ENDINGS: Final = "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize"  # codespell:ignore
_STEP4: Final = _ENDINGS.split()


def _longest_first(suffixes: list[str] | dict[str, str]) -> tuple[str, ...]:
    return tuple(sorted(suffixes, key=len, reverse=True))


_ORDER2: Final = _longest_first(_STEP2)
_ORDER3: Final = _longest_first(_STEP3)
_ORDER4: Final = _longest_first(_STEP4)


def _form(word: str) -> str:
    """``v`` and ``c`` for every letter: y is a consonant at the start and after a vowel."""
    form = ""
    for letter in word:
        if letter in _VOWELS:
            form += "v"
        elif letter == "y":
            form += "v" if form.endswith("c") else "c"
        else:
            form += "c"
    return form


def _measure(stem: str) -> int:
    """m of the paper: how often a vowel is followed by a consonant."""
    return _form(stem).count("vc")


def _double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _form(word)[-1] == "c"


def _cvc(word: str) -> bool:
    """Ends consonant, vowel, consonant, the last not w, x or y: then a silent e belongs to it."""
    return len(word) > 2 and _form(word)[-3:] == "cvc" and word[-1] not in "wxy"


def _plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith("ies"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix):
            stem = word[: -len(suffix)]
            return _mended(stem) if "v" in _form(stem) else word
    return word


def _mended(stem: str) -> str:
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if _double(stem):
        return stem if stem[-1] in "lsz" else stem[:-1]
    return stem + "e" if _measure(stem) == 1 and _cvc(stem) else stem


def _replaced(word: str, order: tuple[str, ...], table: dict[str, str]) -> str:
    for suffix in order:
        if word.endswith(suffix):
            stem = word[: -len(suffix)]
            return stem + table[suffix] if _measure(stem) > 0 else word
    return word


def _stripped(word: str) -> str:
    for suffix in _ORDER4:
        if word.endswith(suffix):
            stem = word[: -len(suffix)]
            if suffix == "ion" and not stem.endswith(("s", "t")):
                continue
            return stem if _measure(stem) > 1 else word
    return word


def stem(word: str) -> str:
    """The stem of a lower-case word. Signs that are no letters count as consonants, as in Lucene."""
    if len(word) <= 2:
        return word
    word = _past(_plural(word))
    if word.endswith("y") and "v" in _form(word[:-1]):
        word = word[:-1] + "i"
    word = _stripped(_replaced(_replaced(word, _ORDER2, _STEP2), _ORDER3, _STEP3))
    if word.endswith("e"):
        short = word[:-1]
        measure = _measure(short)
        if measure > 1 or (measure == 1 and not _cvc(short)):
            word = short
    if word.endswith("ll") and _measure(word) > 1:
        word = word[:-1]
    return word
