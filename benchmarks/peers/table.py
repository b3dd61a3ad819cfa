"""The one table: three lines a row (median, range, ratio), and the arithmetic behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

DASH = "\N{EN DASH}"


def ratio(cell: Mapping[str, Any], ours: Mapping[str, Any]) -> float | None:
    """CPU time of a side over ours, by medians; None where one of them is missing."""
    if "cpu_us" not in cell or "cpu_us" not in ours:
        return None
    return float(cell["cpu_us"]["median"] / ours["cpu_us"]["median"])


def number(value: float) -> str:
    """Three significant digits, no exponents: 0.123, 12.3, 1,230."""
    if value >= 1000:
        digits = 10 ** max(0, len(str(int(value))) - 3)
        return f"{round(value / digits) * digits:,}"
    return f"{value:#.3g}".rstrip(".")


def cell_lines(cell: Mapping[str, Any]) -> tuple[str, str, str]:
    """Median, range and ratio as shown."""
    if "cpu_us" not in cell:
        return (DASH if "missing" in cell else "failed"), "", ""
    cpu, times = cell["cpu_us"], cell.get("ratio")
    shown = f"{number(cpu['min'])}{DASH}{number(cpu['max'])}"
    return number(cpu["median"]), shown, "" if times is None else f"{number(times)}x"


def render(rows: Sequence[Mapping[str, Any]], sides: Sequence[str]) -> str:
    """``rows``: ``{title, cells: {side: cell}}``; CPU microseconds per unit."""
    lines = [("CPU us: median, min to max, ratio to ours", *sides)]
    for row in rows:
        cells = [cell_lines(row["cells"].get(side, {"missing": ""})) for side in sides]
        lines.append(("", *("" for _ in sides)))
        for part, label in enumerate((row["title"], "", "")):
            lines.append((label, *(cell[part] for cell in cells)))
    widths = [max(len(line[k]) for line in lines) for k in range(len(sides) + 1)]
    shown = [
        "  ".join([line[0].ljust(widths[0]), *(t.rjust(w) for t, w in zip(line[1:], widths[1:], strict=True))]).rstrip()
        for line in lines
    ]
    return "\n".join(shown)
