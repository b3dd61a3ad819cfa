"""One product's JSON, raw as scraped or finished as the original indexes it, to a :class:`Product`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any

from agentgym.environments.webshop.products import Product, Review

#: price of a product that states none, in dollars
DEFAULT_PRICE = 100.0


def _strings(value: Any, what: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise TypeError(f"{what} must be a list of texts")
    return tuple(value)


def _string(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a text")
    value.encode()  # half a character would break every file that is written later
    return value


def repeated(nouns: Sequence[str], title: str) -> tuple[str, ...]:
    """Nouns with the repeats that a list of distinct ones has lost: as often as each stands in the title as a word.

    An estimate: a word that is a noun in one place and no noun in another counts too often.
    """
    if not nouns:
        return ()
    words = "|".join(re.escape(noun) for noun in sorted(nouns, key=len, reverse=True))
    counts = Counter(re.findall(rf"(?<!\w)(?:{words})(?!\w)", title.lower()))
    return tuple(noun for noun in nouns for _ in range(max(1, counts[noun])))


def _product(
    row: Mapping[str, Any], made: Mapping[str, Any], said: Any, nouns: Any, counted: bool, **parts: Any
) -> Product:
    title = _string(row["name"], "name")
    words = _strings(nouns if nouns is not None else [], "title nouns")
    request = made.get("instruction")
    if not all(isfinite(price) and price >= 0 for price in parts["prices"]):
        raise ValueError(f"prices {parts['prices']} are no amounts of money")
    return Product(
        asin=_string(row["asin"], "asin"),
        title=title,
        description=_string(row["full_description"] or "", "full_description"),
        category=_string(row["category"], "category"),
        query=_string(row["query"], "query").lower().strip(),
        product_category=_string(row["product_category"], "product_category"),
        nouns=words if counted else repeated(words, title),
        instructions=tuple(said or ()),
        request="" if request is None else _string(request, "instruction"),
        request_attributes=_strings(made.get("instruction_attributes") or [], "instruction_attributes"),
        **parts,
    )


def finished_product(row: Mapping[str, Any], made: Mapping[str, Any], said: Any, nouns: Any, counted: bool) -> Product:
    """A product of the packs, as the original's ``load_products`` leaves it."""
    prices = tuple(float(price) for price in row["pricing"] or [DEFAULT_PRICE])
    return _product(
        row, made, said or row.get("instructions"), nouns, counted,
        bullets=_strings(row["BulletPoints"], "BulletPoints"),
        attributes=_strings(row["Attributes"], "Attributes"),
        prices=prices[:2],
        price_tag=_string(row["Price"], "Price"),
        options={_string(k, "option"): _strings(v, f"option {k!r}") for k, v in row["options"].items()},
        rating=str(row.get("Rating", "N.A.")),
        reviews=tuple(Review(str(r["title"]), str(r["score"]), str(r["body"])) for r in row.get("Reviews") or ()),
    )  # fmt: skip


def raw_product(
    row: Mapping[str, Any], made: Mapping[str, Any], said: Any, nouns: Any, counted: bool
) -> Product | None:
    """A product of ``items_shuffle*.json``; None where the original leaves it out (no proper id)."""
    if row["asin"] == "nan" or len(row["asin"]) > 10:
        return None
    bullets = row["small_description"]
    prices, tag = _prices(row.get("pricing"))
    return _product(
        row, made, said, nouns, counted,
        bullets=_strings(bullets if isinstance(bullets, list) else [bullets], "small_description"),
        attributes=_strings(made["attributes"], "attributes") if "attributes" in made else ("DUMMY_ATTR",),
        prices=prices,
        price_tag=tag,
        options=_options(row.get("customization_options") or {}),
    )  # fmt: skip


def _prices(text: str | None) -> tuple[tuple[float, ...], str]:
    if not text:
        return (DEFAULT_PRICE,), f"${DEFAULT_PRICE}"
    prices = [float(Decimal(re.sub(r"[^\d.]", "", part))) for part in text.split("$")[1:]]
    if len(prices) == 1:
        return (prices[0],), f"${prices[0]}"
    return tuple(prices[:2]), f"${prices[0]} to ${prices[1]}"


def _options(raw: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {
        name.lower(): tuple(_string(v["value"], name).strip().replace("/", " | ").lower() for v in values)
        for name, values in raw.items()
        if values is not None
    }
