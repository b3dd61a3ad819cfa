"""The site in Chromium: from disk and from a server, nothing is asked of any other machine."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from browsers import TIMEOUT

PAGES = ["index.html", "tutorial.html", "concepts.html", "credit.html", "environments/quest.html",
         "reference/environment.html"]  # fmt: skip


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def opened(browser: Any, url: str, allowed: str) -> tuple[Any, list[str], list[str]]:
    """A page, the addresses it asked for outside ``allowed``, and its script errors."""
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    context.set_default_timeout(TIMEOUT)
    page, asked, errors = context.new_page(), [], []
    page.on("pageerror", lambda error: errors.append(str(error)))

    def decide(route: Any) -> None:
        if route.request.url.startswith((allowed, "data:", "blob:")):
            route.continue_()
        else:
            asked.append(route.request.url)
            route.abort()

    context.route("**/*", decide)
    page.goto(url)
    return page, asked, errors


@pytest.mark.parametrize("name", PAGES)
def test_pages_open_from_disk_without_network(browser: Any, site: Path, name: str) -> None:
    page, asked, _ = opened(browser, (site / name).as_uri(), "file://")
    page.wait_for_load_state("networkidle")
    assert page.locator("article h1").count() == 1
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.md-header')).position") == "sticky"
    )  # it has its style
    for image in page.locator("article img").all():
        assert image.evaluate("image => image.complete && image.naturalWidth > 0")
    assert asked == []
    page.context.close()


def test_the_picture_is_shown_where_the_readme_has_mermaid(browser: Any, site: Path) -> None:
    page, _, _ = opened(browser, (site / "index.html").as_uri(), "file://")
    assert page.locator("article img[src$='data-flow.svg']").count() == 1
    page.context.close()


def test_search_finds_a_page_from_a_server_without_other_machines(browser: Any, address: str) -> None:
    page, asked, errors = opened(browser, address, address)
    page.locator(".md-search__input").first.fill("SimUtil")
    page.wait_for_selector(".md-search-result__item")
    assert "credit.html" in "".join(
        link.get_attribute("href") or "" for link in page.locator(".md-search-result__link").all()
    )
    page.wait_for_load_state("networkidle")
    assert (asked, errors) == ([], [])
    page.context.close()
