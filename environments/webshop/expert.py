"""A known good way through the shop: find the goal's product, choose its options, buy.

It searches with words of the goal, opens the product, and clicks values that the reward accepts for every goal option:
the asked ones, or where the original's comparison rejects these (see :mod:`~agentgym.environments.webshop.reward`)
others that it accepts. It answers from every state of a visit.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentgym.environments.webshop.products import PAGE, Product
from agentgym.environments.webshop.reward import Goal, fulfils, option_hits
from agentgym.environments.webshop.shop import DONE, INDEX, ITEM, RESULTS, Shop


class Expert:
    """Advises one visit. ``query`` and ``options`` are worked out once, when first asked for."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._query: str | None = None
        self._options: dict[str, str] | None = None

    def advise(self) -> str | None:
        """The next action; None after the purchase."""
        shop, target, kind = self._shop, self._shop.goal.product, self._shop.state.kind
        if kind == DONE:
            return None
        if kind == INDEX:
            self._query = self._query or query_for(shop)
            return f"search[{self._query}]"
        if kind == RESULTS:
            return self._towards(target)
        if kind == ITEM and shop.product is target:
            return self._choose(target)
        if kind == ITEM and target not in shop.hits:
            return "click[back to search]"
        return "click[< prev]"

    def _towards(self, target: Product) -> str:
        hits, page = self._shop.hits, self._shop.state.page
        if target not in hits:
            return "click[back to search]"
        wanted = hits.index(target) // PAGE + 1
        if wanted == page:
            return f"click[{target.asin.lower()}]"
        return "click[next >]" if wanted > page else "click[< prev]"

    def _choose(self, target: Product) -> str:
        if self._options is None:
            self._options = options_for(self._shop.goal, self._shop.shared.owners(target))
        chosen = self._shop.chosen
        for name, value in self._options.items():
            if chosen.get(name) != value:
                return f"click[{value}]"
        return "click[buy now]"


def query_for(shop: Shop) -> str:
    """The first query of the goal's words that shows the product on the first page, else the one that ranks it best."""
    goal = shop.goal
    product = goal.product
    values = goal.options.values() if isinstance(goal.options, Mapping) else goal.options
    words = f"{' '.join(goal.attributes)} {product.query}"
    best, place = "", 0
    for query in (words, f"{words} {' '.join(values)}", goal.text, product.title):
        query = " ".join(query.replace("[", " ").replace("]", " ").lower().split())
        hits = shop.catalogue.search(query)
        if product in hits and (not best or hits.index(product) < place):
            best, place = query, hits.index(product)
        if best and place < PAGE:
            return best
    return best or f"<q> {product.query}"


def options_for(goal: Goal, owners: Mapping[str, str]) -> dict[str, str]:
    """Option name -> value to click, fulfilling as many goal options as possible. ``owners``: value -> its option."""
    if isinstance(goal.options, Mapping):
        asked = {name.lower(): value for name, value in goal.options.items()}
    else:
        asked = {owners[value]: value for value in goal.options if value in owners}
    asked = {name: value for name, value in asked.items() if owners.get(value) == name}
    if option_hits(goal, asked.values()) == len(goal.options):
        return asked
    return max((asked, _assign(goal, owners)), key=lambda made: option_hits(goal, made.values()))


def _assign(goal: Goal, owners: Mapping[str, str]) -> dict[str, str]:
    """One value for each option, so that as many goal options as possible are fulfilled; the rarest choice first."""
    fitting = [[value for value in owners if fulfils(value, wanted)] for wanted in goal.wanted]
    best: dict[str, str] = {}

    def extend(made: dict[str, str], left: list[list[str]], tries: int) -> None:
        nonlocal best
        if option_hits(goal, made.values()) > option_hits(goal, best.values()):
            best = dict(made)
        if not left or tries <= 0:
            return
        for value in left[0][:8]:
            if owners[value] not in made:
                extend({**made, owners[value]: value}, left[1:], tries - 1)
        extend(made, left[1:], tries - 1)

    extend({}, sorted(fitting, key=len), 8)
    return best
