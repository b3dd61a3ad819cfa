"""Pages, clicks and observations of the shop, step by step. Expected texts: the original's templates and parser."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.environments.webshop.products import Catalogue
from agentgym.environments.webshop.shop import Shop, parse_action

from .conftest import products, visit

HEAD = "Instruction: [SEP] Find me loafers [SEP] "
RESULTS = (
    HEAD + "Back to Search [SEP] Page 1 (Total results: 2) [SEP] Next > [SEP] B0SHOE0002 [SEP] Bolt Canvas Loafers "
    "[SEP] $60.0 to $80.0 [SEP] B0SHOE0001 [SEP] Acme Leather Loafers [SEP] $42.0"
)
ITEM = (
    HEAD + "Back to Search [SEP] < Prev [SEP] size [SEP] 8 [SEP] large [SEP] x-large [SEP] color [SEP] yellow [SEP] "
    "light blue [SEP] été [SEP] fit [SEP] large [SEP] slim [SEP] Acme Leather Loafers [SEP] Price: $42.0 [SEP] "
    "Rating: 4.5 [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
)


def walk(shop: Shop, *actions: str) -> str:
    """The observation after some actions, all of which must do something."""
    for action in actions:
        assert shop.act(action), action
    return shop.text


def test_every_page_in_text_mode(catalogue: Catalogue) -> None:
    shop = visit(catalogue)
    assert shop.text == "WebShop [SEP] Instruction: [SEP] Find me loafers [SEP] Search"
    assert shop.buttons == ("search",)
    assert walk(shop, "search[loafers]") == RESULTS
    assert shop.buttons == ("back to search", "next >", "b0shoe0002", "b0shoe0001")
    assert walk(shop, "click[next >]") == HEAD + (
        "Back to Search [SEP] Page 2 (Total results: 2) [SEP] < Prev [SEP] Next >"
    )
    assert walk(shop, "click[< prev]", "click[b0shoe0001]") == ITEM
    assert shop.buttons == (
        "back to search", "< prev", "description", "features", "reviews", "buy now", "8", "large", "x-large", "yellow",
        "light blue", "été", "slim",
    )  # fmt: skip
    assert walk(shop, "click[description]") == HEAD + "Back to Search [SEP] < Prev [SEP] Made for rain."
    assert shop.buttons == ("back to search", "< prev")
    # an empty bullet point leaves an empty text, one of a line break leaves none
    assert (
        walk(shop, "click[< prev]", "click[features]") == HEAD + "Back to Search [SEP] < Prev [SEP] Soft leather [SEP] "
    )
    assert walk(shop, "click[< prev]", "click[reviews]") == HEAD + (
        'Back to Search [SEP] < Prev [SEP] "Good" [SEP] 4 [SEP] I like them.'
    )
    assert walk(shop, "click[< prev]") == ITEM
    assert walk(shop, "click[< prev]") == RESULTS
    assert walk(shop, "click[back to search]").startswith("WebShop [SEP] ")


def test_attributes_are_a_page_where_they_are_shown(catalogue: Catalogue) -> None:
    shop = visit(catalogue, attributes=True)
    walk(shop, "search[loafers]", "click[b0shoe0001]", "click[attributes]")
    assert shop.text == HEAD + (
        "Back to Search [SEP] < Prev [SEP] rubber sole [SEP] slip resistant [SEP] fashion [SEP] loafers [SEP] "
        "Clothing \u203a Shoes \u203a Loafers"
    )
    hidden = visit(catalogue)
    walk(hidden, "search[loafers]", "click[b0shoe0001]")
    assert not hidden.act("click[attributes]")


def test_the_purchase_ends_the_visit(catalogue: Catalogue) -> None:
    shop = visit(catalogue)
    walk(shop, "search[loafers]", "click[b0shoe0001]", "click[yellow]", "click[8]", "click[buy now]")
    assert shop.state.score == 1.0
    assert shop.text.startswith(
        "Thank you for shopping with us! [SEP] Your code: [SEP] None [SEP] (Paste it in your MTurk interface.) [SEP] "
        'Purchased [SEP] asin [SEP] B0SHOE0001 [SEP] options [SEP] {"color": "yellow", "size": "8"} [SEP] attrs'
    )
    assert shop.text.endswith("Your score (min 0.0, max 1.0) [SEP] 1.0 [SEP] Reward Details [SEP] None")
    assert not shop.act("search[loafers]")
    assert not shop.act("click[buy now]")


def test_choices_are_hidden_in_text_mode_and_shown_in_state_mode(catalogue: Catalogue) -> None:
    shop, shown = visit(catalogue), visit(catalogue, "state")
    for one in (shop, shown):
        walk(one, "search[loafers]", "click[b0shoe0001]")
    assert shown.text == ITEM + " [SEP] Chosen options: none"
    assert walk(shop, "click[yellow]") == ITEM
    assert walk(shown, "click[yellow]", "click[8]") == ITEM + " [SEP] Chosen options: color: yellow, size: 8"
    assert walk(shown, "click[description]").endswith("Made for rain. [SEP] Chosen options: color: yellow, size: 8")


def test_the_last_click_of_an_option_counts_and_equal_values_belong_to_the_last_option(catalogue: Catalogue) -> None:
    shop = visit(catalogue)
    walk(shop, "search[loafers]", "click[b0shoe0001]", "click[yellow]", "click[light blue]", "click[large]")
    assert shop.chosen == {"color": "light blue", "fit": "large"}
    walk(shop, "click[< prev]", "click[b0shoe0001]")
    assert shop.chosen == {}


def test_text_rich_marks_buttons_choices_and_seen_products(catalogue: Catalogue) -> None:
    shop = visit(catalogue, "text_rich")
    assert shop.text == "WebShop\nInstruction: \nFind me loafers\n[button] Search [button_]\n"
    walk(shop, "search[loafers]", "click[b0shoe0001]", "click[yellow]", "click[8]")
    assert shop.text.startswith("You have clicked yellow.\nYou have clicked 8.\nInstruction:\nFind me loafers\n")
    assert "\n  [clicked button] yellow [clicked button_]\n  [button] light blue [button_]\n" in shop.text
    assert "size\n  [clicked button] 8 [clicked button_]\n  [button] large [button_]\n" in shop.text
    assert walk(shop, "click[features]").endswith("[button] < Prev [button_]\n Soft leather \n \n")
    walk(shop, "click[< prev]", "click[été]")
    assert "[button] été [button_]" in shop.text  # the original looks in an address that escapes what is not ASCII
    walk(shop, "click[< prev]")
    assert "\n\n[clicked button] B0SHOE0001 [clicked button_]\nAcme Leather Loafers\n$42.0\n" in shop.text
    assert "\n\n[button] B0SHOE0002 [button_]\n" in shop.text
    walk(shop, "click[back to search]", "search[loafers]")
    assert "[clicked button]" not in shop.text


def test_a_quoted_word_of_the_query_looks_like_a_choice_in_text_rich(catalogue: Catalogue) -> None:
    shop = visit(catalogue, "text_rich")
    walk(shop, 'search["slim" loafers]', "click[b0shoe0001]")
    assert shop.text.startswith("You have clicked slim.\n")
    assert shop.chosen == {}


def test_an_address_that_names_another_page_misleads_prev(catalogue: Catalogue) -> None:
    shop = visit(catalogue)
    walk(shop, "search[loafers search_results]", "click[b0shoe0001]", "click[< prev]")
    assert "Page 0 (Total results: 2)" in shop.text
    walk(shop, "search[loafers item_page]", "click[b0shoe0001]", "click[description]", "click[< prev]")
    assert "Page 1 (Total results: 2)" in shop.text


def test_a_search_works_from_every_page(catalogue: Catalogue) -> None:
    shop = visit(catalogue)
    assert walk(shop, "search[lamp]", "search[loafers]") == RESULTS
    assert walk(shop, "click[b0shoe0001]", "search[loafers]") == RESULTS
    assert walk(shop, "click[b0shoe0001]", "click[description]", "search[loafers]") == RESULTS
    assert "Page 1 (Total results: 0)" in walk(shop, "search[ ]")


def test_listings_without_ranking(catalogue: Catalogue) -> None:
    def listed(action: str) -> list[str]:
        shop = visit(catalogue)
        walk(shop, action)
        return [product.asin for product in shop.hits]

    assert listed("search[<c> garden]") == ["B0LAMP0001"]
    assert listed("search[<c>]") == []
    assert listed("search[<q> loafers]") == listed("search[<a> rubber sole]") == ["B0SHOE0001", "B0SHOE0002"]
    assert sorted(listed("search[<r>]")) == ["B0LAMP0001", "B0SHOE0001", "B0SHOE0002"]
    assert listed("search[<r>]") == listed("search[<r>]")


@pytest.mark.parametrize(
    "action",
    [
        "", "search", "search[]", "click[]", "click[search]", "click[unknown]", "click[b0lamp0001]", "Search[loafers]",
        " search[loafers]", "buy", "click buy now", "x" * 100_000, "[" * 100_000, "]" * 100_000, "\x00", "click[\x00]",
        "search[loafers\n]", "\nsearch[loafers]", "click[[buy now]]", "\ud800",
    ],
)  # fmt: skip
def test_what_is_no_action_leaves_the_page_as_it_is(catalogue: Catalogue, action: str) -> None:
    shop = visit(catalogue)
    before = (shop.text, shop.buttons, shop.state)
    assert not shop.act(action)
    assert (shop.text, shop.buttons, shop.state) == before


@pytest.mark.parametrize(
    "query",
    [
        "x" * 100_000,
        "_" * 100_000,
        "a_" * 50_000,
        "\u200d" * 100_000,
        "red " * 25_000,
        "\x00\x07",
        "\ud800",
        "]" * 1000,
        "❤️" * 1000,
        "' \" <>",
    ],
)
def test_any_query_is_a_search(catalogue: Catalogue, query: str) -> None:
    shop = visit(catalogue)
    assert shop.act(f"search[{query}]")
    assert shop.text.startswith(HEAD + "Back to Search [SEP] Page 1 (Total results: ")


@given(st.text(alphabet="ab[]\n\r\x85", max_size=14))
def test_actions_parse_as_the_originals_expression(action: str) -> None:
    match = re.match(r"(.+)\[(.+)\]", action)
    assert parse_action(action) == (match.groups() if match else (action, None))


def test_a_state_is_a_snapshot() -> None:
    catalogue = Catalogue(products(), "the test's catalogue")
    shop, other = visit(catalogue), visit(catalogue)
    walk(shop, "search[loafers]", "click[b0shoe0001]", "click[yellow]")
    other.restore(shop.state)
    assert (other.text, other.buttons, other.chosen) == (shop.text, shop.buttons, shop.chosen)
    assert walk(other, "click[< prev]") == RESULTS
    walk(shop, "click[buy now]")
    other.restore(shop.state)
    assert (other.text, other.info, other.state.score) == (shop.text, shop.info, shop.state.score)
