"""A hand-made shop of a few products, and the original's data where it is at hand."""

from __future__ import annotations

import json
import lzma
import os
from pathlib import Path
from typing import Any

import pytest

from agentgym.environments.webshop.products import Catalogue, Product, Review
from agentgym.environments.webshop.reward import Goal
from agentgym.environments.webshop.shop import Pages, Shop

PRICES = {"B0SHOE0001": 42.0, "B0SHOE0002": 70.0, "B0LAMP0001": 30.0}


def products() -> tuple[Product, ...]:
    """Two shoes of one type and a lamp; texts of blanks, a shared option value, quotes and no ASCII among them."""
    shoe = {
        "category": "fashion", "query": "loafers", "product_category": "Clothing \u203a Shoes \u203a Loafers",
        "attributes": ("rubber sole", "slip resistant"),
    }  # fmt: skip
    return (
        Product(
            asin="B0SHOE0001", title="Acme Leather Loafers", description="Made for rain.",
            bullets=("Soft leather ", "", "\n"), prices=(42.0,), price_tag="$42.0",
            options={
                "size": ("8", "large", "x-large"), "color": ("yellow", "light blue", "été"), "fit": ("large", "slim"),
            },
            nouns=("acme", "leather", "loafers"), rating="4.5",
            reviews=(Review("Good", "4", "I like them."),), request="Find me loafers with rubber sole",
            request_attributes=("rubber sole",), **shoe,
        ),
        Product(
            asin="B0SHOE0002", title="Bolt Canvas Loafers", description="", bullets=("Light",), prices=(60.0, 80.0),
            price_tag="$60.0 to $80.0", options={}, nouns=("bolt", "canvas", "loafers"), **shoe,
        ),
        Product(
            asin="B0LAMP0001", title="Table Lamp", description="Warm light", bullets=("Metal",),
            category="garden", query="lamps", product_category="Home \u203a Lighting \u203a Lamps",
            attributes=("metal frame",), prices=(30.0,),
            price_tag="$30.0", options={}, nouns=("table", "lamp"),
        ),
    )  # fmt: skip


@pytest.fixture
def catalogue() -> Catalogue:
    """The hand-made shop."""
    return Catalogue(products(), "the test's catalogue")


def goal_of(catalogue: Catalogue, **changes: Any) -> Goal:
    """The first shoe in yellow, size 8, below 50 dollars."""
    values: dict[str, Any] = {
        "product": catalogue.products[0], "text": "Find me loafers", "attributes": ("rubber sole",),
        "options": {"color": "yellow", "size": "8"}, "price_upper": 50.0,
    }  # fmt: skip
    return Goal(**(values | changes))


def visit(catalogue: Catalogue, mode: str = "text", attributes: bool = False, **changes: Any) -> Shop:
    """A visit to the hand-made shop."""
    return Shop(Pages(catalogue, attributes), goal_of(catalogue, **changes), PRICES, mode, seed=7)


@pytest.fixture(scope="session")
def official() -> Path:
    """The folder that holds the original's ``webshop`` data, or skip."""
    beside = Path(__file__).resolve().parents[4] / "shared" / "data"
    for root in (os.environ.get("AGENTGYM_DATA"), beside):
        if root and (Path(root) / "webshop" / "products_1000.jsonl.xz").is_file():
            return Path(root)
    pytest.skip("WebShop's products are not here: set AGENTGYM_DATA to the folder with webshop/products_1000.jsonl.xz")


def lines(path: Path) -> list[Any]:
    """A compressed JSON-lines file."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
