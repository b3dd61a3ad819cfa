"""Tokens, stems and scores. Expected values: Porter's paper, Lucene's documentation and its recorded index."""

from __future__ import annotations

import lzma
import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.environments.webshop.analysis import MAX_TOKEN, Analyzer, tokens
from agentgym.environments.webshop.bm25 import Index, quantised
from agentgym.environments.webshop.porter import stem

from .conftest import lines

#: from the paper's own lists of examples, one or more of every step, and the three departures
STEMS = {
    "caresses": "caress", "ponies": "poni", "ties": "ti", "caress": "caress", "cats": "cat", "feed": "feed",
    "agreed": "agre", "plastered": "plaster", "bled": "bled", "motoring": "motor", "sing": "sing",
    "conflated": "conflat", "troubled": "troubl", "sized": "size", "hopping": "hop", "tanned": "tan",
    "falling": "fall", "hissing": "hiss", "fizzed": "fizz", "failing": "fail", "filing": "file", "happy": "happi",
    "sky": "sky", "relational": "relat", "conditional": "condit", "rational": "ration", "valenci": "valenc",
    "digitizer": "digit", "conformabli": "conform", "radicalli": "radic", "differentli": "differ", "vileli": "vile",
    "analogousli": "analog", "vietnamization": "vietnam", "predication": "predic", "operator": "oper",
    "feudalism": "feudal", "decisiveness": "decis", "hopefulness": "hope", "callousness": "callous",
    "formaliti": "formal", "sensitiviti": "sensit", "sensibiliti": "sensibl", "triplicate": "triplic",
    "formative": "form", "formalize": "formal", "electriciti": "electr", "electrical": "electr", "hopeful": "hope",
    "goodness": "good", "revival": "reviv", "allowance": "allow", "inference": "infer", "airliner": "airlin",
    "gyroscopic": "gyroscop", "adjustable": "adjust", "defensible": "defens", "irritant": "irrit",
    "replacement": "replac", "adjustment": "adjust", "dependent": "depend", "adoption": "adopt",
    "communism": "commun", "activate": "activ", "angulariti": "angular", "homologous": "homolog",
    "effective": "effect", "bowdlerize": "bowdler", "probate": "probat", "rate": "rate", "cease": "ceas",
    "controll": "control", "roll": "roll", "technology": "technolog", "as": "as", "es": "es",
}  # fmt: skip


@pytest.mark.parametrize("word", STEMS)
def test_stems_of_the_paper(word: str) -> None:
    assert stem(word) == STEMS[word]


def test_words_are_cut_as_unicode_says() -> None:
    assert tokens("Can't stop: 3.5mm, 1,000.50 e.g. foo_bar x-large") == [
        "Can't", "stop", "3.5mm", "1,000.50", "e.g", "foo_bar", "x", "large",
    ]  # fmt: skip
    assert tokens("description:solid don\u2019t 2 x 4") == ["description:solid", "don\u2019t", "2", "x", "4"]
    assert tokens("\u4e2d\u56fd \u2605 \u2764\ufe0f \U0001f468\u200d\U0001f4bc \u2606 \u00bd") == [
        "\u4e2d", "\u56fd", "\u2605", "\u2764\ufe0f", "\U0001f468\u200d\U0001f4bc",
    ]  # fmt: skip
    assert [len(t) for t in tokens("a" * 600)] == [MAX_TOKEN, MAX_TOKEN, 90]
    assert tokens("") == tokens("[]!\x00\ud800") == []


def test_terms_lose_stop_words_and_possessives() -> None:
    assert Analyzer().terms("The men's Shoes are for Running") == ["men", "shoe", "run"]


@given(st.text(max_size=200))
def test_tokens_are_parts_of_the_text_in_order(text: str) -> None:
    place = 0
    for token in tokens(text):
        place = text.index(token, place) + len(token)


def test_lengths_lose_their_low_bits_from_forty_on() -> None:
    # Lucene's SmallFloat: 40 values are exact, then steps of 2, 4, 8 ... eight values apart
    assert [quantised(n) for n in (0, 1, 39, 40, 41, 42, 55, 56, 59, 60, 88, 103, 104)] == [
        0, 1, 39, 40, 40, 42, 54, 56, 56, 60, 88, 96, 104,
    ]  # fmt: skip


def test_scores_follow_the_formula() -> None:
    index = Index(["b", "a", "c"], ["red red shoe", "blue shoe", "green lamp stand"])
    mean = (3 + 2 + 3) / 3

    def part(tf: int, length: int, df: int) -> float:
        norm = 0.9 * (1 - 0.4 + 0.4 * length / mean)
        return math.log(1 + (3 - df + 0.5) / (df + 0.5)) * tf / (tf + norm)

    found = index.search("red shoe shoe")
    assert [position for position, _ in found] == [0, 1]
    assert found[0][1] == pytest.approx(part(2, 3, 1) + 2 * part(1, 3, 2), rel=1e-6)
    assert found[1][1] == pytest.approx(2 * part(1, 2, 2), rel=1e-6)
    assert index.search("unknown") == index.search("the of") == index.search("") == []


def test_equal_scores_come_in_the_order_of_the_ids() -> None:
    ids = [f"id{n:02d}" for n in (7, 3, 9, 1, 5)]
    index = Index(ids, ["same text"] * 5)
    assert [ids[position] for position, _ in index.search("same")] == sorted(ids)
    assert [ids[position] for position, _ in index.search("same", 2)] == ["id01", "id03"]


def test_terms_equal_lucenes_index(official: Path) -> None:
    recorded = {}
    with lzma.open(official / "webshop/lucene_termvectors_1000.tsv.xz", "rt", encoding="utf-8") as file:
        for line in file:
            asin, length, *counts = line.rstrip("\n").split("\t")
            recorded[asin] = (int(length), {c.rpartition(" ")[0]: int(c.rpartition(" ")[2]) for c in counts})
    analyzer = Analyzer()
    for row in lines(official / "webshop/products_1000.jsonl.xz"):
        terms = analyzer.terms(row["contents"], remember=True)
        assert (quantised(len(terms)), dict(Counter(terms))) == recorded[row["id"]], row["id"]


def test_results_equal_lucenes(official: Path) -> None:
    rows = lines(official / "webshop/products_1000.jsonl.xz")
    ids = [row["id"] for row in rows]
    index = Index(ids, [row["contents"] for row in rows])
    recorded = lines(official / "webshop/lucene_bm25_groundtruth.jsonl.xz")
    top10 = top50 = 0
    for query in recorded:
        found = index.search(query["q"])
        wanted = [asin for asin, _ in query["top50"]]
        top10 += [ids[position] for position, _ in found[:10]] == wanted[:10]
        top50 += [ids[position] for position, _ in found] == wanted
        # the record rounds to four digits and sets equal scores apart by 1e-6 each
        for (_, score), (_, theirs) in zip(found, query["top50"], strict=True):
            assert abs(score - theirs) < 4e-4, query["q"]
    assert (len(recorded), top10, top50) == (900, 900, 900)
