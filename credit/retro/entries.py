"""One lesson of the memory, and the checks that every lesson passes, wherever it comes from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Any

from agentgym.types import content_hash

_SPECIAL = re.compile(r"<\|[^|<>]{0,64}\|>")  # chat-template tokens: a lesson must not open or close a message
_SPACE = re.compile(r"\s+")


def one_line(text: str, limit: int) -> str:
    """Text fit for a prompt and a database: one line, no template tokens or lone surrogates, at most ``limit`` long.

    Cut at a word's end where one is near, with an ellipsis.
    """
    clean = "".join(c if c.isprintable() else " " for c in _SPECIAL.sub(" ", text[: 8 * limit + 64]))
    clean = _SPACE.sub(" ", clean).strip()  # lone surrogates are not printable, so none is left
    if len(clean) <= limit:
        return clean
    cut = clean[: limit - 1]
    head = cut if clean[limit - 1] == " " else cut.rpartition(" ")[0]
    return (head if len(head) >= limit // 2 else cut).rstrip() + "…"


@dataclass(slots=True)
class Lesson:
    """A lesson and how well it has served.

    ``task_ids``  stable ids of the tasks it was drawn from, its origin first; ``split`` theirs
    ``task``      the task's text, which is what is compared; ``text`` the lesson
    ``source``    who wrote it (``rules``, ``policy``, ``judge``); ``step`` the training step it was written in
    ``success``   did the episode behind it succeed
    ``utility``   in [0, 1], starts at .5; ``count`` >= 1, its uses plus 1
    ``id``        content hash of origin, split and text: equal on every machine, never used again for another lesson
    """

    task_ids: tuple[str, ...]
    task: str
    text: str
    split: str = ""
    source: str = ""
    step: int = 0
    success: bool = False
    utility: float = 0.5
    count: int = 1
    id: str = ""

    def __post_init__(self) -> None:
        self.task_ids = tuple(str(task_id) for task_id in self.task_ids)
        if not self.task_ids or not self.text:
            raise ValueError(f"a lesson needs a task id and a text; got {self.task_ids!r} and {self.text!r}")
        if not (isfinite(self.utility) and 0 <= self.utility <= 1):
            raise ValueError(f"lesson {self.text[:40]!r}: utility must be in [0, 1], got {self.utility!r}")
        if self.count < 1:
            raise ValueError(f"lesson {self.text[:40]!r}: count must be >= 1, got {self.count!r}")
        self.id = self.id or content_hash([self.task_ids[0], self.split, self.text])

    def row(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        return {**asdict(self), "task_ids": list(self.task_ids)}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Lesson:
        """The inverse of :meth:`row`. Raises ValueError, TypeError or KeyError for a row that is no lesson."""
        values = {field.name: row[field.name] for field in fields(cls)}
        values["task_ids"] = tuple(values["task_ids"])
        values["utility"], values["count"] = float(values["utility"]), int(values["count"])
        values["step"], values["success"] = int(values["step"]), bool(values["success"])
        for name in ("task", "text", "split", "source", "id"):
            if not isinstance(values[name], str):
                raise TypeError(f"lesson column {name!r} is {values[name]!r}, expected text")
        return cls(**values)
