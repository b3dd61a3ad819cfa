"""Lucene's English analysis, as Anserini's default uses it: text to index terms.

Standard tokenizer (word boundaries of Unicode's UAX #29, emoji kept as tokens, pieces of at most 255 characters),
possessives stripped, lower case, 33 stop words, Porter's stemmer. Every character becomes one letter that stands for
its class, and one regular expression over those letters cuts the text; no part is tried twice, so time is linear.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from agentgym.environments.webshop.porter import stem

_STOP_WORDS_TEXT: Final = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they "
    "this to was will with"
)
STOP_WORDS: Final = frozenset(_STOP_WORDS_TEXT.split())
#: Lucene cuts longer tokens into pieces of this length
MAX_TOKEN: Final = 255

# A letter, N digit, K katakana, I ideograph or hiragana, S south-east Asian, E mark that attaches, U underscore,
# M between letters, B and Q between letters or digits, C between digits, P picture, Z joiner, G regional, X other
_MARKS: Final = {
    "M": ":\u00b7\u05f4\u2027\ufe13\ufe55\uff1a",
    "B": ".\u2018\u2019\u2024\ufe52\uff07\uff0e",
    "Q": "'",
    "C": ",;\u037e\u0589\u060c\u060d\u066c\u07f8\u2044\ufe10\ufe14\ufe50\ufe54\uff0c\uff1b",
    "Z": "\u200d",
    "E": "\uff9e\uff9f",
}
_PICTURES: Final = (
    "a9 ae 203c 2049 2122 2139 2194-2199 21a9-21aa 231a-231b 2328 2388 23cf 23e9-23f3 23f8-23fa 24c2 25aa-25ab 25b6 "
    "25c0 25fb-25fe 2600-2605 2607-2612 2614-2685 2690-2705 2708-2712 2714 2716 271d 2721 2728 2733-2734 2744 2747 "
    "274c 274e 2753-2755 2757 2763-2767 2795-2797 27a1 27b0 27bf 2934-2935 2b05-2b07 2b1b-2b1c 2b50 2b55 3030 303d "
    "3297 3299 1f000-1f0ff 1f10d-1f10f 1f12f 1f16c-1f171 1f17e-1f17f 1f18e 1f191-1f19a 1f1ad-1f1e5 1f201-1f20f 1f21a "
    "1f22f 1f232-1f23a 1f23c-1f23f 1f249-1f3fa 1f400-1f53d 1f546-1f64f 1f680-1f6ff 1f774-1f77f 1f7d5-1f7ff "
    "1f80c-1f80f 1f848-1f84f 1f85a-1f85f 1f888-1f88f 1f8ae-1f8ff 1f90c-1f93a 1f93c-1f945 1f947-1fffd"
)
_SCRIPTS: Final = {"KATAKANA": "K", "HALFWIDTH KATAKANA": "K", "CJK": "I", "HIRAGANA": "I", "IDEOGRAPHIC": "I"}
_SOUTH_EAST: Final = ("THAI ", "LAO ", "MYANMAR ", "KHMER ", "NEW TAI ", "TAI ")


def _ranges(text: str) -> list[tuple[int, int]]:
    pairs = (part.partition("-") for part in text.split())
    return [(int(low, 16), int(high or low, 16)) for low, _, high in pairs]


_PICTURE_RANGES: Final = _ranges(_PICTURES)


def _letter_class(char: str) -> str:
    name = unicodedata.name(char, "")
    if name.startswith(_SOUTH_EAST):
        return "S"
    return next((code for script, code in _SCRIPTS.items() if name.startswith(script)), "A")


def _class_of(char: str) -> str:
    code = ord(char)
    for letter, members in _MARKS.items():
        if char in members:
            return letter
    if 0x1F1E6 <= code <= 0x1F1FF:
        return "G"
    if 0x1F3FB <= code <= 0x1F3FF:
        return "E"
    if any(low <= code <= high for low, high in _PICTURE_RANGES):
        return "P"
    category = unicodedata.category(char)
    if category[0] == "L" or category == "Nl":
        return _letter_class(char)
    if category == "Nd":
        return "N"
    if category == "Pc":
        return "U"
    return "E" if category in ("Mn", "Mc", "Me", "Cf") and code != 0x200B else "X"


class _Classes(dict[int, str]):
    """The table of ``str.translate``, filled as characters are met."""

    def __missing__(self, code: int) -> str:
        found = self[code] = _class_of(chr(code))
        return found


_CLASSES: Final = _Classes()
_ATTACHED: Final = "[EZ]*+"
_LETTERS: Final = f"A{_ATTACHED}(?:(?:[MBQ]{_ATTACHED})?A{_ATTACHED})*+"
_DIGITS: Final = f"N{_ATTACHED}(?:(?:[CBQ]{_ATTACHED})?N{_ATTACHED})*+"
_UNIT: Final = f"(?:(?:{_LETTERS}|{_DIGITS})++|(?:K{_ATTACHED})++)"
_JOINT: Final = f"(?:U{_ATTACHED})"
_TOKEN: Final = re.compile(
    f"{_JOINT}*+{_UNIT}(?:{_JOINT}++{_UNIT})*+{_JOINT}*+|I{_ATTACHED}|(?:S{_ATTACHED})++|PE*+(?:ZPE*+)*+|GE*+GE*+"
    f"|(?P<skipped>{_JOINT}++)"  # underscores without a word: taken whole, or each would be a new start
)


def tokens(text: str) -> list[str]:
    """The words of a text in order, as the standard tokenizer cuts it."""
    found: list[str] = []
    for match in _TOKEN.finditer(text.translate(_CLASSES)):
        start, end = match.span()
        if match["skipped"]:
            continue
        if end - start <= MAX_TOKEN:
            found.append(text[start:end])
        else:
            found.extend(text[k : min(k + MAX_TOKEN, end)] for k in range(start, end, MAX_TOKEN))
    return found


class Analyzer:
    """Text to terms; remembers the term of every word of the indexed documents (not of queries: they never end)."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def terms(self, text: str, remember: bool = False) -> list[str]:
        """The index terms of a text, in order, repeated as they occur."""
        known, found = self._known, []
        for token in tokens(text):
            if token in known:
                term = known[token]
            else:
                term = _term(token)
                if remember:
                    known[token] = term
            if term is not None:
                found.append(term)
        return found


def _term(token: str) -> str | None:
    if len(token) >= 2 and token[-1] in "sS" and token[-2] in "'\u2019\uff07":
        token = token[:-2]
    word = token.lower()
    return None if word in STOP_WORDS else stem(word)
