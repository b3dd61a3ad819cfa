"""A headless Chromium for tests of pages: no network, every console message and request noted.

Tests that use ``browser`` are skipped where Chromium or Playwright is missing, and fail there when
``AGENTGYM_REQUIRE_BROWSER`` is 1, as in CI. The fixture is per module: Playwright's loop must not run under others.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
TIMEOUT = 60_000  # milliseconds; machines under load are slow


def _missing(what: str) -> None:
    if os.environ.get("AGENTGYM_REQUIRE_BROWSER") == "1":
        pytest.fail(f"AGENTGYM_REQUIRE_BROWSER is 1, but {what}")
    pytest.skip(what)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, started once for a module."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("playwright is not installed: pip install playwright")
        return
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        _missing("Chromium is not installed: apt-get install --no-install-recommends chromium")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=arguments, timeout=TIMEOUT)
        yield started
        started.close()


@dataclass
class Watched:
    """A page and what it did that it should not."""

    page: Any
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Nothing was logged, nothing failed, nothing was asked for that is not a page of ours."""
        assert not self.console, self.console
        assert not self.requests, self.requests
        assert self.page.evaluate("window.owned") is None


class Opener:
    """Opens pages, each in a context of its own, and checks all of them at the end."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.opened: list[Watched] = []

    def __call__(self, where: Path | str, *, phone: bool = False, dark: bool = False, ready: bool = False) -> Watched:
        size = {"width": 390, "height": 844} if phone else {"width": 1300, "height": 900}
        context = self.browser.new_context(viewport=size, color_scheme="dark" if dark else "light")
        context.set_default_timeout(TIMEOUT)
        watched = Watched(context.new_page())
        page = watched.page
        page.on("console", lambda message: watched.console.append(message.text))
        page.on("pageerror", lambda error: watched.console.append(str(error)))
        page.on("dialog", lambda dialog: (watched.console.append("dialog"), dialog.dismiss()))
        url = where.as_uri() if isinstance(where, Path) else where
        allowed = "file://" if url.startswith("file://") else url.split("?")[0]

        def decide(route: Any) -> None:
            asked = route.request.url
            if asked.startswith(allowed) and route.request.resource_type == "document":
                route.continue_()
            else:
                watched.requests.append(asked)
                route.abort()

        context.route("**/*", decide)
        page.goto(url)
        if ready:
            page.wait_for_selector("html[data-ready]")
        self.opened.append(watched)
        return watched


@pytest.fixture
def open_page(browser: Any) -> Iterator[Opener]:
    """Open a file or an address and get a :class:`Watched`; all are checked and closed after the test."""
    opener = Opener(browser)
    yield opener
    for watched in opener.opened:
        watched.check()
        watched.page.context.close()


def overflow(page: Any) -> int:
    """Pixels by which the page itself scrolls sideways."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


#: controls without a name, tables without heads, ids that are there twice, images: what a screen reader stumbles over
PROBLEMS = (HERE / "web/problems.js").read_text()

#: the least contrast of texts to what lies behind them, over the elements of a selector
CONTRAST = (HERE / "web/contrast.js").read_text()
