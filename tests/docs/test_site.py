"""The documentation site: its navigation covers every page, it builds strictly, and asks no other machine for anything.

The build needs the extra ``docs`` and is skipped without it; ``make docs`` requires it (AGENTGYM_REQUIRE_DOCS=1).
"""

from __future__ import annotations

import ast
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent.parent
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
HOOKS = (ROOT / "scripts" / "mkdocs_hooks.py").read_text(encoding="utf-8")


def leaves(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    return [leaf for part in (entry.values() if isinstance(entry, dict) else entry) for leaf in leaves(part)]


def outside() -> dict[str, str]:
    """The hook's table of pages from outside docs/, read without mkdocs."""
    for node in ast.parse(HOOKS).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "OUTSIDE":
            table: dict[str, str] = ast.literal_eval(node.value)
            return table
    raise AssertionError("scripts/mkdocs_hooks.py has no OUTSIDE")


def test_the_navigation_holds_every_page_once() -> None:
    listed = leaves(CONFIG["nav"])
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(listed) == sorted(pages | set(outside()))
    assert all((ROOT / source).is_file() for source in outside().values())


def test_the_how_to_index_leads_to_every_page_of_docs() -> None:
    linked = set(re.findall(r"\]\(([\w/-]+\.md)\)", (ROOT / "docs" / "howto.md").read_text(encoding="utf-8")))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    elsewhere = {"howto.md", "concepts.md", "architecture.md", "protocol.md"}
    assert {page for page in pages if not page.startswith("reference/")} - elsewhere <= linked


def test_the_picture_has_the_boxes_of_the_readme() -> None:
    mermaid = re.search(r"```mermaid\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    assert mermaid is not None
    picture = (ROOT / "docs" / "assets" / "data-flow.svg").read_text(encoding="utf-8")
    drawn = " ".join(re.findall(r'<text class="name"[^>]*>([^<]*)</text>', picture))
    boxes = re.findall(r"[\[(]+([\w. :-]+?)[\])]+", mermaid[1])
    assert len(boxes) >= 9
    assert [box for box in boxes if box not in drawn] == []


def test_no_font_or_script_of_others_is_configured() -> None:
    assert CONFIG["theme"]["font"] is False
    assert not {"extra_javascript", "extra_css"} & set(CONFIG)


class Assets(HTMLParser):
    """Addresses that a browser fetches by itself when it opens a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.found.append(values.get("src") or "")
        if tag == "link" and values.get("rel") != "canonical":
            self.found.append(values.get("href") or "")


def test_the_site_builds_strictly_and_is_complete(site: Path) -> None:
    for page in leaves(CONFIG["nav"]):
        html = (site / page).with_suffix(".html").read_text(encoding="utf-8")
        assets = Assets()
        assets.feed(html)
        assert assets.found
        assert not [address for address in assets.found if re.match(r"(https?:)?//", address)], page
        assert 'class="mermaid"' not in html, f"{page}: the theme would fetch mermaid from a CDN"
    reference = (site / "reference" / "environment.html").read_text(encoding="utf-8")
    assert 'id="agentgym.environment.Environment.reset"' in reference
    assert ":class:<code>" not in reference
