"""Splits as task sets, and the world of a task: catalogue, goal and prices."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from agentgym.environments.webshop.data import check_size, load
from agentgym.environments.webshop.generated import GENERATED_SPLITS, generated_catalogue, generated_goals
from agentgym.environments.webshop.goals import (
    SPLITS,
    Entry,
    PriceTables,
    goal_data,
    ordered_goals,
    read_goal,
    split_goals,
)  # fmt: skip
from agentgym.environments.webshop.products import Catalogue
from agentgym.environments.webshop.reward import Goal
from agentgym.environments.webshop.words import CATEGORIES
from agentgym.errors import ConfigError, DataError, unknown
from agentgym.seeding import python_rng
from agentgym.types import Task, TaskSet

ALL_SPLITS: Final = ("train", "eval", "test", *GENERATED_SPLITS)
#: product categories: the original's five, then what only the generated catalogue has
_ORIGINAL: Final = ("beauty", "electronics", "fashion", "garden", "grocery")
CATEGORY_NAMES: Final = (*_ORIGINAL, *(name for name in CATEGORIES if name not in _ORIGINAL))
_GENERATED: Final = "generated"


@dataclass(frozen=True, slots=True)
class Source:
    """Where goals come from; the fields are options of :class:`~agentgym.environments.webshop.env.WebShop`."""

    data: str | None
    products: str
    goals: str
    prices: str
    price_seed: int


class _Splits:
    """The goals of a source by split; made once per process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[tuple[Any, ...], dict[str, list[Entry]]] = {}

    def get(self, catalogue: Catalogue, source: Source, generated: bool) -> dict[str, list[Entry]]:
        key = (catalogue.hash, generated, source.goals, source.prices, source.price_seed)
        with self._lock:
            if key not in self._made:
                if len(self._made) >= 4:
                    self._made.pop(next(iter(self._made)))
                if generated:
                    made = generated_goals(catalogue, source.price_seed, source.prices)
                else:
                    made = split_goals(ordered_goals(catalogue, source.goals, source.price_seed, source.prices))
                self._made[key] = made
            return self._made[key]


_SPLITS: Final = _Splits()
_PRICES: Final = PriceTables()


def split_tasks(split: str, source: Source, kinds: Any = None, n: int | None = None, seed: int = 0) -> TaskSet:
    """The tasks of a split in the order of the goals. ``kinds``: categories to keep; ``n``: so many, by ``seed``."""
    if split not in ALL_SPLITS:
        raise unknown("split of environment 'webshop'", str(split), ALL_SPLITS)
    generated = split in GENERATED_SPLITS
    if generated and source.goals != "synthetic":
        raise ConfigError(f"webshop split {split!r}: the generated catalogue has synthetic goals only")
    catalogue = generated_catalogue() if generated else load(source.products, source.data)
    entries = _SPLITS.get(catalogue, source, generated)[split]
    name = f"webshop/{split}"
    if kinds is not None:
        entries = _of_kinds(entries, kinds, name)
    if n is not None:
        entries = _drawn(entries, n, seed, name)
    if not entries:
        low, high = SPLITS.get(split, (0, None))
        raise DataError(
            f"{name}: no goals. {catalogue.source} has none at positions {low} to {high or 'the end'} of its "
            f"{source.goals} goals (kinds: {kinds or 'all'})."
        )
    products = _GENERATED if generated else source.products
    return TaskSet((_task(entry, split, catalogue, source, products) for entry in entries), name)


def _task(entry: Entry, split: str, catalogue: Catalogue, source: Source, products: str) -> Task:
    data = {
        "products": products,
        "catalogue": catalogue.hash,
        "prices": source.prices,
        "price_seed": source.price_seed,
        "goals": source.goals,
        "goal": goal_data(entry.goal),
    }
    product = entry.goal.product
    return Task("webshop", f"{entry.position:05d}-{product.asin}", split, source.price_seed, product.category, data)


def _of_kinds(entries: list[Entry], kinds: Any, name: str) -> list[Entry]:
    wanted = [kinds] if isinstance(kinds, str) else kinds
    if not isinstance(wanted, list | tuple):
        raise ConfigError(f"{name}: kinds must be a list of product categories, got {kinds!r}")
    known = {entry.goal.product.category for entry in entries}
    for kind in wanted:
        if kind not in known and kind not in CATEGORY_NAMES:
            raise unknown("WebShop product category", str(kind), known | set(CATEGORY_NAMES))
    return [entry for entry in entries if entry.goal.product.category in wanted]


def _drawn(entries: list[Entry], n: int, seed: int, name: str) -> list[Entry]:
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= len(entries):
        raise ConfigError(f"{name}: n must be an integer from 1 to {len(entries)} (the goals there are), got {n!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ConfigError(f"{name}: seed must be an integer >= 0, got {seed!r}")
    rng: random.Random = python_rng("webshop subset", seed)
    return [entries[k] for k in sorted(rng.sample(range(len(entries)), n))]


def world_of(task: Task, data: str | None) -> tuple[Catalogue, Goal, Mapping[str, float]]:
    """Catalogue, goal and prices of a task, perhaps made on another machine. DataError where they do not fit."""
    where = f"webshop task {task.name!r}"
    content = task.data
    if not isinstance(content, Mapping) or "goal" not in content or "catalogue" not in content:
        raise DataError(f"{where}: its data must hold 'catalogue' and 'goal'. Make the task with tasks().")
    products = content.get("products")
    catalogue = generated_catalogue() if products == _GENERATED else load(check_size(products), data)
    if catalogue.hash != content["catalogue"]:
        raise DataError(
            f"{where}: it was made from a catalogue with hash {content['catalogue']}, but {catalogue.source} has hash "
            f"{catalogue.hash} ({len(catalogue)} products). Use the files (or the agentgym version) that the task was "
            "made from, or make the tasks again with tasks()."
        )
    if not isinstance(content["goal"], Mapping):
        raise DataError(f"{where}: its goal must be an object. Make the task with tasks().")
    seed, pricing = content.get("price_seed"), content.get("prices")
    if isinstance(seed, bool) or not isinstance(seed, int) or not isinstance(pricing, str):
        raise DataError(f"{where}: its data needs a whole 'price_seed' and a 'prices', got {seed!r} and {pricing!r}")
    prices = _PRICES.get(catalogue, seed, pricing)
    return catalogue, read_goal(content["goal"], catalogue, where), prices
