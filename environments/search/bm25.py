"""BM25 over a corpus, exact, in NumPy.

Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009, with Lucene's inverse document frequency::

    score(q, d) = sum over t in q:  n_t * ln(1 + (N - df + 0.5) / (df + 0.5)) * tf / (tf + k1 * (1 - b + b * l / L))

``n_t``: how often term t is in the query; ``l``: the passage's length in terms, ``L`` the mean of all. Terms are runs
of at least two letters or digits in lower case without accents, less 33 English stop words, stemmed by Porter's
algorithm; title and text count alike. Equal scores keep the order of the corpus.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agentgym.environments.search.corpus import Corpus, Passage
from agentgym.environments.webshop.porter import stem

K1: Final = 1.5
B: Final = 0.75
#: Lucene's English stop words
_STOP_WORDS: Final = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with"
)
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())
_TERM: Final = re.compile(r"[^\W_]{2,}")
#: stems remembered across corpora; cleared when there are more
_MOST_STEMS: Final = 500_000
_STEMS: Final[dict[str, str]] = dict.fromkeys(STOP_WORDS, "")


def _folded(text: str) -> str:
    """Lower case, without accents."""
    lower = text.lower()
    if lower.isascii():
        return lower
    return "".join(c for c in unicodedata.normalize("NFKD", lower) if not unicodedata.combining(c))


def _stem(word: str) -> str:
    found = _STEMS.get(word)
    if found is None:
        if len(_STEMS) > _MOST_STEMS:
            _STEMS.clear()
            _STEMS.update(dict.fromkeys(STOP_WORDS, ""))
        found = _STEMS[word] = stem(word) if len(word) <= 64 else word[:64]
    return found


def terms(text: str) -> list[str]:
    """The terms of a text in order, repeats included."""
    return [found for word in _TERM.findall(_folded(text)) if (found := _stem(word))]


class Index:
    """An inverted index of a corpus. Immutable; safe in threads."""

    def __init__(self, corpus: Corpus, k1: float = K1, b: float = B) -> None:
        self.corpus = corpus
        self._rows: dict[str, int] = {}
        codes: list[int] = []
        lengths = np.zeros(len(corpus), dtype=np.int64)
        rows = self._rows
        for number, (title, text) in enumerate(corpus):
            found = terms(f"{title} {text}")
            lengths[number] = len(found)
            codes.extend([rows.setdefault(term, len(rows)) for term in found])
        size = len(corpus)
        owners = np.repeat(np.arange(size, dtype=np.int64), lengths)
        keys, counts = np.unique(np.array(codes, dtype=np.int64) * size + owners, return_counts=True)
        row, docs = np.divmod(keys, size)
        df = np.bincount(row, minlength=len(rows))
        self._offsets = np.concatenate([[0], np.cumsum(df)])
        self._docs = docs.astype(np.int32)
        norm = k1 * (1 - b + b * lengths / (float(lengths.mean()) or 1.0))
        idf = np.log(1 + (size - df + 0.5) / (df + 0.5))
        self._weights: NDArray[np.float64] = idf[row] * counts / (counts + norm[docs])

    def scores(self, query: str) -> NDArray[np.float32]:
        """float32 score of every passage; 0 where no term matches."""
        counted = [(row, n) for term, n in Counter(terms(query)).items() if (row := self._rows.get(term)) is not None]
        if not counted:
            return np.zeros(len(self.corpus), dtype=np.float32)
        parts = [slice(self._offsets[row], self._offsets[row + 1]) for row, _ in counted]
        docs = np.concatenate([self._docs[part] for part in parts])
        weights = np.concatenate([n * self._weights[part] for part, (_, n) in zip(parts, counted, strict=True)])
        return np.bincount(docs, weights, minlength=len(self.corpus)).astype(np.float32)

    def rank(self, query: str, k: int) -> list[tuple[int, float]]:
        """The up to ``k`` best passages that share a term with the query: (position, score), best first."""
        found = self.scores(query)
        return best(found, np.flatnonzero(found > 0), k)

    def search(self, query: str, k: int) -> list[Passage]:
        """The same as passages."""
        return [self.corpus.passage(number, score) for number, score in self.rank(query, k)]


def best(scores: NDArray[np.float32], among: NDArray[np.int64], k: int) -> list[tuple[int, float]]:
    """The ``k`` highest of ``scores`` at the (ascending) positions ``among``; equal ones by position."""
    if len(among) > k:
        least = np.partition(scores[among], len(among) - k)[len(among) - k]
        among = among[scores[among] >= least]
    order = among[np.argsort(-scores[among], kind="stable")][:k]
    return list(zip(order.tolist(), scores[order].tolist(), strict=True))


class Indices:
    """Indices of corpora, by content hash, shared by all episodes of the process."""

    def __init__(self, most: int = 32) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._made: dict[str, Index] = {}

    def get(self, corpus: Corpus) -> Index:
        """The corpus's index; made at most once while it is remembered."""
        with self._lock:
            found = self._made.pop(corpus.hash, None) or Index(corpus)
            self._made[corpus.hash] = found
            while len(self._made) > self._most:
                self._made.pop(next(iter(self._made)))
            return found


INDICES: Final = Indices()
