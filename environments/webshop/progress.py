"""Milestones of a visit, from the shop's own facts; never going back.

* ``found``: a search whose results (any page) hold the goal's product: a fitting query
* ``opened``: the page of a product of the right type was opened (its type reward is 1)
* ``chosen``: on such a page, every goal option was chosen, as the reward compares them; absent if the goal has none
* ``affordable``: such a page was opened and the product's price is within the limit; absent if there is no limit
"""

from __future__ import annotations

from agentgym.environments.webshop.products import Product
from agentgym.environments.webshop.reward import NO_LIMIT, option_hits, type_reward
from agentgym.environments.webshop.shop import ITEM, RESULTS, Shop


class Progress:
    """Follows one visit. ``reached`` is ordered as ``names``. Call :meth:`update` after every executed action."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        names = ["found", "opened"]
        if shop.goal.options:
            names.append("chosen")
        if shop.goal.price_upper < NO_LIMIT:
            names.append("affordable")
        self.names = tuple(names)
        self._right: dict[str, bool] = {}
        self.reached: tuple[str, ...] = ()

    def update(self) -> None:
        """Add what the present page has reached."""
        if len(self.reached) == len(self.names):
            return
        shop, goal, now = self._shop, self._shop.goal, set(self.reached)
        kind = shop.state.kind
        if kind == RESULTS and goal.product in shop.hits:
            now.add("found")
        product = shop.product
        if kind == ITEM and product is not None and self._fits(product):
            now.add("opened")
            if shop.price(product) <= goal.price_upper:
                now.add("affordable")
            if option_hits(goal, shop.chosen.values()) == len(goal.options):
                now.add("chosen")
        if len(now) > len(self.reached):
            self.reached = tuple(name for name in self.names if name in now)

    def _fits(self, product: Product) -> bool:
        if product.asin not in self._right:
            self._right[product.asin] = type_reward(product, self._shop.goal)["r_type"] == 1.0
        return self._right[product.asin]
