"""WebShop's reward of a purchase, with its breakdown; the original's oddities included.

Yao et al., "WebShop", 2022, section 3.2::

    r = r_type * (attribute hits + option hits + [price <= limit]) / (attributes + options + 1)

The oddities, all of the original code and reproduced:

* options of a synthetic goal are (name, value) pairs, and a pair, not its value, is compared with what was bought: its
  text holds the name too, and only a value that *is* a colour is reduced to it, while every bought value is reduced to
  the first colour it contains. Hence ``large`` fulfils ``x-large``, ``light blue`` fulfils ``blue``, and now and then
  the right value fulfils nothing (``standard`` contains ``tan``).
* an attribute also counts where it is written in the title, the bullet points or the description.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from rapidfuzz import fuzz, utils

from agentgym.environments.webshop.products import Product

#: a limit for goals whose price has none
NO_LIMIT: Final = 1000000
_ENOUGH: Final = 85
_LATIN1: Final = dict.fromkeys(range(128, 256))
#: title score of a goal whose title has no noun
_NO_NOUNS: Final = 0.2
#: colour words in the order they are looked for; the first one contained in a value replaces it (princeton-nlp/WebShop)
_COLOURS_TEXT: Final = (
    "alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel "
    "camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry "
    "cream crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey "
    "heather indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight "
    "mint mocha multicolor mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow "
    "red rose royal rust sand sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal "
    "tiger turquoise violet walnut wheat white wine yellow"
)
COLOURS: Final = _COLOURS_TEXT.split()


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be bought: ``product`` is the one the goal was made of, others may do as well.

    ``options``: a mapping name -> value (synthetic goals) or a tuple of values (human goals).
    """

    product: Product
    text: str
    attributes: tuple[str, ...]
    options: Mapping[str, str] | tuple[str, ...]
    price_upper: float

    @property
    def wanted(self) -> tuple[str | tuple[str, str], ...]:
        """The options as the reward compares them: pairs of a synthetic goal, values of a human one."""
        return tuple(self.options.items()) if isinstance(self.options, Mapping) else tuple(self.options)

    @property
    def parts(self) -> int:
        """The denominator of the reward."""
        return len(self.attributes) + len(self.options) + 1


def _plain(text: str) -> str:
    """thefuzz drops the upper half of Latin-1, lowers, and makes all that is no letter or digit a space."""
    return utils.default_process(text.translate(_LATIN1))


def alike(one: str, other: str) -> bool:
    """thefuzz's ``token_set_ratio(one, other) > 85``."""
    return round(fuzz.token_set_ratio(_plain(one), _plain(other))) > _ENOUGH


@lru_cache(maxsize=65536)
def _colour_of(value: str) -> str:
    return next((colour for colour in COLOURS if colour in value), value)


@lru_cache(maxsize=65536)
def fulfils(bought: str, wanted: str | tuple[str, str]) -> bool:
    """Does a chosen option value fulfil a goal option?"""
    if isinstance(wanted, tuple):  # "in" on a pair asks for an element, not for a part of the text
        text = next((colour for colour in COLOURS if colour in wanted), None) or str(wanted)
    else:
        text = _colour_of(wanted)
    return alike(_colour_of(bought), text)


def option_hits(goal: Goal, chosen: Iterable[str]) -> int:
    """How many goal options the chosen values fulfil."""
    values = list(chosen)
    return sum(any(fulfils(value, wanted) for value in values) for wanted in goal.wanted)


def _attribute_hits(product: Product, goal: Goal) -> int:
    hits, texts = 0, None
    for wanted in goal.attributes:
        if any(alike(has, wanted) for has in product.attributes):
            hits += 1
        else:
            texts = texts or product.texts
            hits += any(wanted in text for text in texts)
    return hits


def type_reward(product: Product, goal: Goal) -> dict[str, Any]:
    """``r_type`` in {0, 0.1, 0.5, 1} with ``query_match``, ``category_match`` and ``title_score``."""
    target = goal.product
    query_match = product.query == target.query
    category_match = len(product.categories & target.categories) >= 2
    common = len(set(product.nouns) & set(target.nouns))
    title_score = common / len(target.nouns) if target.nouns else _NO_NOUNS
    r_type = 1.0 if query_match or category_match or title_score > 0.2 else 0.5
    if title_score < 0.1:
        r_type = 0.1
    if title_score == 0.0:
        r_type = 0.0
    return {
        "r_type": r_type, "query_match": query_match, "category_match": category_match, "title_score": title_score,
    }  # fmt: skip


def reward(product: Product, goal: Goal, price: float, chosen: Mapping[str, str]) -> tuple[float, dict[str, Any]]:
    """Score in [0, 1] of buying ``product`` at ``price`` dollars with the ``chosen`` options, and its breakdown."""
    kind = type_reward(product, goal)
    attributes, parts = _attribute_hits(product, goal), goal.parts
    options = option_hits(goal, chosen.values())
    cheap = price <= goal.price_upper
    total = (attributes + options + cheap) / parts
    total *= kind["r_type"]
    info = {
        "r_type": kind["r_type"],
        "r_att": attributes / len(goal.attributes),
        "w_att": len(goal.attributes) / parts,
        "query_match": kind["query_match"],
        "category_match": kind["category_match"],
        "title_score": kind["title_score"],
    }
    if goal.options:
        info |= {"r_option": options / len(goal.options), "w_option": len(goal.options) / parts}
    info |= {"r_price": cheap, "w_price": 1 / parts}
    return total, info
