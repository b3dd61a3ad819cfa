"""BM25 against the formula computed term by term, and the recall that the reference measured."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentgym.environments.search import Search
from agentgym.environments.search.bm25 import Index, terms
from agentgym.environments.search.corpus import Corpus
from agentgym.environments.search.tasks import corpus_of

WORDS = st.sampled_from(["red", "boat", "boats", "sea", "river", "the", "of", "town", "old", "märz", "42"])
TEXTS = st.lists(WORDS, max_size=8).map(" ".join)


def slow_scores(passages: list[tuple[str, str]], query: str, k1: float = 1.5, b: float = 0.75) -> list[float]:
    """The formula of the module's docstring, one passage and one term at a time."""
    bags = [Counter(terms(f"{title} {text}")) for title, text in passages]
    lengths = [sum(bag.values()) for bag in bags]
    mean = sum(lengths) / len(lengths) or 1.0
    out = []
    for bag, length in zip(bags, lengths, strict=True):
        total = 0.0
        for term in terms(query):
            df = sum(term in other for other in bags)
            idf = math.log(1 + (len(bags) - df + 0.5) / (df + 0.5))
            total += idf * bag[term] / (bag[term] + k1 * (1 - b + b * length / mean)) if bag[term] else 0.0
        out.append(total)
    return out


@example([("", ""), ("", "red")], "red", 1)  # a mean length below one
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=8), TEXTS, st.integers(1, 9))
def test_scores_and_ranking(passages: list[tuple[str, str]], query: str, k: int) -> None:
    index = Index(Corpus(passages, "test"))
    slow = np.array(slow_scores(passages, query))
    found = index.scores(query)
    np.testing.assert_allclose(found, slow, rtol=1e-5, atol=1e-7)
    order = sorted((i for i in range(len(passages)) if found[i] > 0), key=lambda i: (-found[i], i))
    assert [number for number, _ in index.rank(query, k)] == order[:k]


def test_terms() -> None:
    assert terms("The Boats, of São-Paulo: a 42 x!") == ["boat", "sao", "paulo", "42"]
    assert terms("relational ponies") == ["relat", "poni"]  # Porter's own examples
    assert terms("") == terms("the of \x00 ?") == []


def test_equal_scores_keep_the_order_of_the_corpus() -> None:
    index = Index(Corpus([("a", "red sea")] * 3 + [("b", "soup")], "test"))
    assert [number for number, _ in index.rank("red", 2)] == [0, 1]
    assert index.rank("unheard", 3) == index.rank("", 3) == []


def test_a_query_of_100_kilobytes() -> None:
    index = Index(Corpus([("a", "red sea")], "test"))
    assert len(index.rank("red " * 25_000 + "z" * 100_000, 3)) == 1


def test_recall_of_supporting_titles_on_hotpotqa(stored: Path) -> None:
    env = Search(data=str(stored))
    tasks = env.tasks("hotpotqa")
    index = Index(corpus_of(tasks[0], env._source))
    assert (len(tasks), len(index.corpus)) == (300, 9077)
    recall = {3: 0.0, 5: 0.0, 10: 0.0}
    for task in tasks:
        gold = set(task.data["documents"])
        titles = [passage.title for passage in index.search(task.data["question"], 10)]
        for k in recall:
            recall[k] += len(gold & set(titles[:k])) / len(gold) / len(tasks)
    # measured with bm25s: .690, .768, .887
    assert recall == pytest.approx({3: 0.69, 5: 0.768, 10: 0.887}, abs=0.01)
