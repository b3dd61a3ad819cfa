"""The reward and its breakdown, by hand and against the original's recorded oddities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rapidfuzz import fuzz

from agentgym.environments.webshop.products import Catalogue
from agentgym.environments.webshop.reward import COLOURS, alike, fulfils, reward, type_reward

from .conftest import goal_of


def test_a_perfect_purchase_and_its_breakdown(catalogue: Catalogue) -> None:
    score, info = reward(catalogue.products[0], goal_of(catalogue), 42.0, {"color": "yellow", "size": "8"})
    assert score == 1.0
    assert info == {
        "r_type": 1.0, "r_att": 1.0, "w_att": 0.25, "query_match": True, "category_match": True, "title_score": 1.0,
        "r_option": 1.0, "w_option": 0.5, "r_price": True, "w_price": 0.25,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("number", "price", "chosen", "expected"),
    [
        (0, 42.0, {}, 2 / 4),
        (0, 42.0, {"color": "yellow"}, 3 / 4),
        (0, 50.0, {"color": "yellow", "size": "8"}, 1.0),
        (0, 50.1, {"color": "yellow", "size": "8"}, 3 / 4),
        (1, 70.0, {}, 1 / 4),
        (2, 30.0, {}, 0.0),  # a lamp: no word of the title in common
    ],
)
def test_scores_by_hand(
    catalogue: Catalogue, number: int, price: float, chosen: dict[str, str], expected: float
) -> None:
    assert reward(catalogue.products[number], goal_of(catalogue), price, chosen)[0] == expected


def test_a_goal_without_options_says_nothing_of_them(catalogue: Catalogue) -> None:
    score, info = reward(catalogue.products[0], goal_of(catalogue, options={}), 42.0, {"color": "yellow"})
    assert score == 1.0
    assert "r_option" not in info
    assert "w_option" not in info


@pytest.mark.parametrize(
    ("nouns", "query", "path", "expected"),
    [
        (("acme",), "other", "X", 1.0),  # a third of the goal's nouns: above 0.2
        (("none",), "other", "X", 0.0),
        (("none",), "loafers", "X", 0.0),  # no common noun: 0 whatever matches
        (("none",), "other", "Clothing \u203a Shoes \u203a Boots", 0.0),
    ],
)
def test_types(catalogue: Catalogue, nouns: tuple[str, ...], query: str, path: str, expected: float) -> None:
    product = replace(catalogue.products[0], nouns=nouns, query=query, product_category=path)
    assert type_reward(product, goal_of(catalogue))["r_type"] == expected


@pytest.mark.parametrize(
    ("size", "query", "path", "expected"),
    [
        (6, "other", "X", 0.5),  # 1/6 is not above 0.2 and not below 0.1
        (6, "loafers", "X", 1.0),
        (6, "other", "Shoes \u203a Clothing", 1.0),
        (6, "other", "Shoes", 0.5),
        (5, "other", "X", 0.5),  # exactly 0.2
        (11, "loafers", "X", 0.1),
        (0, "other", "X", 0.5),  # a goal without nouns counts as 0.2
    ],
)
def test_types_of_long_titles(catalogue: Catalogue, size: int, query: str, path: str, expected: float) -> None:
    target = replace(catalogue.products[0], nouns=tuple(f"word{k}" for k in range(size)))
    product = replace(catalogue.products[1], nouns=("word0",), query=query, product_category=path)
    assert type_reward(product, goal_of(catalogue, product=target))["r_type"] == expected


def test_repeated_nouns_weigh_in_the_denominator(catalogue: Catalogue) -> None:
    target = replace(catalogue.products[0], nouns=("shoe", "shoe", "rain"))
    assert type_reward(target, goal_of(catalogue, product=target))["title_score"] == 2 / 3


@pytest.mark.parametrize(
    ("bought", "wanted", "expected"),
    [
        ("yellow", ("color", "yellow"), True),
        ("light yellow", ("color", "yellow"), False),  # "light" comes before "yellow" in the list of colours
        ("light yellow", ("color", "light yellow"), True),  # "light" is a word of the pair's text
        ("large", ("size", "x-large"), True),
        ("x-large", ("size", "large"), False),
        ("standard", ("size", "standard"), False),  # it contains "tan"
        ("8", ("size", "8"), True),
        ("9", ("size", "8"), False),
        ("black", "black", True),
        ("navy blue", "sky blue", True),  # human goals hold values: both are "blue"
        ("120ml", "120ml", True),
    ],
)
def test_oddities_of_options(bought: str, wanted: Any, expected: bool) -> None:
    assert fulfils(bought, wanted) is expected


def test_attributes_count_where_they_are_written(catalogue: Catalogue) -> None:
    product = replace(catalogue.products[0], attributes=())
    for attribute, expected in (("soft leather", 1.0), ("for rain", 1.0), ("acme", 1.0), ("rubber sole", 0.0)):
        info = reward(product, goal_of(catalogue, attributes=(attribute,)), 1.0, {})[1]
        assert info["r_att"] == expected


def test_likeness_is_thefuzzs() -> None:
    assert alike("Rubber-Sole!", "rubber sole")
    assert alike("été", "t")  # thefuzz drops the upper half of Latin-1
    assert not alike("", "")
    pair = ("easy clean surface", "easy cleen")
    assert alike(*pair) is (round(fuzz.token_set_ratio(*pair)) > 85)


def test_colours_are_the_originals_in_number_and_order() -> None:
    assert (len(COLOURS), len(set(COLOURS)), sorted(COLOURS) == COLOURS) == (102, 102, True)
