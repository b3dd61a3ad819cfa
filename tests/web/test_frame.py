"""The frame of all pages, packed data, visible text and plots."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.web import asset, frame, pack, templates, unpack, visible
from agentgym.web.svg import Point, Scale, interval, lines, scatter, short

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(), lambda inner: st.lists(inner, max_size=4)
)


@given(values)
def test_packed_data_comes_back_and_is_no_markup(value: Any) -> None:
    packed = pack(value)
    assert unpack(packed) == value
    assert re.fullmatch(r"[A-Za-z0-9+/]*={0,2}", packed)


def test_packing_refuses_what_json_has_not() -> None:
    with pytest.raises(ValueError, match="JSON"):
        pack(float("nan"))


def test_a_block_must_be_packed() -> None:
    for text in ("</script>", "a b", '"x"', "é"):
        with pytest.raises(ValueError, match="pack"):
            frame("t", "", data={"data": text})


def test_the_title_is_escaped() -> None:
    html = frame("</title><script>x\u202e", "<p>body</p>")
    assert "<title>&lt;/title&gt;&lt;script&gt;x\\u202e</title>" in html
    assert html.count("<script") == 0
    assert "script-src" not in html


def test_an_asset_cannot_end_its_tag(tmp_path: Path) -> None:
    for text in ("a </SCRIPT> b", "</style>", "<!-- x"):
        path = tmp_path / f"{abs(hash(text))}.js"
        path.write_text(text)
        with pytest.raises(ValueError, match="end its own tag"):
            asset(path)


def test_templates_escape_and_show(tmp_path: Path) -> None:
    (tmp_path / "t.html").write_text("{{ a }}|{{ b }}")
    made = templates(tmp_path).get_template("t.html").render(a="<b>\x1b\u2067", b=3)
    assert made == r"&lt;b&gt;\x1b\u2067|3"


@given(st.text())
def test_visible_text_has_nothing_hidden(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    assert all(c in "\n\t" or c.isprintable() or c.isspace() or ord(c) > 0x7F for c in shown)


def test_visible_knows_the_hidden_ones() -> None:
    hidden = "\x00\x1b\x7f\x9b\u00ad\u061c\u115f\u200b\u200e\u202e\u2028\u2066\u3164\ufeff\U000e0041\U000e0100"
    assert visible(hidden).isascii()
    assert visible("né\t日本語\n😀") == "né\t日本語\n😀"


def test_scales() -> None:
    linear, log = Scale(0, 10, 100, 200), Scale(1, 1000, 0, 300, log=True)
    assert [linear(v) for v in (0, 5, 10)] == [100, 150, 200]
    assert [log(v) for v in (1, 10, 1000)] == [0, 100, 300]
    assert linear.ticks() == [0, 2, 4, 6, 8, 10]
    assert log.ticks() == [1, 10, 100, 1000]
    assert Scale(5, 5, 0, 10)(5) == 5  # one value: in the middle


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_lie_within_and_are_few(low: float, span: float) -> None:
    ticks = Scale(low, low + span, 0, 1).ticks()
    assert len(ticks) <= 8
    assert all(low - 1e-6 * span <= tick <= low + span + 1e-6 * span + 1e-9 for tick in ticks)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.25, "0.25"), (999, "999"), (1234, "1,234"), (12_345, "12.3k"), (8.27e6, "8.27M"), (7e9, "7B")],
)
def test_short_numbers(value: float, text: str) -> None:
    assert short(value) == text


def test_an_interval_is_drawn_on_its_scale() -> None:
    drawn = str(interval(0.5, 0.25, 0.75, (0.0, 1.0)))
    assert 'cx="50.0"' in drawn
    assert "M26.5 8H73.5" in drawn  # a quarter and three quarters of 3 to 97
    assert "range" not in str(interval(0.5, None, None, (0.0, 1.0)))


def test_plots_escape_names() -> None:
    bad = '"><script>x</script>\u202e'
    made = str(scatter([Point(1, 0.5, 0.4, 0.6, bad, bad, bad), Point(5, 0.1, None, None, "2", "b", "b")], bad, bad))
    made += str(lines({bad: [(0, 1), (1, float("nan")), (2, 3)], "b": [(0, 1)]}, bad, bad))
    assert "<script" not in made
    assert "\u202e" not in made
    assert str(lines({"none": [(0, float("inf"))]}, "x", "y")) == ""
