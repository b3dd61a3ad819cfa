"""The site's files: a page for every board, entry and set of episodes; what is wrong is named; nothing is markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from viewer_episodes import ATTACK

from agentgym.errors import ConfigError
from agentgym.leaderboards.catalogue import board_names, load_board
from agentgym.leaderboards.entry import Entry, ModelIdentity, Number
from agentgym.leaderboards.site import build, make_server
from agentgym.leaderboards.site.read import read_site, slug
from agentgym.web import visible

VOID = {"meta", "br", "input", "path", "circle"}


class Balanced(HTMLParser):
    """Every tag closes in order, and links lead to files of the site."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.page = page
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        assert not [name for name in values if name.startswith("on")]
        href = values.get("href")
        if href and not href.startswith("#"):
            assert (self.page.parent / href).is_file(), f"{self.page}: {href}"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_every_page_is_whole_and_every_link_leads_somewhere(tmp_path: Path, entries: Path) -> None:
    built = build(entries, tmp_path / "site")
    assert built.entries == 6
    assert built.index == tmp_path / "site" / "index.html"
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert built.pages == len(pages)
    for page in pages:
        text = page.read_text(encoding="utf-8")
        checker = Balanced(page)
        checker.feed(text)
        assert not checker.open, page
        assert not re.search("[\x00-\x08\x0b-\x1f\u200b\u2028\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text), page
        assert "<img" not in text
        assert "onload=window" not in re.sub("&lt;.*?&gt;", "", text)
    names = {page.relative_to(tmp_path / "site").parts[0] for page in pages}
    assert names == {"index.html", "boards", "entries", "episodes"}
    assert {f"{slug(name)}.html" for name in board_names()} <= {p.name for p in (tmp_path / "site/boards").iterdir()}
    assert str(built).endswith(f"6 entries on {built.boards} boards, {len(pages)} pages")


def test_a_second_build_is_the_same_and_keeps_the_episodes(tmp_path: Path, entries: Path) -> None:
    build(entries, tmp_path / "a")
    before = {p.relative_to(tmp_path / "a"): p.read_bytes() for p in (tmp_path / "a").rglob("*.html")}
    (kept,) = (tmp_path / "a/episodes").iterdir()
    stamp = kept.stat().st_mtime_ns
    build(entries, tmp_path / "a")
    assert {p.relative_to(tmp_path / "a"): p.read_bytes() for p in (tmp_path / "a").rglob("*.html")} == before
    assert kept.stat().st_mtime_ns == stamp
    without = build(entries, tmp_path / "b", episodes=False)
    assert not list((tmp_path / "b/episodes").iterdir())
    assert without.pages == len(before) - 1


def test_what_is_wrong_is_named(tmp_path: Path, entries: Path) -> None:
    built = build(entries, tmp_path / "site")
    assert any(problem.startswith("broken.json: not an entry: ") for problem in built.problems)
    assert "broken.json" in (tmp_path / "site/index.html").read_text()
    with pytest.raises(ConfigError, match="no such file"):
        build(entries / "nowhere", tmp_path / "x")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file"):
        build(entries, tmp_path / "file")
    twice = build([entries, entries], tmp_path / "site")
    assert sum("there twice" in problem for problem in twice.problems) == 6


def test_order_and_staleness(entries: Path) -> None:
    pages, _ = read_site([entries])
    (page,) = [page for page in pages if page.name == "sokoban"]
    assert [one.label for one in page.entries][:2] == ["best", "middle"]
    assert [one.label for one in page.entries if one.stale] == ["old"]
    assert page.entries[-1].label == "old"  # stale ones last, whatever their figure
    (unknown,) = [page for page in pages if page.board is None]
    assert unknown.entries[0].stale is None


def test_an_episode_file_elsewhere_is_never_followed(entries: Path) -> None:
    pages, _ = read_site([entries])
    stores = {one.label: one.store for page in pages for one in page.entries}
    assert stores["middle"] == entries / "mine.agym"
    assert [store for label, store in stores.items() if label != "middle"] == [None] * 5


def test_figures_have_their_interval(tmp_path: Path, entries: Path) -> None:
    build(entries, tmp_path)
    text = (tmp_path / "boards/sokoban.html").read_text()
    checker = Balanced(tmp_path / "boards/sokoban.html")
    checker.feed(text)
    words = " ".join(checker.text.split())
    for shown in ("90.0 % [80.0, 100.0]", "50.0 % [40.0, 60.0]", "0.500 [0.400, 0.600]", "25.0 % [15.0, 35.0]",
                  visible(ATTACK.replace("\ud800", "")[:100]), "stale"):  # fmt: skip
        assert shown in words, shown
    assert text.count('class="interval"') >= 4 * 3
    assert text.count('<svg class="plot"') == 2  # against parameters and tokens


def test_only_pages_of_the_site_are_served(tmp_path: Path, entries: Path) -> None:
    build(entries, tmp_path / "site", episodes=False)
    (tmp_path / "secret.html").write_text("secret")
    (tmp_path / "site/link.html").symlink_to(tmp_path / "secret.html")
    (tmp_path / "site/data.json").write_text("{}")
    with make_server(tmp_path / "site") as server:
        assert server.answer("/", {})[0] == 200
        assert server.answer("/boards/sokoban.html", {})[0] == 200
        for path in ("/../secret.html", "/%2e%2e/secret.html", "//etc/passwd", "/link.html", "/data.json", "/boards",
                     "/boards/nothing.html", "/a%00.html"):  # fmt: skip
            assert server.answer(path, {})[0] == 404, path
    with pytest.raises(ConfigError, match="agentgym leaderboard build"):
        make_server(entries)


def test_a_credit_board_looks_the_same(tmp_path: Path) -> None:
    board = load_board("credit-bench")
    for place, (label, value) in enumerate((("grpo", 0.2), ("truth", 1.0), ("bad", -0.4))):
        made = Entry(
            kind="credit", board=board.name, board_hash=board.hash, code_version="0.1.0",
            model=ModelIdentity(label=label, kind="method"), numbers={"spearman": Number(value=value)},
            kinds={"quest": {"spearman": Number(value=value, low=value - 0.1, high=value + 0.1)}},
        )  # fmt: skip
        (tmp_path / f"{place}.json").write_text(made.to_json())
    build(tmp_path, tmp_path / "site")
    page = tmp_path / "site/boards/credit-bench.html"
    checker = Balanced(page)
    checker.feed("<main" + page.read_text().partition("<main")[2].partition("</main>")[0] + "</main>")
    words = " ".join(checker.text.split())
    assert "Method" in words
    assert "parameters" not in words
    assert words.index("truth") < words.index("grpo") < words.index("bad")
    assert "-0.400 [-0.500, -0.300]" in words
