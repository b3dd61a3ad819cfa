"""The one table: for every work a line for each side that can do it, and the arithmetic behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

DASH = "\N{EN DASH}"


def ratio(cell: Mapping[str, Any], ours: Mapping[str, Any], time: str = "cpu_us") -> float | None:
    """The time of a side over ours, by medians; None where one of them is missing. ``time``: cpu_us or wall_us."""
    if time not in cell or time not in ours:
        return None
    return float(cell[time]["median"] / ours[time]["median"])


def number(value: float) -> str:
    """Three significant digits, no exponents: 0.123, 12.3, 1,230."""
    if value >= 1000:
        digits = 10 ** max(0, len(str(int(value))) - 3)
        return f"{round(value / digits) * digits:,}"
    return f"{value:#.3g}".rstrip(".")


def cells_of(side: str, cell: Mapping[str, Any], time: str) -> tuple[str, str, str, str]:
    """Side, median, range and ratio as shown."""
    if time not in cell:
        return f"  {side}", "failed", "", ""
    figures, times = cell[time], cell.get("ratio")
    shown = f"{number(figures['min'])}{DASH}{number(figures['max'])}"
    return f"  {side}", number(figures["median"]), shown, "" if times is None else f"{number(times)}x"


def render(rows: Sequence[Mapping[str, Any]], sides: Sequence[str]) -> str:
    """``rows``: ``{title, time, cells: {side: cell}}``; microseconds per unit. Behind a dash: who cannot do it."""
    lines = [("microseconds: CPU, or wall where the row says so", "median", "min to max", "to ours")]
    for row in rows:
        cells = {side: row["cells"].get(side, {"missing": ""}) for side in sides}
        able = [side for side in sides if "missing" not in cells[side]]
        unable = [side for side in sides if side not in able]
        lines += [("", "", "", ""), (row["title"], "", "", "")]
        lines += [cells_of(side, cells[side], row["time"]) for side in able]
        lines += [(f"  {DASH} {', '.join(unable)}", "", "", "")] if unable else []
    first = max(len(line[0]) for line in lines if line[1])
    widths = [max(len(line[k]) for line in lines) for k in range(1, 4)]
    return "\n".join(
        "  ".join([line[0].ljust(first), *(t.rjust(w) for t, w in zip(line[1:], widths, strict=True))]).rstrip()
        for line in lines
    )
