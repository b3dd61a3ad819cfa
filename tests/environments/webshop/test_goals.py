"""Goals, prices and splits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentgym.environments.webshop.generated import GENERATED_SPLITS, generated_catalogue, generated_goals
from agentgym.environments.webshop.goals import (
    Entry,
    assert_disjoint,
    goal_data,
    human_goals,
    identity,
    ordered_goals,
    price_table,
    read_goal,
    split_goals,
    synthetic_goals,
)  # fmt: skip
from agentgym.environments.webshop.products import Catalogue
from agentgym.environments.webshop.reward import NO_LIMIT
from agentgym.errors import DataError

from .conftest import goal_of, products


def test_a_synthetic_goal_for_every_combination_of_options(catalogue: Catalogue) -> None:
    goals = synthetic_goals(catalogue, 42)
    assert len(goals) == 2 * 3 * 3
    first = goals[0]
    assert dict(first.options) == {"color": "yellow", "fit": "large", "size": "8"}
    assert first.text == (
        "Find me loafers with rubber sole with color: yellow, and fit: large, and size: 8"
        f", and price lower than {first.price_upper:.2f} dollars"
    )
    assert {goal.price_upper for goal in goals} <= {60.0, 70.0, 80.0}  # the upper of two of 50, 60, 70, 80
    assert len({goal.price_upper for goal in goals}) == 1


def test_a_dear_product_has_no_limit() -> None:
    dear = replace(products()[0], prices=(985.0,))
    goal = synthetic_goals(Catalogue([dear], "dear"), 42)[0]
    assert goal.price_upper == NO_LIMIT
    assert "price" not in goal.text


def test_human_goals_need_an_attribute() -> None:
    said = (
        {
            "instruction": "i want loafers.",
            "instruction_attributes": ["rubber sole"],
            "instruction_options": ["yellow"],
        },
        {"instruction": "anything", "instruction_attributes": [], "instruction_options": []},
    )
    shop = Catalogue([replace(products()[0], instructions=said)], "said")
    (goal,) = human_goals(shop, 42)
    assert goal.text.startswith("i want loafers, and price lower than ")
    assert (goal.options, goal.wanted) == (("yellow",), ("yellow",))
    broken = Catalogue([replace(products()[0], instructions=({"instruction": "x"},))], "broken.json")
    with pytest.raises(DataError, match=r"broken\.json.*B0SHOE0001"):
        human_goals(broken, 42)


def test_prices_within_a_range_hang_on_the_seed_alone(catalogue: Catalogue) -> None:
    table = price_table(catalogue, 42)
    assert (table["B0SHOE0001"], table["B0LAMP0001"]) == (42.0, 30.0)
    assert 60.0 <= table["B0SHOE0002"] <= 80.0
    assert price_table(catalogue, 42) == table
    assert price_table(catalogue, 43) != table


def test_a_price_of_its_own_seed_does_not_hang_on_the_rest(catalogue: Catalogue) -> None:
    alone = Catalogue([products()[1]], "alone")
    more = Catalogue([replace(products()[1], asin="B0SHOE0003"), *products()], "more")
    tables = [price_table(shop, 42, "product")["B0SHOE0002"] for shop in (alone, catalogue, more)]
    assert len(set(tables)) == 1
    assert price_table(more, 42)["B0SHOE0002"] != price_table(alone, 42)["B0SHOE0002"]


def test_an_identity_holds_neither_price_nor_wording(catalogue: Catalogue) -> None:
    goal = goal_of(catalogue)
    assert identity(goal) == identity(replace(goal, text="other words", price_upper=10.0))
    assert len({identity(goal), identity(goal_of(catalogue, options={"color": "yellow"}))}) == 2
    assert len({identity(goal), identity(goal_of(catalogue, attributes=("slip resistant",)))}) == 2


def test_no_price_seed_moves_a_goal_to_another_split() -> None:
    catalogue = generated_catalogue()
    first, second = (split_goals(ordered_goals(catalogue, "synthetic", seed)) for seed in (42, 7))
    assert [len(first[split]) for split in ("test", "eval")] == [500, 1000]
    for split in first:
        assert [e.identity for e in first[split]] == [e.identity for e in second[split]]
    assert [e.goal.text for e in first["test"]] != [e.goal.text for e in second["test"]]


def test_a_goal_asked_twice_stays_in_one_split(catalogue: Catalogue) -> None:
    goal = goal_of(catalogue)
    others = [goal_of(catalogue, options={"n": str(k)}) for k in range(1600)]
    row = [goal, *others[:600], goal, *others[600:]]
    splits = split_goals([Entry(k, identity(g), g) for k, g in enumerate(row)])
    home = [split for split, entries in splits.items() if identity(goal) in {e.identity for e in entries}]
    assert home == ["test"]
    assert [len(splits[split]) for split in ("test", "eval", "train")] == [500, 999, 102]


def test_common_goals_are_refused(catalogue: Catalogue) -> None:
    entry = Entry(0, "0123456789abcdef", goal_of(catalogue))
    with pytest.raises(DataError, match=r"'train' and 'test' share 1 goals.*0123456789abcdef"):
        assert_disjoint({"train": [entry], "test": [entry]})


def test_goals_survive_as_data(catalogue: Catalogue) -> None:
    for goal in (goal_of(catalogue), goal_of(catalogue, options=("yellow", "8"))):
        assert read_goal(goal_data(goal), catalogue, "here") == goal
    with pytest.raises(DataError, match=r"task 'x'.*'B0NOTHERE1' is not in the test's catalogue \(3 products\)"):
        read_goal({**goal_data(goal), "asin": "B0NOTHERE1"}, catalogue, "task 'x'")
    for broken in ({}, {"asin": 7, "options": {}}, {**goal_data(goal), "attributes": []}):
        with pytest.raises(DataError, match=r"here: its goal is not usable"):
            read_goal(broken, catalogue, "here")


def test_the_embedded_catalogue() -> None:
    catalogue = generated_catalogue()
    assert len(catalogue) == 576
    assert len({p.category for p in catalogue.products}) == 8
    assert len({p.asin for p in catalogue.products}) == 576
    assert catalogue.hash == "8ccbfbc4dd447b90"
    assert all(p.attributes and p.options and p.request_attributes and p.nouns for p in catalogue.products)
    assert all(set(p.request_attributes) <= set(p.attributes) for p in catalogue.products)
    assert 40 < sum(len(p.prices) == 2 for p in catalogue.products) < 130


def test_no_product_is_asked_for_in_two_embedded_splits() -> None:
    splits = generated_goals(generated_catalogue(), 42, "original")
    asked = {split: {e.goal.product.asin for e in entries} for split, entries in splits.items()}
    assert set(asked) == set(GENERATED_SPLITS)
    assert all(len(entries) >= 500 for entries in splits.values())
    assert sum(map(len, asked.values())) == len(set().union(*asked.values())) == 576
