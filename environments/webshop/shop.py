"""The shop as a state machine: one visit of one customer, page by page, as the original server behaves.

Its oddities are kept: a search works from every page; ``click[search]`` does nothing; ``< Prev`` on a product forgets
the chosen options; where a page's address contains the name of another kind of page (a query may), ``< Prev`` takes it
for that kind; a query of ``<r>``, ``<c> CATEGORY``, ``<q> QUERY`` or ``<a> ATTRIBUTE`` lists products without ranking.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from agentgym.environments.webshop import pages
from agentgym.environments.webshop.pages import SEP, Node
from agentgym.environments.webshop.products import HITS, Catalogue, Product
from agentgym.environments.webshop.reward import Goal, reward
from agentgym.seeding import python_rng

#: observation modes; ``state`` is ``text`` with the chosen options, and is ours
MODES: Final = ("text", "text_rich", "state")
INDEX: Final = ""
RESULTS: Final = "search_results"
ITEM: Final = "item_page"
SUB: Final = "item_sub_page"
DONE: Final = "done"
_SUB_PAGES: Final = {page.lower(): page for page in pages.SUB_PAGES}


def parse_action(action: str) -> tuple[str, str | None]:
    """``name[argument]`` as the original's ``(.+)\\[(.+)\\]`` reads it, in linear time; else (action, None).

    The first line counts; the name ends at the last bracket that leaves an argument; text behind ``]`` is ignored.
    """
    line = action.partition("\n")[0]
    end = line.rfind("]")
    start = line.rfind("[", 1, end - 1) if end >= 3 else -1
    return (action, None) if start < 0 else (line[:start], line[start + 1 : end])


class State(NamedTuple):
    """All that changes during a visit. Immutable: a snapshot is the state itself."""

    kind: str = INDEX
    query: str = ""
    page: int = 1
    asin: str = ""
    sub: str = ""
    options: tuple[tuple[str, str], ...] = ()
    seen: frozenset[str] = frozenset()
    searches: int = 0
    score: float | None = None


class _Page(NamedTuple):
    """What of a page does not depend on the goal or on what was chosen."""

    nodes: tuple[Node, ...]
    text: str
    buttons: tuple[str, ...]
    clicks: frozenset[str]


def _page(nodes: list[Node], options: Mapping[str, tuple[str, ...]] | None = None) -> _Page:
    buttons = pages.clickables(nodes, options)
    return _Page(tuple(nodes), pages.plain(nodes), buttons, frozenset(buttons))


class Pages:
    """The fixed parts of a catalogue's pages, each made once."""

    def __init__(self, catalogue: Catalogue, show_attributes: bool) -> None:
        self._show = show_attributes
        self.item: Callable[[Product], _Page] = lru_cache(4096)(self._item)
        self.sub: Callable[[Product, str], _Page] = lru_cache(4096)(lambda p, s: _page(pages.sub_page(p, s)))
        self.owners: Callable[[Product], dict[str, str]] = lru_cache(4096)(self._owners)
        self.results: Callable[[tuple[Product, ...], int], _Page] = lru_cache(1024)(self._results)
        self.catalogue = catalogue

    def _item(self, product: Product) -> _Page:
        return _page(pages.item_page(product, self._show), product.options)

    @staticmethod
    def _results(products: tuple[Product, ...], page: int) -> _Page:
        return _page(pages.results_page(products, page, len(products)))

    @staticmethod
    def _owners(product: Product) -> dict[str, str]:
        """Option value -> the option it chooses; where two have the same value, the last one."""
        return {value: name.lower() for name, values in product.options.items() for value in values}


class Shop:
    """One visit with one goal. ``prices``: what each product costs; ``seed``: of random listings."""

    def __init__(self, shared: Pages, goal: Goal, prices: Mapping[str, float], mode: str, seed: int) -> None:
        self.shared = shared
        self.catalogue = shared.catalogue
        self.goal = goal
        self._prices = prices
        self._mode = mode
        self._seed = seed
        self._front = _page(pages.index_page(goal.text))
        self._head = pages.head(goal.text)
        self._head_text = pages.plain(self._head) + SEP
        self.state = State()
        self._hits: tuple[str, tuple[Product, ...]] = ("", ())
        self.info: dict[str, Any] = {}
        self._show()

    @property
    def product(self) -> Product | None:
        """The product whose page is open."""
        return self.catalogue.get(self.state.asin) if self.state.asin else None

    @property
    def chosen(self) -> dict[str, str]:
        """The chosen options of the open product."""
        return dict(self.state.options)

    @property
    def buttons(self) -> tuple[str, ...]:
        """What can be clicked, as the original lists it."""
        return self._current.buttons

    @property
    def hits(self) -> tuple[Product, ...]:
        """All results of the present query."""
        return self._hits[1]

    def price(self, product: Product) -> float:
        """What a product costs, in dollars."""
        return self._prices[product.asin]

    def act(self, action: str) -> bool:
        """Execute an action; False where the shop does nothing."""
        name, argument = parse_action(action)
        if argument is None or self.state.kind == DONE:
            return False
        argument = argument.lower()
        if name == "search":
            self._search(argument, 1, fresh=True)
        elif name == "click" and argument in self._current.clicks and argument != "search":
            self._click(argument)
        else:
            return False
        self._show()
        return True

    def restore(self, state: State) -> None:
        """Go back to a state of this visit."""
        self.state = state
        self._hits = (state.query, self._list(state.query)) if state.query else ("", ())
        if state.score is not None and self.product is not None:
            self.info = reward(self.product, self.goal, self.price(self.product), self.chosen)[1]
        self._show()

    # What each click does

    def _click(self, name: str) -> None:
        state = self.state
        if name == "buy now":
            self._buy()
        elif name == "back to search":
            self.state = State(searches=state.searches)
        elif name == "next >" and self._where() == RESULTS:
            self._search(state.query, state.page + 1)
        elif name == "< prev" and self._where() == RESULTS:
            self._search(state.query, state.page - 1)
        elif name == "< prev" and self._where() == ITEM:
            self._search(state.query, state.page)
        elif name in _SUB_PAGES:
            self.state = state._replace(kind=SUB, sub=_SUB_PAGES[name])
        else:
            self._open(name)

    def _open(self, name: str) -> None:
        state = self.state
        if state.kind == RESULTS:
            asin = name.upper()
            self.state = state._replace(kind=ITEM, asin=asin, sub="", seen=state.seen | {asin})
            return
        owner = self.shared.owners(self._opened()).get(name) if state.kind == ITEM else None
        options = state.options
        if owner is not None:
            options = tuple({**dict(options), owner: name}.items())
        self.state = state._replace(kind=ITEM, sub="", options=options)

    def _buy(self) -> None:
        product = self._opened()
        score, self.info = reward(product, self.goal, self.price(product), self.chosen)
        self.state = self.state._replace(kind=DONE, score=score)

    def _opened(self) -> Product:
        product = self.product
        assert product is not None, "an item page without a product"
        return product

    def _where(self) -> str:
        """The kind of page that the address says; a query or an option may contain the name of another."""
        if self.state.kind == RESULTS:
            return RESULTS
        address = f"{self.state.kind}/{self._address()}"
        return next((kind for kind in (RESULTS, ITEM, SUB) if kind in address), self.state.kind)

    def _address(self) -> str:
        state = self.state
        query = state.query.replace(" ", "+")
        return f"{state.asin}/{query}/{state.page}/{state.sub}/{json.dumps(dict(state.options))}"

    # Search

    def _search(self, query: str, page: int, fresh: bool = False) -> None:
        searches = self.state.searches + 1
        self.state = self.state._replace(
            kind=RESULTS, query=query, page=page, asin="", sub="", options=(), searches=searches
        )
        if fresh or query.startswith("<r>") or self._hits[0] != query:
            self._hits = (query, self._list(query))

    def _list(self, query: str) -> tuple[Product, ...]:
        first, *rest = query.split(" ")
        text, products = " ".join(rest).strip(), self.catalogue.products
        if first == "<r>":
            rng: random.Random = python_rng("webshop random listing", self._seed, self.state.searches)
            return tuple(rng.sample(products, min(HITS, len(products))))
        if first == "<a>":
            return tuple(p for p in products if text in p.attributes)
        if first == "<c>":
            wanted = rest[0].strip() if rest else ""
            return tuple(p for p in products if p.category == wanted)
        if first == "<q>":
            return tuple(p for p in products if p.query == text)
        return self.catalogue.search(query)

    # What is shown

    def _show(self) -> None:
        state = self.state
        if state.kind == INDEX:
            self._current = self._front
        elif state.kind == RESULTS:
            self._current = self.shared.results(self._hits[1], state.page)
        elif state.kind == ITEM:
            self._current = self.shared.item(self._opened())
        elif state.kind == SUB:
            self._current = self.shared.sub(self._opened(), state.sub)
        else:
            self._current = _page(pages.done_page(state.asin, self.chosen, state.score or 0.0))

    @property
    def text(self) -> str:
        """The observation in the chosen mode."""
        state, page = self.state, self._current
        headed = state.kind in (RESULTS, ITEM, SUB)
        if self._mode == "text_rich":
            nodes = [*self._head, *page.nodes] if headed else page.nodes
            return pages.rich(nodes, self._address() if state.kind == ITEM else "", state.seen)
        text = self._head_text + page.text if headed else page.text
        if self._mode == "state" and state.kind in (ITEM, SUB):
            chosen = ", ".join(f"{name}: {value}" for name, value in state.options)
            text += f"{SEP}Chosen options: {chosen or 'none'}"
        return text
