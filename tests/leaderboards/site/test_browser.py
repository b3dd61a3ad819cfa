"""The site in Chromium, from disk: sort, filter, open an entry and its episodes; keys, phone, dark, attacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browsers import CONTRAST, PROBLEMS, Opener, overflow
from viewer_episodes import ATTACK

from agentgym.leaderboards.site import build
from agentgym.web import visible


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, entries: Path) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(entries, folder)
    return folder


def labels(page: Any) -> list[str]:
    found = page.locator("table.filtered tbody tr:visible th a").all_inner_texts()
    return ["attack" if "script" in label else label for label in found]


def column(page: Any, name: str) -> Any:
    return page.locator("table.filtered thead th", has_text=name).first


def test_sorting(open_page: Opener, site: Path) -> None:
    page = open_page(site / "boards/sokoban.html").page
    assert labels(page) == ["best", "middle", "attack", "worst", "old"]
    success = column(page, "success")
    success.locator("button").click()  # more is better: most first
    assert labels(page) == ["old", "best", "middle", "attack", "worst"]
    assert success.get_attribute("aria-sort") == "descending"
    success.locator("button").press("Enter")
    assert labels(page) == ["worst", "attack", "middle", "best", "old"]
    assert success.get_attribute("aria-sort") == "ascending"
    column(page, "turns").locator("button").click()  # less is better: least first; the attack has no figure: last
    assert labels(page) == ["old", "best", "middle", "worst", "attack"]
    assert success.get_attribute("aria-sort") is None
    column(page, "Model").locator("button").click()
    assert labels(page)[1:] == ["best", "middle", "old", "worst"]


def test_filtering(open_page: Opener, site: Path) -> None:
    page = open_page(site / "boards/sokoban.html").page
    assert page.inner_text("#count") == "5 of 5 entries"
    page.check("#fresh")
    assert labels(page) == ["best", "middle", "attack", "worst"]
    page.select_option("#kind", "endpoint")
    assert labels(page) == ["best"]
    page.select_option("#kind", "")
    page.fill("#find", "MID")
    assert labels(page) == ["middle"]
    assert page.inner_text("#count") == "1 of 5 entries"


def test_from_the_index_to_an_episode(open_page: Opener, site: Path) -> None:
    page = open_page(site / "index.html").page
    page.click("text=sokoban >> nth=0")
    page.click("table.filtered >> text=middle")
    assert page.inner_text("h1") == "middle"
    assert page.locator("svg.plot .line").count() == 1  # its training curve
    page.click("text=Look at its episodes")
    page.wait_for_selector("html[data-ready]")
    assert page.locator(".episode").count() == 4


def test_a_point_of_a_plot_leads_to_its_entry(open_page: Opener, site: Path) -> None:
    page = open_page(site / "boards/sokoban.html").page
    point = page.locator("svg.plot a").first
    assert point.get_attribute("aria-label").startswith("middle: success 0.5, parameters 500M")
    point.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/entries/*")
    assert page.inner_text("h1") == "middle"


def test_attacks_are_text_and_screen_readers_find_names(open_page: Opener, site: Path) -> None:
    shown = ""
    for path in sorted(site.rglob("*.html")):
        watched = open_page(path, ready="episodes" in path.parts)
        shown += watched.page.inner_text("body")
        assert watched.page.evaluate(PROBLEMS) == [], path.name
        assert watched.page.evaluate("document.querySelectorAll('script:not([type])').length") == 1
        watched.check()
        watched.page.context.close()
    open_page.opened.clear()
    assert visible(ATTACK.replace("\ud800", "")[:60]) in shown


@pytest.mark.parametrize("dark", [False, True])
def test_phone_and_dark(open_page: Opener, site: Path, dark: bool) -> None:
    entry = next(path for path in (site / "entries").iterdir() if "script" in path.name)
    for path in (site / "index.html", site / "boards/sokoban.html", entry):
        page = open_page(path, phone=True, dark=dark).page
        assert overflow(page) <= 0, path.name
        for selector in ("td", "th button", ".note", ".stale", "a", ".heat td", "h1"):
            if page.locator(selector).count():
                assert page.evaluate(CONTRAST, selector) >= 4.5, (path.name, selector)


def test_without_scripts_the_tables_are_whole(browser: Any, site: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "boards/sokoban.html").as_uri())
    assert page.locator("table.filtered tbody tr").count() == 5
    context.close()
