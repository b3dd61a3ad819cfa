"""What the shop's pages show: the visible texts in order, and what can be clicked.

A page is a list of nodes ``(kind, text)``. ``text`` mode joins the stripped texts by `` [SEP] ``; ``text_rich`` marks
buttons and what was clicked. Which texts appear at all follows the original, which reads them back from HTML: an
empty text has no node, one of blanks alone becomes a single blank, and one of blanks with a line break is dropped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from agentgym.environments.webshop.products import PAGE, Product

Node = tuple[str, str]
#: kinds of nodes
TEXT: Final = "text"
BUTTON: Final = "button"
OPTION: Final = "option"
LINK: Final = "link"

SEP: Final = " [SEP] "
BACK: Final = (BUTTON, "Back to Search")
PREV: Final = (BUTTON, "< Prev")
NEXT: Final = (BUTTON, "Next >")
SUB_PAGES: Final = ("Description", "Features", "Reviews", "Attributes")
_BLANKS: Final = " \n\t\f\r"


def _nodes(kind: str, *texts: str) -> list[Node]:
    found = []
    for text in texts:
        if text.strip(_BLANKS):
            found.append((kind, text))
        elif text and "\n" not in text:
            found.append((kind, " "))
    return found


def index_page(instruction: str) -> list[Node]:
    """The start: the instruction and the search bar."""
    return [(TEXT, "WebShop"), (TEXT, "Instruction: "), *_nodes(TEXT, instruction), (BUTTON, "Search")]


def results_page(products: Sequence[Product], page: int, total: int) -> list[Node]:
    """One page of results, without the head; ``Next >`` is there even on the last."""
    nodes = [BACK, (TEXT, f"Page {page} (Total results: {total})")]
    if page > 1:
        nodes.append(PREV)
    nodes.append(NEXT)
    for product in products[(page - 1) * PAGE : page * PAGE]:
        nodes += [(LINK, product.asin), *_nodes(TEXT, product.title, product.price_tag)]
    return nodes


def item_page(product: Product, show_attributes: bool) -> list[Node]:
    """A product, without the head."""
    nodes = [BACK, PREV]
    for name, values in product.options.items():
        nodes += _nodes(TEXT, name) + _nodes(OPTION, *values)
    nodes += _nodes(TEXT, product.title, f"Price: {product.price_tag}", f"Rating: {product.rating}")
    nodes += [(BUTTON, page) for page in SUB_PAGES if page != "Attributes" or show_attributes]
    return [*nodes, (BUTTON, "Buy Now")]


def sub_page(product: Product, page: str) -> list[Node]:
    """Description, Features, Reviews or Attributes of a product, without the head."""
    if page == "Description":
        shown = _nodes(TEXT, product.description)
    elif page == "Features":
        shown = _nodes(TEXT, *(f" {bullet}" for bullet in product.bullets))
    elif page == "Reviews":
        shown = [
            node for r in product.reviews for node in _nodes(TEXT, f'"{r.title}"', r.score, r.body)
        ]  # fmt: skip
    else:
        shown = _nodes(TEXT, *(f" {attribute}" for attribute in product.attributes))
        shown += _nodes(TEXT, product.category, product.query, product.product_category)
    return [BACK, PREV, *shown]


def done_page(asin: str, chosen: Mapping[str, str], score: float) -> list[Node]:
    """What the original shows after the purchase."""
    options = json.dumps(dict(chosen), sort_keys=True)
    for sign, code in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("'", "\\u0027")):
        options = options.replace(sign, code)
    texts = (
        "Thank you for shopping with us!", "Your code: ", "None", " (Paste it in your MTurk interface.)", "Purchased",
        "asin", asin, "options", options, "attrs", "None", "category", "None", "query", "None", "product category",
        "None", "Target", "asin", "options", "attrs", "price upper",
        "instuction text",  # codespell:ignore instuction
        "category", "product category",
        "query", "Goal ", "None", "Reward", "Your score (min 0.0, max 1.0)", str(score), "Reward Details ", "None",
    )  # fmt: skip
    return [(TEXT, text) for text in texts]


def head(instruction: str) -> list[Node]:
    """What every page but the first and the last begins with."""
    return [(TEXT, "Instruction:"), *_nodes(TEXT, instruction)]


def plain(nodes: Iterable[Node]) -> str:
    """The ``text`` observation."""
    return SEP.join([text.strip() for _, text in nodes])


def rich(nodes: Iterable[Node], address: str, seen: frozenset[str]) -> str:
    """The ``text_rich`` observation. ``address``: the page's URL, where the original looks for what was chosen."""
    shown = ""
    for kind, text in nodes:
        if kind == BUTTON:
            line = f"[button] {text} [button_]"
        elif kind == OPTION and f'"{text}"' in address:
            line = f"  [clicked button] {text} [clicked button_]"
            shown = f"You have clicked {text}.\n{shown}"
        elif kind == OPTION:
            line = f"  [button] {text} [button_]"
        elif kind == LINK:
            mark = "clicked button" if text in seen else "button"
            line = f"\n[{mark}] {text} [{mark}_]"
        else:
            line = text
        shown += line + "\n"
    return shown


def clickables(nodes: Iterable[Node], options: Mapping[str, Sequence[str]] | None = None) -> tuple[str, ...]:
    """What can be clicked, in the original's order: buttons, links, option values; equal texts once."""
    nodes = list(nodes)
    found = dict.fromkeys(text.lower() for kind, text in nodes if kind == BUTTON)
    found |= dict.fromkeys(text.lower() for kind, text in nodes if kind == LINK)
    for values in (options or {}).values():
        found |= dict.fromkeys(values)
    return tuple(found)
