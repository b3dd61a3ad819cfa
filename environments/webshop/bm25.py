"""BM25 with Lucene's formula and Lucene's rounding, so that result lists are Lucene's own.

Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009, as ``BM25Similarity`` of Lucene 8 computes it::

    score(q, d) = sum over t in q:  n_t * ln(1 + (N - df + 0.5) / (df + 0.5)) * tf / (tf + k1 * (1 - b + b * l / L))

``n_t``: how often t is in the query; ``l``: the document's length in terms, after Lucene's one-byte encoding (exact up
to 39, then four significant bits); ``L``: the mean of the true lengths. Every term's score is float32, their sum is
taken in float64 and rounded to float32. Equal scores are ordered by document id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agentgym.environments.webshop.analysis import Analyzer

K1: Final = 0.9
B: Final = 0.4
#: Lucene refuses queries of more distinct terms; we count the first so many
MAX_TERMS: Final = 1024


def quantised(length: int) -> int:
    """A document length after Lucene's ``SmallFloat.intToByte4`` and back: exact below 40, else four bits kept."""
    return length if length < 24 else 24 + _four_bits(length - 24)


def _four_bits(number: int) -> int:
    """The number with its four highest bits kept and the rest cut."""
    shift = max(0, number.bit_length() - 4)
    return number >> shift << shift


class Index:
    """An inverted index over ``documents``, whose order is that of ``ids``. Immutable; safe in threads."""

    def __init__(self, ids: Sequence[str], documents: Sequence[str]) -> None:
        self._analyzer = Analyzer()
        rank = sorted(range(len(ids)), key=ids.__getitem__)
        #: position in ``ids`` of every internal number; internal numbers follow the ids, so ties fall into order
        self._positions = np.array(rank, dtype=np.int64)
        self._rows: dict[str, int] = {}
        docs, frequencies, lengths = self._postings(documents, rank)
        self._weigh(docs, frequencies, lengths)

    def _postings(
        self, documents: Sequence[str], rank: list[int]
    ) -> tuple[list[list[int]], list[list[int]], list[int]]:
        docs: list[list[int]] = []
        frequencies: list[list[int]] = []
        lengths: list[int] = []
        rows = self._rows
        for number, position in enumerate(rank):
            terms = self._analyzer.terms(documents[position], remember=True)
            lengths.append(len(terms))
            for term, count in Counter(terms).items():
                row = rows.setdefault(term, len(docs))
                if row == len(docs):
                    docs.append([])
                    frequencies.append([])
                docs[row].append(number)
                frequencies[row].append(count)
        return docs, frequencies, lengths

    def _weigh(self, docs: list[list[int]], frequencies: list[list[int]], lengths: list[int]) -> None:
        single = np.float32
        mean = single(sum(lengths) / max(1, len(lengths)))
        k1, b, one = single(K1), single(B), single(1)
        norm = k1 * ((one - b) + b * np.array([quantised(n) for n in lengths], dtype=single) / mean)
        self._offsets = np.cumsum([0, *map(len, docs)])
        self._docs = np.array([n for row in docs for n in row], dtype=np.int32)
        counts = np.array([n for row in frequencies for n in row], dtype=single)
        # Lucene divides in double here and rounds the quotient
        self._saturated = (counts.astype(np.float64) / (counts + norm[self._docs]).astype(np.float64)).astype(single)
        df = np.diff(self._offsets)
        self._idf = np.log(1 + (len(lengths) - df + 0.5) / (df + 0.5)).astype(single)

    def __len__(self) -> int:
        return len(self._positions)

    def scores(self, query: str) -> NDArray[np.float32]:
        """float32 score of every document by internal number; 0 where no term matches."""
        total = np.zeros(len(self), dtype=np.float64)
        for term, count in list(Counter(self._analyzer.terms(query)).items())[:MAX_TERMS]:
            row = self._rows.get(term)
            if row is not None:
                part = slice(self._offsets[row], self._offsets[row + 1])
                weight = np.float32(count) * self._idf[row]
                total[self._docs[part]] += weight * self._saturated[part]
        return total.astype(np.float32)

    def search(self, query: str, k: int = 50) -> list[tuple[int, float]]:
        """The up to ``k`` best documents that share a term with the query: (position, score), best first."""
        scores = self.scores(query)
        found = np.flatnonzero(scores > 0)
        if len(found) > k:
            least = np.partition(scores[found], len(found) - k)[len(found) - k]
            found = found[scores[found] >= least]
        best = found[np.argsort(-scores[found], kind="stable")][:k]
        return list(zip(self._positions[best].tolist(), scores[best].tolist(), strict=True))
