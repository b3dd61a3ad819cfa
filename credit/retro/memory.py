"""LessonMemory: lessons found by similarity, utility and rarity of use (SimUtil-UCB, RetroAgent, arXiv 2603.08561)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agentgym.credit.retro.embeddings import Embedder, HashedEmbedder, Vectors
from agentgym.credit.retro.entries import Lesson, one_line
from agentgym.credit.retro.storage import LessonFile
from agentgym.credit.retro.table import Floats, LessonTable
from agentgym.errors import AgentGymError, ConfigError, DataError, unknown
from agentgym.seeding import derive_seed

MERGE_SIMILARITY = 0.85
TASK_CHARACTERS = 2000
_CACHED_TEXTS = 4096
_SLACK = 1e-5  # float32 dot products of unit vectors are closer than this to the true cosine


def ucb(relevance: Floats, utility: Floats, count: Floats, total: float, alpha: float, kappa: float) -> Floats:
    """``S = alpha*rel + (1-alpha)*(u + kappa*sqrt(ln N / max(n, 1)))``; ln N counts as 0 for N <= 1.

    ``relevance`` cosine in [-1, 1], ``utility`` in [0, 1], ``count`` uses; ``total`` N, the sum of all counts.
    """
    bonus = np.sqrt(np.log(max(total, 1.0)) / np.maximum(count, 1.0))
    scores: Floats = alpha * relevance + (1 - alpha) * (utility + kappa * bonus)
    return scores


class LessonMemory:
    """Lessons in RAM, and in one SQLite file where a ``path`` is given (``:memory:``: none).

    Changes reach the file at :meth:`commit`, all of them or none. ``max_entries``: beyond it the lesson of lowest
    ``u + kappa*sqrt(ln N / n)`` goes, ties by ``seed``. ``max_characters`` of a lesson. ``min_relevance``: less
    similar tasks' lessons are not used. ``writable=False``: the file stays byte for byte as it is.
    """

    def __init__(
        self,
        path: str | Path = ":memory:",
        embedder: Embedder | None = None,
        *,
        alpha: float = 0.7,
        kappa: float = 1.0,
        min_relevance: float = 0.4,
        ema: float = 0.05,
        max_entries: int = 2000,
        max_characters: int = 300,
        seed: int = 0,
        writable: bool = True,
    ) -> None:
        check_options(alpha, kappa, ema, max_entries, max_characters)
        self.embedder: Embedder = embedder or HashedEmbedder()
        self.alpha, self.kappa, self.min_relevance, self.ema = alpha, kappa, min_relevance, ema
        self.max_entries, self.max_characters, self.seed = max_entries, max_characters, seed
        self.frozen = not writable
        self.evictions = 0
        self._texts: dict[str, Vectors] = {}
        self._clear()
        self._file = None if str(path) == ":memory:" else LessonFile(Path(path), writable=writable)
        if self._file is not None:
            self._load(self._file)

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[Lesson]:
        """Copies of all lessons, in order of their ids."""
        return iter([replace(lesson) for lesson in sorted(self._table.lessons, key=lambda lesson: lesson.id)])

    @property
    def damaged(self) -> int:
        """Files and rows that could not be read."""
        return 0 if self._file is None else self._file.damaged_files + self._file.damaged_rows

    def search(
        self,
        query: str,
        k: int = 1,
        mode: str = "train",
        *,
        exclude_task_ids: Iterable[str] = (),
        exclude_splits: Iterable[str] = (),
    ) -> list[Lesson]:
        """Copies of the ``k`` best lessons for a task's text, best first; mode ``eval`` (not ``train``): kappa 0."""
        if mode not in ("train", "eval"):
            raise unknown("mode of a lesson search", mode, ("train", "eval"))
        table = self._table
        if not len(table) or k < 1:
            return []
        vector = self._vector(query)
        relevance = (table.vectors @ vector).astype(np.float64)
        allowed = relevance >= self.min_relevance - _SLACK
        table.forbid(allowed, exclude_task_ids, exclude_splits)
        close = np.flatnonzero(allowed & (np.abs(relevance - self.min_relevance) <= _SLACK))
        relevance[close] = self._exact(close, vector)
        found = np.flatnonzero(allowed & (relevance >= self.min_relevance))
        kappa, total = (0.0 if mode == "eval" else self.kappa), float(table.count.sum())
        if len(found) > k:  # all that could be among the k best, ties included
            rough = ucb(relevance[found], table.utility[found], table.count[found], total, self.alpha, kappa)
            found = found[rough >= np.partition(rough, len(found) - k)[len(found) - k] - 2 * _SLACK]
        exact = self._exact(found, vector)
        scores = ucb(exact, table.utility[found], table.count[found], total, self.alpha, kappa)
        ranked = sorted(
            zip(scores.tolist(), found.tolist(), strict=True), key=lambda x: (-x[0], table.lessons[x[1]].id)
        )
        return [replace(table.lessons[at]) for _, at in ranked[:k]]

    def add(self, entry: Lesson) -> str:
        """Keep a lesson and give its id. The same text for a task more similar than .85 joins the lesson it repeats."""
        self._changing()
        entry = replace(
            entry, text=one_line(entry.text, self.max_characters), task=one_line(entry.task, TASK_CHARACTERS), id=""
        )
        vector = self._vector(entry.task)
        for at in self._table.with_text(entry.text):
            if self._merges(at, entry, vector):
                self._join(at, entry)
                return self._table.lessons[at].id
        self._table.insert(entry, vector)
        self._changed.add(entry.id)
        while len(self) > self.max_entries:
            self._evict()
        return entry.id

    def update(self, ids: Sequence[str], success: bool) -> int:
        """After one use: ``u <- (1-b)*u + b*1[success]``, ``n += 1``. Gives how many ids were not in the memory."""
        self._changing()
        known = [key for key in ids if key in self._table.row]
        for key in known:
            at = self._table.row[key]
            lesson = self._table.lessons[at]
            lesson.utility = (1 - self.ema) * lesson.utility + self.ema * float(success)
            lesson.count += 1
            self._table.refresh(at)
            self._changed.add(key)
        return len(ids) - len(known)

    def commit(self) -> None:
        """Write what changed since the last commit, in one transaction. Raises DataError where the disk refuses."""
        if self._file is not None and (self._changed or self._gone or self._anew):
            self._changing()
            table = self._table
            keys = sorted(table.row if self._anew else self._changed & table.row.keys())
            rows = [(table.lessons[table.row[key]], table.vectors[table.row[key]]) for key in keys]
            self._file.write(self.embedder.name, rows, sorted(self._gone), self._anew)
        self._settle()

    def freeze(self) -> None:
        """Write what is open and close the file; from here on only searches work."""
        if not self.frozen:
            self.commit()
        self.frozen = True
        self.close()

    def close(self) -> None:
        """Close the file, uncommitted changes left out of it; its lock is released."""
        if self._file is not None:
            self._file.close()

    def rows(self) -> list[dict[str, Any]]:
        """All lessons as plain values in order of their ids, for a checkpoint."""
        return [lesson.row() for lesson in self]

    def replace_all(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Become what :meth:`rows` gave, whatever the file holds; the file follows at the next commit.

        Raises DataError, and changes nothing, where a row is no lesson or comes twice.
        """
        try:
            lessons = [Lesson.from_row(row) for row in rows]
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(f"the checkpoint of the lesson memory holds a row that is no lesson: {error!r}") from error
        if len({lesson.id for lesson in lessons}) < len(lessons):
            raise DataError("the checkpoint of the lesson memory holds a lesson twice; is it of another version?")
        vectors = self._vectors_of([lesson.task for lesson in lessons])
        self._clear()
        for lesson, vector in zip(lessons, vectors, strict=True):
            self._table.insert(lesson, vector)
        self._anew = True

    def _load(self, file: LessonFile) -> None:
        named, found = file.load()
        fits = named == self.embedder.name
        kept = [vector for _, vector in found if fits and vector is not None and len(vector) == self.embedder.width]
        vectors: Iterable[Vectors] = kept
        if len(kept) < len(found):  # written with another embedder
            vectors, self._anew = self._vectors_of([lesson.task for lesson, _ in found]), not self.frozen
        for (lesson, _), vector in zip(found, vectors, strict=True):
            self._table.insert(lesson, vector)
        while not self.frozen and len(self) > self.max_entries:
            self._evict()

    def _clear(self) -> None:
        self._table = LessonTable(self.embedder.width)
        self._settle()

    def _settle(self) -> None:
        self._changed: set[str] = set()
        self._gone: set[str] = set()
        self._anew = False

    def _merges(self, at: int, entry: Lesson, vector: Vectors) -> bool:
        lesson = self._table.lessons[at]
        if lesson.split != entry.split:
            return False  # a lesson has one split, so that excluding a split stays exact
        alike = float(self._table.vectors[at] @ vector) > MERGE_SIMILARITY
        return alike or bool(set(lesson.task_ids) & set(entry.task_ids))

    def _join(self, at: int, entry: Lesson) -> None:
        lesson = self._table.lessons[at]
        new = tuple(task_id for task_id in entry.task_ids if task_id not in lesson.task_ids)
        if new:
            lesson.task_ids += new
            self._table.refresh(at)
            self._changed.add(lesson.id)

    def _evict(self) -> None:
        table = self._table
        nothing = np.zeros(len(table))
        scores = ucb(nothing, table.utility, table.count, float(table.count.sum()), 0.0, self.kappa)
        lowest = np.flatnonzero(scores <= scores.min()).tolist()
        at = min(lowest, key=lambda row: derive_seed("evict", self.seed, table.lessons[row].id))
        gone = table.remove(at).id
        self.evictions += 1
        self._changed.discard(gone)
        self._gone.add(gone)

    def _exact(self, rows: npt.NDArray[np.intp], vector: Vectors) -> Floats:
        """Cosines rounded once: a matrix product's last bits hang on row order and machine, a rank must not."""
        wide, done = vector.astype(np.float64), dict[str, float]()
        for at in rows.tolist():
            task = self._table.lessons[at].task
            if task not in done:
                done[task] = math.fsum((self._table.vectors[at] * wide).tolist())
        return np.array([done[self._table.lessons[at].task] for at in rows.tolist()], np.float64)

    def _vector(self, text: str) -> Vectors:
        vector: Vectors = self._vectors_of([one_line(text, TASK_CHARACTERS)])[0]
        return vector

    def _vectors_of(self, texts: list[str]) -> Vectors:
        missing = sorted({text for text in texts if text not in self._texts})
        made = dict(zip(missing, self.embedder.embed(missing), strict=True)) if missing else {}
        out = [made[text] if text in made else self._texts[text] for text in texts]
        if len(self._texts) + len(made) > _CACHED_TEXTS:
            self._texts.clear()
        self._texts.update(made)
        return np.array(out, np.float32).reshape(len(texts), self.embedder.width)

    def _changing(self) -> None:
        if self.frozen:
            raise AgentGymError("the lesson memory is frozen (evaluation): it can be searched, not changed")


def check_options(alpha: float, kappa: float, ema: float, max_entries: int, max_characters: int) -> None:
    """Raise ConfigError for a value out of its range."""
    for name, value, fine, wanted in (
        ("alpha", alpha, 0 <= alpha <= 1, "in [0, 1]"),
        ("ema", ema, 0 <= ema <= 1, "in [0, 1]"),
        ("kappa", kappa, kappa >= 0, ">= 0"),
        ("max_entries", max_entries, max_entries >= 1, ">= 1"),
        ("max_characters", max_characters, max_characters >= 20, ">= 20"),
    ):
        if not fine:
            raise ConfigError(f"lesson memory: {name} must be {wanted}, got {value}")
