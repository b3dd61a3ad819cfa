"""Figures as the tables show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from agentgym.leaderboards.entry import Number
from agentgym.leaderboards.site.read import Listed
from agentgym.web import svg

SHARES = ("success", "invalid", "refused", "pass@", "pass^")
#: of these, less is better
LESS = (
    "turns", "tokens", "prompt_tokens", "cost", "invalid", "refused", "parameters", "bias", "variance", "noise", "ms",
)  # fmt: skip
WORDS = {
    "success": "success", "score": "score", "turns": "turns", "tokens": "sampled tokens", "cost": "cost",
    "prompt_tokens": "prompt tokens", "invalid": "invalid", "refused": "refused", "parameters": "parameters",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure: ``value`` to sort by, ``text`` to read, ``interval`` in words, ``plot`` drawn."""

    value: float | None
    text: str
    interval: str = ""
    plot: Markup | str = ""


NONE = Cell(None, "-")


def is_share(metric: str) -> bool:
    """Whether the metric is a share, shown in percent."""
    return metric.startswith(SHARES)


def shown(metric: str, value: float) -> str:
    """A figure as text."""
    if is_share(metric):
        return f"{100 * value:.1f} %"
    return f"{value:.3f}" if metric not in LESS and abs(value) < 10 else svg.short(value)


def cell(metric: str, number: Number | None, bounds: tuple[float, float] | None = None) -> Cell:
    """A figure with its interval; drawn where ``bounds`` are given."""
    if number is None or number.value is None:
        return NONE
    low, high = number.low, number.high
    words = ""
    if low is not None and high is not None:
        words = (
            f"[{100 * low:.1f}, {100 * high:.1f}]"
            if is_share(metric)
            else f"[{shown(metric, low)}, {shown(metric, high)}]"
        )
    plot = svg.interval(number.value, low, high, bounds) if bounds is not None else ""
    return Cell(number.value, shown(metric, number.value), words, plot)


def bounds_of(metric: str, entries: Sequence[Listed]) -> tuple[float, float]:
    """The scale on which a column's intervals are drawn: 0 to 1 for shares, else what the entries span with 0."""
    if is_share(metric):
        return 0.0, 1.0
    numbers = [number for one in entries if (number := one.entry.numbers.get(metric)) is not None]
    values = [v for n in numbers for v in (n.value, n.low, n.high) if v is not None]
    low, high = min([0.0, *values]), max([0.0, *values])
    return (low, high) if high > low else (low, low + 1.0)


def breakdown(entries: Sequence[Listed], metric: str) -> tuple[list[str], list[tuple[Listed, list[Cell]]]]:
    """Task types as columns, entries as rows."""
    kinds = sorted({kind for one in entries for kind in one.entry.kinds})
    rows = [
        (one, [cell(metric, one.entry.kinds.get(kind, {}).get(metric)) for kind in kinds])
        for one in entries
        if one.entry.kinds
    ]
    return kinds, rows


def shade(metric: str, value: float | None, bounds: tuple[float, float]) -> str:
    """Class of a cell's shade: 0 to 4, more is darker; the figure is in the cell too."""
    if value is None:
        return ""
    low, high = bounds
    part = (value - low) / (high - low) if high > low else 0.0
    return f"s{min(4, max(0, int(5 * part)))}"


def scatters(entries: Sequence[Listed], metric: str) -> list[tuple[str, Markup]]:
    """Plots of the first metric against size and costs, where at least two entries know both."""
    out = []
    for name in ("parameters", "tokens", "prompt_tokens", "cost"):
        points = []
        for rank, one in enumerate(entries, 1):
            x = _x(one, name)
            y = one.entry.numbers.get(metric)
            if x is None or y is None or y.value is None:
                continue
            href = f"../entries/{one.slug}.html"
            points.append(svg.Point(x, y.value, y.low, y.high, str(rank), one.label, href, one.stale is True))
        if len(points) > 1 and max(point.x for point in points) > 0:
            word = WORDS[name] if name == "parameters" else f"{WORDS[name]} an episode"
            out.append(
                (f"{WORDS.get(metric, metric)} against {word}", svg.scatter(points, word, WORDS.get(metric, metric)))
            )
    return out


def _x(one: Listed, name: str) -> float | None:
    if name == "parameters":
        return one.entry.model.parameters
    number = one.entry.numbers.get(name)
    return number.value if number is not None else None
