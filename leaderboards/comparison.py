"""Two entries of one board against each other, task by task."""

from __future__ import annotations

from typing import Literal

from agentgym.errors import ConfigError
from agentgym.leaderboards.entry import Entry
from agentgym.statistics import Comparison, compare

What = Literal["success", "score"]


def compare_entries(a: Entry, b: Entry, what: What = "success") -> Comparison:
    """Paired: ``b`` minus ``a`` over the same tasks, with interval and p-value (:func:`agentgym.statistics.compare`).

    ConfigError where they were not measured on the same board and panel: a difference would mean nothing.
    """
    for name in ("board", "panel_hash", "board_hash"):
        mine, other = getattr(a, name), getattr(b, name)
        if mine != other:
            raise ConfigError(
                f"{a.model.label!r} and {b.model.label!r} cannot be compared: {name} is {mine} and {other}"
            )
    if a.kind != "eval":
        raise ConfigError(f"{a.board!r} ranks credit methods; its figures have intervals of their own, not tasks")
    left, right = (e.results if what == "success" else e.scores for e in (a, b))
    return compare(
        {k: [float(x) for x in v] for k, v in left.items()}, {k: [float(x) for x in v] for k, v in right.items()}
    )
