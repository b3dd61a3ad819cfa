"""Entries as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentgym.leaderboards.board import Board
from agentgym.leaderboards.entry import Entry, Number
from agentgym.tally import truncations

if TYPE_CHECKING:
    from rich.table import Table

#: metrics that are shares, shown in percent
SHARES = ("success", "pass@", "pass^", "invalid", "refused")


def shown(name: str, number: Number | None) -> tuple[str, str]:
    """A figure and its interval as text."""
    if number is None or number.value is None:
        return "unknown", ""
    share = name.startswith(SHARES)
    style = ".1%" if share else ".3f" if name in ("score",) or abs(number.value) < 10 else ".1f"
    interval = ""
    if number.low is not None and number.high is not None:
        interval = f"{number.low:{style}} to {number.high:{style}}"
    return f"{number.value:{style}}", interval


def entry_table(entry: Entry, board: Board) -> Table:
    """All figures of one entry: the board's metrics first."""
    from rich.table import Table

    table = Table("", "value", "95 % interval", "n", title=f"{entry.model.label} on {board.name}", title_justify="left")
    for name, number in entry.numbers.items():
        value, interval = shown(name, number)
        table.add_row(name, value, interval, f"{number.clusters} tasks" if interval else "")
        if name == "success":
            for kind, figures in entry.kinds.items():
                inner, between = shown(name, figures[name])
                table.add_row(f"  {kind}", inner, between, f"{figures[name].clusters} tasks")
    cut = truncations(entry.terminations)
    table.add_row("ended by", ", ".join(f"{name} {count}" for name, count in entry.terminations.items()), "", "")
    table.add_row("truncated", f"{sum(cut.values())}", "", f"{entry.tasks * entry.attempts} episodes")
    table.add_row("errors, counted as unsolved", str(entry.errors), "", f"{entry.tasks * entry.attempts} episodes")
    return table


def board_rows(entries: Sequence[Entry], board: Board) -> list[list[str]]:
    """A board's lines, best first by its first metric; a stale entry says so."""
    first = board.metrics[0]

    def rank(entry: Entry) -> float:
        number = entry.numbers.get(first)
        return -number.value if number is not None and number.value is not None else float("inf")

    rows = []
    for entry in sorted(entries, key=lambda e: (e.board_hash != board.hash, rank(e), e.model.label)):
        row = [entry.model.label + (" (stale)" if entry.board_hash != board.hash else "")]
        for name in columns(board):
            value, interval = shown(name, entry.numbers.get(name))
            row.append(f"{value} ({interval})" if interval and name == first else value)
        rows.append([*row, str(entry.errors), entry.code_version])
    return rows


def columns(board: Board) -> list[str]:
    """The board's metrics as names of figures: ``pass@k`` with the board's k."""
    return [name.replace("k", str(board.attempts)) if name in ("pass@k", "pass^k") else name for name in board.metrics]
