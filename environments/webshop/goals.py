"""Goals of a catalogue, their price limits, and the splits.

Goals, prices and limits are those of the original code seeded once (``random.seed(seed)`` before it, and again before
the shuffle), as verl-agent's variant runs it; at seed 42 they equal the stored tables of that variant, 6,910 goals of
the 1,000 products. One seed for all: nothing is drawn per worker.

The identity of a goal is what it asks for: product, attributes, options; neither price nor wording. The splits follow
the original's positions in the shuffled list (test 0-499, eval 500-1499, train from 1500), but the order is always that
of one fixed seed, so that membership belongs to the identity and no price seed can move a goal. A goal that is asked
twice (option values may repeat) belongs to the split of its first position and is left out of any other.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from agentgym.environments.webshop.products import Catalogue, Product
from agentgym.environments.webshop.reward import NO_LIMIT, Goal
from agentgym.errors import ConfigError, DataError
from agentgym.seeding import python_rng
from agentgym.types import content_hash

#: split -> positions in the shuffled list
SPLITS: Final[Mapping[str, tuple[int, int | None]]] = {"test": (0, 500), "eval": (500, 1500), "train": (1500, None)}
#: the seed that orders the goals: verl-agent's fixed panel for synthetic goals, the original's own for human ones
ORDER_SEED: Final = {"synthetic": 42, "human": 233}
#: ``original``: one generator over all products in order; ``product``: a seed of its own for every product, so that a
#: price does not depend on what else is in the catalogue
PRICINGS: Final = ("original", "product")
_STEPS: Final = tuple(10.0 * k for k in range(1, 100))


@dataclass(frozen=True, slots=True)
class Entry:
    """A goal at its position in the shuffled list."""

    position: int
    identity: str
    goal: Goal


def identity(goal: Goal) -> str:
    """16 hex digits of what a goal asks for; the same whatever the prices and wherever it stands in a list."""
    options = dict(goal.options) if isinstance(goal.options, Mapping) else list(goal.options)
    return content_hash(["webshop goal", goal.product.asin, list(goal.attributes), options])


def price_table(catalogue: Catalogue, seed: int, pricing: str = "original") -> dict[str, float]:
    """Price of every product in dollars; one with a range of prices gets one within it."""
    rng = random.Random(seed)
    return {
        product.asin: _price(product, rng if pricing == "original" else python_rng("webshop price", seed, product.asin))
        for product in catalogue.products
    }


def _price(product: Product, rng: random.Random) -> float:
    return product.prices[0] if len(product.prices) == 1 else rng.uniform(*product.prices)


def _limit(price: float, rng: random.Random) -> tuple[float, str]:
    """A price limit above ``price`` and how the instruction says it."""
    above = [step for step in _STEPS if step > price][:4]
    if len(above) < 2:
        return NO_LIMIT, ""
    limit = max(rng.sample(above, 2))
    return limit, f", and price lower than {limit:.2f} dollars"


def _rngs(catalogue: Catalogue, seed: int, pricing: str) -> Iterator[tuple[Product, float, random.Random]]:
    """Every product with its price and the generator that its limits are drawn from."""
    rng = random.Random(seed)
    prices = {p.asin: _price(p, rng) for p in catalogue.products} if pricing == "original" else {}
    for product in catalogue.products:
        if pricing == "original":
            yield product, prices[product.asin], rng
        else:
            own = python_rng("webshop price", seed, product.asin)
            yield product, _price(product, own), own


def synthetic_goals(catalogue: Catalogue, seed: int, pricing: str = "original") -> list[Goal]:
    """One goal for every combination of option values of every product that has a request; not shuffled."""
    goals = []
    for product, price, rng in _rngs(catalogue, seed, pricing):
        if not product.request:
            continue
        if not product.request_attributes:
            raise DataError(f"{catalogue.source}: product {product.asin!r} has an instruction without attributes")
        limit, price_text = _limit(price, rng)
        names = sorted(product.options)
        for values in itertools.product(*(product.options[name] for name in names)):
            options = dict(zip(names, values, strict=True))
            text = ", and ".join(f"{name}: {value}" for name, value in options.items())
            text = f"{product.request}{' with ' + text if text else ''}{price_text}"
            goals.append(Goal(product, text, product.request_attributes, options, limit))
    return goals


def human_goals(catalogue: Catalogue, seed: int, pricing: str = "original") -> list[Goal]:
    """One goal for every human instruction that names an attribute; not shuffled."""
    goals = []
    for product, price, rng in _rngs(catalogue, seed, pricing):
        for said in product.instructions:
            try:
                attributes = tuple(map(str, said["instruction_attributes"]))
                options = tuple(map(str, said["instruction_options"]))
                text = said["instruction"].strip(".")
            except (KeyError, TypeError, AttributeError) as error:
                raise DataError(
                    f"{catalogue.source}: an instruction of product {product.asin!r} is not usable ({error!r})"
                ) from error
            if attributes:
                limit, price_text = _limit(price, rng)
                goals.append(Goal(product, text + price_text, attributes, options, limit))
    return goals


def ordered_goals(catalogue: Catalogue, kind: str, seed: int, pricing: str = "original") -> list[Entry]:
    """All goals in the order of the splits. ``kind``: ``synthetic`` or ``human``."""
    goals = (synthetic_goals if kind == "synthetic" else human_goals)(catalogue, seed, pricing)
    random.Random(ORDER_SEED[kind]).shuffle(goals)
    return [Entry(position, identity(goal), goal) for position, goal in enumerate(goals)]


def split_goals(entries: list[Entry]) -> dict[str, list[Entry]]:
    """The splits by identity; raises DataError if any goal were in two of them."""
    home: dict[str, str] = {}
    found: dict[str, list[Entry]] = {split: [] for split in SPLITS}
    for entry in entries:
        here = next(split for split, (low, high) in SPLITS.items() if high is None or entry.position < high)
        if home.setdefault(entry.identity, here) == here:
            found[here].append(entry)
    assert_disjoint(found)
    return found


def assert_disjoint(splits: Mapping[str, list[Entry]]) -> None:
    """Raise DataError where two splits share a goal."""
    for one, other in itertools.combinations(splits, 2):
        common = {e.identity for e in splits[one]} & {e.identity for e in splits[other]}
        if common:
            raise DataError(f"WebShop splits {one!r} and {other!r} share {len(common)} goals, e.g. {min(common)}")


class PriceTables:
    """Price tables by catalogue, seed and pricing; made once per process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[tuple[str, int, str], dict[str, float]] = {}

    def get(self, catalogue: Catalogue, seed: int, pricing: str) -> Mapping[str, float]:
        """The table; ConfigError for an unknown pricing."""
        if pricing not in PRICINGS:
            raise ConfigError(f"webshop: prices must be one of {', '.join(PRICINGS)}, got {pricing!r}")
        key = (catalogue.hash, seed, pricing)
        table = self._made.get(key)
        if table is None:
            table = price_table(catalogue, seed, pricing)
            with self._lock:
                if len(self._made) >= 16:
                    self._made.pop(next(iter(self._made)))
                self._made[key] = table
        return table


def goal_data(goal: Goal) -> dict[str, Any]:
    """A goal as JSON, for a task's data."""
    options = dict(goal.options) if isinstance(goal.options, Mapping) else list(goal.options)
    return {
        "asin": goal.product.asin, "text": goal.text, "attributes": list(goal.attributes), "options": options,
        "price_upper": goal.price_upper,
    }  # fmt: skip


def read_goal(data: Mapping[str, Any], catalogue: Catalogue, where: str) -> Goal:
    """The goal that :func:`goal_data` wrote; DataError for an unknown product or a malformed goal."""
    try:
        asin, options = data["asin"], data["options"]
        product = catalogue.get(asin)
        if product is None:
            raise DataError(
                f"{where}: its product {asin!r} is not in {catalogue.source} ({len(catalogue)} products). The task is "
                "of another catalogue; use the files that it was made from."
            )
        mapped = {str(k): str(v) for k, v in options.items()} if isinstance(options, dict) else tuple(map(str, options))
        attributes = tuple(map(str, data["attributes"]))
        if not attributes:
            raise ValueError("no attributes")
        return Goal(product, str(data["text"]), attributes, mapped, float(data["price_upper"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{where}: its goal is not usable ({error!r}); expected asin, text, attributes, options and price_upper. "
            "Make the task with tasks()."
        ) from error
