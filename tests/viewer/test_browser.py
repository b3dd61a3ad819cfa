"""The page in Chromium: filters, the largest credit, tokens, keys, a phone, the dark, and attacks that do nothing."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsers import CONTRAST, PROBLEMS, Opener, overflow
from viewer_episodes import ATTACK, SIZE, TASKS, known_credit, write_store

from agentgym.viewer import Source, Tokens, make_server, write_html
from agentgym.web import visible


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, store: Path) -> Path:
    out = tmp_path_factory.mktemp("page") / "page.html"
    tokens = Tokens(lambda token: f"word{token}" if token != 4 else ATTACK)
    write_html(out, [Source("doors", store)], title=f"run {ATTACK}", credit=known_credit(), tokens=tokens)
    return out


def state(page: Any) -> str:
    return str(page.inner_text("#state"))


def tasks(page: Any) -> list[str]:
    return list(page.locator("#list .task").all_inner_texts())


def test_attacks_are_text(open_page: Opener, file: Path) -> None:
    page = open_page(file, ready=True).page
    page.click("#list button >> nth=1")  # the task whose name attacks
    page.click("#with-tokens")
    page.wait_for_selector(".tokens")
    shown = page.inner_text("body")
    assert '<script>window.owned=1</script><img src=x onerror="window.owned=1"></script></pre><!-- ]]>' in shown
    for mark in (r"\x1b[2J", r"\x07", r"\u202egnp.exe\u202c", r"zero\u200bwidth", r"\u2028", r"\U000e0041"):
        assert mark in shown, mark
    assert not re.search("[\x00-\x08\x0b-\x1f\u200b-\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]", shown)
    assert page.evaluate("document.querySelectorAll('script').length") == 3
    assert page.evaluate("document.querySelectorAll('main img, main svg, main b, svg[onload]').length") == 0
    assert page.title() == f"run {visible(ATTACK)} - episodes"
    assert page.evaluate(PROBLEMS) == []


def test_the_marks_are_those_of_the_reports(open_page: Opener, tmp_path: Path) -> None:
    """hidden.js and web/text.py have one set of characters."""
    from agentgym.web.text import HIDDEN_RANGES

    every = [*range(0x3100), *range(0xD7F0, 0xE010), *range(0xFD00, 0x10000), *range(0xDFFF0, 0xE1010)]
    text = "".join(map(chr, every))
    script = (Path(__file__).parents[2] / "agentgym/viewer/hidden.js").read_text()
    empty = tmp_path / "empty.html"
    empty.write_text("<!doctype html><title>x</title>")
    page = open_page(empty).page
    found = page.evaluate(f"(codes) => {{ {script}; return codes.map((c) => plain(String.fromCodePoint(c))); }}", every)
    assert found == [visible(character) for character in text]
    assert len(HIDDEN_RANGES) > 20


def test_filters(open_page: Opener, file: Path) -> None:
    page = open_page(file, ready=True).page
    assert state(page) == f"{TASKS * SIZE} episodes of {TASKS} tasks, 6 solved"
    assert not page.locator("#source-label").is_visible()  # there is one source
    page.select_option("#by-success", "yes")
    assert state(page).startswith("6 episodes of 3 tasks, 6 solved")
    page.select_option("#by-success", "no")
    page.select_option("#by-end", "env_error")
    assert state(page).startswith("1 episodes of 1 tasks, 0 solved")
    assert page.locator(".episode").count() == 1
    assert "error" in page.inner_text(".episode dl")
    page.click("#reset")
    page.select_option("#by-kind", "=heat <b>")
    assert [name[:6] for name in tasks(page)] == ["task 1"]
    page.click("#reset")
    page.fill("#by-text", "TASK 2")
    assert tasks(page) == ["task 2"]
    page.fill("#by-text", "no such task")
    assert state(page) == "No episode passes these filters."
    assert page.locator(".episode").count() == 0


def test_an_episode_shows_all_of_it(open_page: Opener, file: Path) -> None:
    page = open_page(file, ready=True).page
    first = page.locator(".episode >> nth=0")
    assert page.locator(".episode").count() == SIZE  # side by side
    text = first.inner_text()
    for shown in ("✓ solved", "env_done", "0 in its store", "4611686018427387905", "you see door 5",
                  "1 of 2: ★ seen", "★ seen", "✗ invalid format", "⊘ refused", "(none found)", "advantage +0.1",
                  "env* 1", "15 sampled, 20 in prompts", "what the environment answered last"):  # fmt: skip
        assert shown in text, shown
    boxes = [page.locator(f"#e{n}t3").bounding_box() for n in range(2)]
    assert boxes[0]["y"] == boxes[1]["y"]  # turn beside turn
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]


def test_the_largest_credit_is_found(open_page: Opener, file: Path) -> None:
    page = open_page(file, ready=True).page
    page.click("#largest")
    assert state(page) == "Advantage +9: number 1 of 55, episode 1, turn 4"
    assert page.inner_text("main h2") == "task 2"
    assert page.evaluate("document.activeElement.id") == "e9t4"
    assert "advantage +9" in page.inner_text(".turn.here h4")
    assert page.evaluate("(e => e.top >= 0 && e.top < innerHeight)(document.activeElement.getBoundingClientRect())")
    page.keyboard.press("c")
    assert "Advantage \u22128: number 2" in state(page)
    assert page.evaluate("document.activeElement.id") == "e2t0"
    page.keyboard.press("C")
    assert "Advantage +9" in state(page)
    page.select_option("#by-success", "yes")  # only what the filters show counts
    page.click("#largest")
    assert "Advantage \u22128: number 1" in state(page)
    legend = page.inner_text("#legend")
    for number in ("0.45", "2.97", "5.94"):  # 5, 33 and 66 % of 9
        assert number in legend


def test_tokens_on_demand(open_page: Opener, file: Path) -> None:
    page = open_page(file, ready=True).page
    assert page.locator(".tokens").count() == 0
    page.click("#with-tokens")
    first = page.locator("#e0t0 .tokens")
    assert "word5" in first.inner_text()
    assert "\u22120.25" in first.inner_text()
    assert "probability 0.7788" in first.locator("li >> nth=1").get_attribute("title")
    page.click("#with-tokens")
    assert page.locator(".tokens").count() == 0


def test_keys_alone(open_page: Opener, file: Path) -> None:
    page = open_page(file, ready=True).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("j")
    assert page.locator("#list [aria-current]").inner_text().startswith("task 1")
    page.keyboard.press("k")
    page.keyboard.press("n")
    page.keyboard.press("n")
    assert page.evaluate("document.activeElement.id") == "e0t1"
    page.keyboard.press("l")
    assert page.evaluate("document.activeElement.id") == "e1t1"
    page.keyboard.press("p")
    assert page.evaluate("document.activeElement.id") == "e1t0"
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.uncheck("#keys-on")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert page.locator("#list [aria-current]").inner_text().startswith("task 0")
    page.evaluate("document.getElementById('keys-on').checked = true")
    page.keyboard.press("/")
    page.keyboard.type("j2")  # typing is no command
    assert page.input_value("#by-text") == "j2"


def test_a_link_leads_to_a_turn(open_page: Opener, file: Path) -> None:
    page = open_page(f"{file.as_uri()}#e9t4", ready=True).page
    assert page.evaluate("document.activeElement.id") == "e9t4"


@pytest.mark.parametrize("dark", [False, True])
def test_phone_and_dark(open_page: Opener, file: Path, dark: bool) -> None:
    page = open_page(file, ready=True, phone=True, dark=dark).page
    page.click("#largest")
    page.click("#with-tokens")
    assert overflow(page) <= 0
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert back == ("rgb(19, 22, 26)" if dark else "rgb(255, 255, 255)")
    for selector in (
        ".chip",
        ".tag",
        ".note",
        ".label",
        ".badge",
        "dt",
        ".ctl",
        ".tokens li",
        ".tokens small",
        "button",
    ):
        assert page.evaluate(CONTRAST, selector) >= 4.5, selector


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    path = write_store(tmp_path / "large.agym", tasks=3, size=4, turns=2)
    with make_server([Source("doors", path)], title="large", credit=known_credit(), page_size=5) as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made.url
        made.shutdown()
        thread.join(30)


def test_served_pages(open_page: Opener, server: str) -> None:
    page = open_page(server, ready=True).page
    assert page.inner_text("#pager").replace("\n", " ") == "previous page page 1 of 3 next page"
    page.click("text=next page")
    page.wait_for_selector("html[data-ready]")
    assert tasks(page)[0].startswith("task 1")
    page.select_option("#by-kind", "=pick")  # the server filters: all pages
    page.wait_for_url("**/?kind=*")
    page.wait_for_selector("html[data-ready]")
    assert tasks(page) == ["task 0"]
    assert page.input_value("#by-kind") == "=pick"
    assert "4 episodes, 4 of them on this page" in page.inner_text("#facts")
