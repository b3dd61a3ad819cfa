"""Lessons in RAM as columns: growing arrays for the arithmetic, indexes for the look-ups."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from agentgym.credit.retro.embeddings import Vectors
from agentgym.credit.retro.entries import Lesson

Floats = npt.NDArray[np.float64]
_ARRAYS = ("_vectors", "_utility", "_count", "_splits")


class LessonTable:
    """Rows ``0 .. len-1`` in no lasting order (the last one fills a gap); ``row[id]`` says where a lesson is."""

    def __init__(self, width: int) -> None:
        self.lessons: list[Lesson] = []
        self.row: dict[str, int] = {}
        self._vectors: Vectors = np.zeros((0, width), np.float32)
        self._utility, self._count = np.zeros(0), np.zeros(0)
        self._splits: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._split_codes: dict[str, int] = {}
        self._by_text: dict[str, set[str]] = {}
        self._by_task: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self.lessons)

    @property
    def vectors(self) -> Vectors:
        """``[rows, width]``"""
        return self._vectors[: len(self)]

    @property
    def utility(self) -> Floats:
        """``[rows]``"""
        return self._utility[: len(self)]

    @property
    def count(self) -> Floats:
        """``[rows]``"""
        return self._count[: len(self)]

    def insert(self, lesson: Lesson, vector: Vectors) -> None:
        """A new row; the id must be new."""
        at = len(self)
        if at == len(self._vectors):
            for name in _ARRAYS:
                old = getattr(self, name)
                new = np.zeros((max(64, 2 * at), *old.shape[1:]), old.dtype)
                new[:at] = old
                setattr(self, name, new)
        self.lessons.append(lesson)
        self.row[lesson.id] = at
        self._vectors[at] = vector
        self._splits[at] = self._split_codes.setdefault(lesson.split, len(self._split_codes))
        self._by_text.setdefault(lesson.text, set()).add(lesson.id)
        self.refresh(at)

    def refresh(self, at: int) -> None:
        """The row's lesson has another utility, count or list of tasks."""
        lesson = self.lessons[at]
        self._utility[at], self._count[at] = lesson.utility, lesson.count
        for task_id in lesson.task_ids:
            self._by_task.setdefault(task_id, set()).add(lesson.id)

    def remove(self, at: int) -> Lesson:
        """Take a row out; the last row moves into its place."""
        lesson, last = self.lessons[at], len(self) - 1
        for table, keys in ((self._by_text, (lesson.text,)), (self._by_task, lesson.task_ids)):
            for key in keys:
                table[key].discard(lesson.id)
                if not table[key]:
                    del table[key]
        for name in _ARRAYS:
            array = getattr(self, name)
            array[at] = array[last]
        self.lessons[at] = self.lessons[last]
        self.row[self.lessons[at].id] = at
        self.lessons.pop()
        del self.row[lesson.id]
        return lesson

    def with_text(self, text: str) -> list[int]:
        """Rows of the lessons with this very text, by id."""
        return [self.row[key] for key in sorted(self._by_text.get(text, ()))]

    def forbid(self, allowed: npt.NDArray[np.bool_], task_ids: Iterable[str], splits: Iterable[str]) -> None:
        """Clear, in place, the rows of these tasks and splits."""
        for split in splits:
            allowed &= self._splits[: len(self)] != self._split_codes.get(split, -1)
        for task_id in task_ids:
            allowed[[self.row[key] for key in self._by_task.get(task_id, ())]] = False
