"""Products and the catalogue that holds them: immutable, shared by all episodes of a process."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from agentgym.environments.webshop.bm25 import Index
from agentgym.errors import DataError

#: hits of one search that the shop shows, and how many of them on a page
HITS: Final = 50
PAGE: Final = 10
_KEPT_SEARCHES: Final = 4096


@dataclass(frozen=True, slots=True)
class Review:
    """One review as the shop shows it."""

    title: str
    score: str
    body: str


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: a catalogue holds each once
class Product:
    """One product.

    ``asin``        its id, upper case; links show it in lower case
    ``category``    coarse (``fashion``); ``query``: what it was found by
    ``product_category``  a path, its parts divided by U+203A
    ``prices``      one price, or the two ends of a range, in dollars; ``price_tag``: as shown
    ``options``     option name -> values, both lower case
    ``nouns``       nouns of the title, lower case, with repeats: what the type reward compares
    ``instructions``  human instructions ``{instruction, instruction_attributes, instruction_options}``
    ``request``     start of the synthetic instruction, ``request_attributes``: what it asks for; "" where there is none
    """

    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    category: str
    query: str
    product_category: str
    attributes: tuple[str, ...]
    prices: tuple[float, ...]
    price_tag: str
    options: Mapping[str, tuple[str, ...]]
    nouns: tuple[str, ...] = ()
    rating: str = "N.A."
    reviews: tuple[Review, ...] = ()
    instructions: tuple[Mapping[str, Any], ...] = ()
    request: str = ""
    request_attributes: tuple[str, ...] = ()

    @property
    def document(self) -> str:
        """The text that is searched: title, description, first bullet point and options, in lower case."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options.items())
        first = self.bullets[0] if self.bullets else ""
        return " ".join([self.title, self.description, first, options]).lower()

    @property
    def categories(self) -> frozenset[str]:
        """The parts of the category path."""
        return frozenset(part.strip() for part in self.product_category.split("\u203a"))

    @property
    def texts(self) -> tuple[str, str, str]:
        """Where an attribute also counts if it is written there: title, bullet points, description; lower case."""
        return self.title.lower(), " ".join(self.bullets).lower(), self.description.lower()

    def plain(self) -> list[Any]:
        """Everything as JSON values, for the catalogue's hash."""
        return [
            self.asin, self.title, self.description, self.bullets, self.category, self.query, self.product_category,
            self.attributes, self.prices, self.price_tag, list(self.options.items()), sorted(self.nouns), self.rating,
            [[r.title, r.score, r.body] for r in self.reviews], [dict(i) for i in self.instructions], self.request,
            self.request_attributes,
        ]  # fmt: skip


class Catalogue:
    """Products in their order, an index over them, and a bounded memory of searches. Safe in threads.

    ``source`` names the file or generator for error messages. Raises DataError for an id that occurs twice.
    """

    def __init__(self, products: Sequence[Product], source: str) -> None:
        self.products = tuple(products)
        self.source = source
        self.by_link: dict[str, Product] = {}
        for product in self.products:
            if self.by_link.setdefault(product.asin.lower(), product) is not product:
                raise DataError(f"{source}: product {product.asin!r} occurs twice. Get the file again.")
        self._lock = threading.Lock()
        self._index: Index | None = None
        self._searches: dict[str, tuple[Product, ...]] = {}

    def __len__(self) -> int:
        return len(self.products)

    @cached_property
    def hash(self) -> str:
        """16 hex digits over all that is in the products; equal for every file layout."""
        digest = hashlib.blake2b(digest_size=8)
        for product in self.products:
            digest.update(json.dumps(product.plain(), sort_keys=True, separators=(",", ":")).encode())
        return digest.hexdigest()

    def get(self, asin: str) -> Product | None:
        """The product of an id in any case."""
        return self.by_link.get(asin.lower())

    @property
    def index(self) -> Index:
        """The search index; built at the first search."""
        with self._lock:
            if self._index is None:
                self._index = Index([p.asin for p in self.products], [p.document for p in self.products])
            return self._index

    def search(self, query: str) -> tuple[Product, ...]:
        """The best HITS products for a query."""
        found = self._searches.get(query)
        if found is None:
            index = self.index
            found = tuple(self.products[position] for position, _ in index.search(query, HITS))
            if len(query) <= 1000:  # what is longer is not worth keeping
                with self._lock:
                    if len(self._searches) >= _KEPT_SEARCHES:
                        self._searches.pop(next(iter(self._searches)))
                    self._searches[query] = found
        return found
