"""The embedded catalogue: 576 products of 64 types in 8 categories, made from our own word lists, and its goals.

Deterministic and the same on every machine. Products of a type differ in attributes, options and price, so that the
right search is the beginning of a task, not its end. The splits are by product: all goals of one product are in one
split, decided by the hash of its id (12 of 16 values train, 2 validate, 2 test).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from typing import Final

from agentgym.environments.webshop.goals import Entry, assert_disjoint, ordered_goals
from agentgym.environments.webshop.products import Catalogue, Product
from agentgym.environments.webshop.words import ATTRIBUTES, BRANDS, KINDS, OPENINGS, REASONS, VALUES, Kind
from agentgym.seeding import python_rng
from agentgym.types import content_hash

#: products of each type
PER_KIND: Final = 9
#: split -> the last hex digits of the hashes of the product ids that belong to it
GENERATED_SPLITS: Final[Mapping[str, str]] = {
    "generated": "0123456789ab",
    "generated_valid": "cd",
    "generated_test": "ef",
}
_LOCK: Final = threading.Lock()
_MADE: list[Catalogue] = []


def generated_catalogue() -> Catalogue:
    """The embedded catalogue; made once per process."""
    with _LOCK:
        if not _MADE:
            products = [_product(kind, number) for kind in KINDS for number in range(PER_KIND)]
            _MADE.append(Catalogue(products, "the generated catalogue"))
        return _MADE[0]


def generated_goals(catalogue: Catalogue, seed: int, pricing: str) -> dict[str, list[Entry]]:
    """The goals of the embedded catalogue by split; DataError if two splits shared one."""
    found: dict[str, list[Entry]] = {split: [] for split in GENERATED_SPLITS}
    for entry in ordered_goals(catalogue, "synthetic", seed, pricing):
        digit = content_hash(["webshop product", entry.goal.product.asin])[-1]
        found[next(split for split, digits in GENERATED_SPLITS.items() if digit in digits)].append(entry)
    assert_disjoint(found)
    return found


def _product(kind: Kind, number: int) -> Product:
    rng = python_rng("webshop product", kind.name, number)
    brand = rng.choice(BRANDS)
    attributes = tuple(rng.sample(ATTRIBUTES[kind.category], 5))
    options = {name: _values(name, rng) for name in kind.options}
    title = f"{brand} {kind.name.title()}, {attributes[0].title()}, {attributes[1].title()}"
    low, high = kind.prices
    price = round(rng.uniform(low, high), 2)
    prices = (price, round(price * rng.uniform(1.1, 1.5), 2)) if rng.random() < 0.15 else (price,)
    asked = tuple(rng.sample(attributes, rng.choice((1, 2, 2, 3))))
    reasons = rng.sample(REASONS, 4)
    bullets = tuple(
        f"{attr.title()}: {reason.format(attr=attr, name=kind.name)}"
        for attr, reason in zip(attributes[2:], reasons, strict=False)
    )
    return Product(
        asin="G" + content_hash(["webshop product", kind.name, number])[:9].upper(),
        title=title,
        description=f"{rng.choice(OPENINGS).format(name=kind.name, brand=brand)} "
        f"{reasons[3].format(attr=attributes[0], name=kind.name).capitalize()}",
        bullets=bullets,
        category=kind.category,
        query=kind.name,
        product_category=kind.path,
        attributes=attributes,
        prices=prices,
        price_tag=" to ".join(f"${value}" for value in prices),
        options=options,
        nouns=(brand.lower(), *kind.name.split()),
        request=_request(kind, asked),
        request_attributes=asked,
    )


def _values(name: str, rng: random.Random) -> tuple[str, ...]:
    """A few values of an option, in their natural order."""
    known = VALUES[name]
    count = rng.randint(2, min(4, len(known)))
    return tuple(known[k] for k in sorted(rng.sample(range(len(known)), count)))


def _request(kind: Kind, asked: tuple[str, ...]) -> str:
    """The beginning of the instruction, in the form of the original's synthetic ones."""
    first, *rest = asked
    return f"Find me {first} {kind.name}" + (f" with {', '.join(rest)}" if rest else "")
