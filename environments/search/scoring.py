"""Scores of an answer against the right answers: exact match, F1 of words, and containment.

Texts are normalised as in SQuAD (Rajpurkar et al. 2016) and HotpotQA: lower case, ASCII punctuation removed, the
articles a, an and the removed, runs of blanks made one. Of several right answers the best score counts. The answer
alone is scored, never a transcript: Search-R1 looks for the second ``<answer>`` of its transcript, because its prompt
shows one, and counts nothing where a prompt shows none.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable
from typing import Final

_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
#: answers that share no words with any other (HotpotQA's evaluation script)
_CLOSED: Final = frozenset({"yes", "no", "noanswer"})
METRICS: Final = ("em", "f1", "sub_em")


def normalise(text: str) -> str:
    """The text as it is compared. One that nothing is left of ("The A", "?") stays as lower-case words."""
    lower = text.lower()
    words = _ARTICLES.sub(" ", lower.translate(_PUNCTUATION)).split()
    return " ".join(words or lower.split())


def exact_match(answer: str, golds: Iterable[str]) -> float:
    """1.0 if the answer equals a right one after normalisation, else 0.0."""
    said = normalise(answer)
    return float(bool(said) and any(said == normalise(gold) for gold in golds))


def f1(answer: str, golds: Iterable[str]) -> float:
    """F1 of the words, in [0, 1]; yes, no and noanswer match as a whole or not at all."""
    said = normalise(answer)
    return max((_f1(said, normalise(gold)) for gold in golds), default=0.0)


def _f1(said: str, gold: str) -> float:
    if said != gold and (said in _CLOSED or gold in _CLOSED):
        return 0.0
    left, right = said.split(), gold.split()
    common = sum((Counter(left) & Counter(right)).values())
    return 2 * common / (len(left) + len(right)) if common else 0.0


def sub_em(answer: str, golds: Iterable[str]) -> float:
    """1.0 if a right answer occurs within the answer after normalisation (Search-R1's ``subem``), else 0.0."""
    said = normalise(answer)
    return float(any(gold and gold in said for gold in map(normalise, golds)))


def scores(answer: str, golds: Iterable[str]) -> dict[str, float]:
    """All of :data:`METRICS`."""
    known = list(golds)
    return {"em": exact_match(answer, known), "f1": f1(answer, known), "sub_em": sub_em(answer, known)}
