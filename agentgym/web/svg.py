"""Small plots as inline SVG: an interval on a scale, points with intervals, lines. Colours are classes of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from agentgym.web.text import visible

COLOURS = 6  # classes c0 to c5
WIDTH, HEIGHT = 460, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 12, 40


@dataclass(frozen=True, slots=True)
class Point:
    """One entry in a plot: where it lies, its interval, the short mark beside it, its name, where it leads."""

    x: float
    y: float
    low: float | None
    high: float | None
    mark: str
    name: str
    href: str
    faint: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """Values to places on one axis; ``log``: by magnitude."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The place of ``value``."""
        low, high = self._turned(self.low), self._turned(self.high)
        part = (self._turned(value) - low) / (high - low) if high > low else 0.5
        return round(self.start + part * (self.end - self.start), 1)

    def _turned(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def ticks(self) -> list[float]:
        """Three to seven round values within the scale."""
        if self.log:
            powers = range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
            step = max(1, math.ceil(len(powers) / 6))
            found = [10.0**power for power in list(powers)[::step]]
            return found if len(found) > 1 else [self.low, self.high]
        span = (self.high - self.low) or 1.0
        rough = span / 5
        unit = 10 ** math.floor(math.log10(rough))
        step = unit * next(m for m in (1, 2, 5, 10) if m * unit >= rough)
        first = math.ceil(self.low / step - 1e-9)
        return [round(k * step, 12) for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


def short(value: float) -> str:
    """A number for an axis or a cell: 0.25, 1,234, 1.2M."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            shown = value / (1e3 if letter == "k" else size)
            return f"{shown:.3g}{letter}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def interval(value: float, low: float | None, high: float | None, bounds: tuple[float, float]) -> Markup:
    """A dot with its interval as a line, on the scale ``bounds``. Decoration: the figures stand beside it as text."""
    scale = Scale(*bounds, 3, 97)
    line = ""
    if low is not None and high is not None:
        left, right = sorted((scale(max(bounds[0], low)), scale(min(bounds[1], high))))
        line = f'<path class="range" d="M{left} 8H{right}"/>'
    return Markup(
        f'<svg class="interval" viewBox="0 0 100 16" aria-hidden="true" focusable="false">'
        f'<path class="axis" d="M3 8H97"/>{line}<circle class="dot" cx="{scale(value)}" cy="8" r="2.6"/></svg>'
    )


def _bounds(values: Sequence[float], log: bool = False) -> tuple[float, float]:
    low, high = min(values), max(values)
    if log:
        return low / 1.3, high * 1.3
    pad = 0.06 * (high - low) or 0.05 * (abs(high) or 1.0)
    return low - pad, high + pad


def _frame(x: Scale, y: Scale, x_label: str, y_label: str) -> str:
    parts = [f'<path class="axis" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>']
    for tick in y.ticks():
        at = y(tick)
        parts.append(f'<path class="grid" d="M{LEFT} {at}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4}" text-anchor="end">{short(tick)}</text>')
    for tick in x.ticks():
        parts.append(f'<text x="{x(tick)}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{short(tick)}</text>')
    middle = (TOP + HEIGHT - BOTTOM) // 2
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) // 2}" y="{HEIGHT - 6}" text-anchor="middle">{_text(x_label)}</text>'
    )
    parts.append(f'<text transform="translate(13 {middle}) rotate(-90)" text-anchor="middle">{_text(y_label)}</text>')
    return "".join(parts)


def _text(text: str) -> str:
    return str(escape(visible(text)))


def _svg(title: str, body: str, interactive: bool = False) -> Markup:
    role = "group" if interactive else "img"
    return Markup(
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="{role}" aria-label="{_text(title)}">{body}</svg>'
    )


def scatter(points: Sequence[Point], x_label: str, y_label: str) -> Markup:
    """Points with vertical intervals, each a link. The x axis is logarithmic where values span more than 1 to 20."""
    xs = [point.x for point in points]
    log = min(xs) > 0 and max(xs) / min(xs) > 20
    ys = [v for p in points for v in (p.y, p.low, p.high) if v is not None]
    x = Scale(*_bounds(xs, log), LEFT + 8, WIDTH - RIGHT - 8, log)
    y = Scale(*_bounds(ys), HEIGHT - BOTTOM, TOP)
    parts = [_frame(x, y, f"{x_label} (log scale)" if log else x_label, y_label)]
    for point in points:
        at, up = x(point.x), y(point.y)
        line = ""
        if point.low is not None and point.high is not None:
            line = f'<path class="range" d="M{at} {y(point.low)}V{y(point.high)}"/>'
        name = f"{point.name}: {y_label} {short(point.y)}, {x_label} {short(point.x)}"
        parts.append(
            f'<a href="{_text(point.href)}" aria-label="{_text(name)}"{" class=faint" if point.faint else ""}>'
            f"<title>{_text(name)}</title>{line}"
            f'<circle class="dot" cx="{at}" cy="{up}" r="4.5"/>'
            f'<text x="{at + 7}" y="{up - 5}">{_text(point.mark)}</text></a>'
        )
    return _svg(f"{y_label} against {x_label}", "".join(parts), interactive=True)


def lines(series: Mapping[str, Sequence[tuple[float, float]]], x_label: str, y_label: str) -> Markup:
    """One line a series, finite points only, with a legend where there are several."""
    drawn = {
        name: [(a, b) for a, b in points if math.isfinite(a) and math.isfinite(b)] for name, points in series.items()
    }
    drawn = {name: points for name, points in drawn.items() if points}
    if not drawn:
        return Markup("")
    everything = [point for points in drawn.values() for point in points]
    x = Scale(*_bounds([a for a, _ in everything]), LEFT, WIDTH - RIGHT)
    y = Scale(*_bounds([b for _, b in everything]), HEIGHT - BOTTOM, TOP)
    parts = [_frame(x, y, x_label, y_label)]
    for number, (name, points) in enumerate(drawn.items()):
        colour = f"c{number % COLOURS}"
        path = "L".join(f"{x(a)} {y(b)}" for a, b in points)
        parts.append(f'<path class="line {colour}" d="M{path}"/>')
        if len(points) < 40:
            parts += [f'<circle class="{colour}" cx="{x(a)}" cy="{y(b)}" r="2.5"/>' for a, b in points]
        if len(drawn) > 1:
            at = TOP + 14 + 15 * number
            parts.append(f'<circle class="{colour}" cx="{LEFT + 14}" cy="{at - 4}" r="4"/>')
            parts.append(f'<text x="{LEFT + 23}" y="{at}">{_text(name)}</text>')
    return _svg(", ".join(drawn), "".join(parts))
