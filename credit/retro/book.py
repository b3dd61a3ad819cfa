"""What RetroAgent does with its lesson memory: show lessons in prompts, judge those used, keep new ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from agentgym.augment import PromptContext, PromptPatch
from agentgym.credit.retro.embeddings import Embedder, check_embedder, make_embedder
from agentgym.credit.retro.entries import Lesson, one_line
from agentgym.credit.retro.memory import LessonMemory, check_options
from agentgym.credit.retro.reflection import Reflection
from agentgym.errors import ConfigError, nearest, unknown
from agentgym.types import Episode, Group

SOURCES_KEY = "prompt_sources"  # in Episode.info, written by the rollout engine
EVALUATION_SPLITS = ("test", "valid_seen", "valid_unseen", "generated_valid", "generated_test")
_IDS = re.compile(r"lesson:([0-9a-f+]+)")
_GOAL = re.compile(
    r"\b(?:your task is(?: to)?|goal|task|instruction|mission|question|objective)[ \t]*:\s*(\S[^\n]*)", re.IGNORECASE
)
_OPTIONS: Mapping[str, Any] = {
    "path": ":memory:", "embedder": "hashed", "alpha": 0.7, "kappa": 1.0, "min_relevance": 0.4, "ema": 0.05,
    "max_entries": 2000, "max_characters": 300,
}  # fmt: skip
SameTask = Literal["train", "always", "never"]
Counts = dict[str, float]


def task_text(observation: str) -> str:
    """What a task is compared by: the sentence behind "Your task is to:", "Goal:" ..., else the first observation."""
    found = _GOAL.search(observation[:20_000])
    return found.group(1).strip() if found else observation


def used_lessons(episode: Episode) -> list[str]:
    """Ids of the lessons in the episode's prompt, from the sources that the rollout engine recorded."""
    sources = episode.info.get(SOURCES_KEY) or ()
    sources = [sources] if isinstance(sources, str) else sources
    found = [ids for source in sources for ids in _IDS.findall(str(source))]
    return [key for ids in found for key in ids.split("+") if key]


def rate(episodes: Sequence[Episode]) -> float:
    """Mean success; 0 for none."""
    return float(np.mean([episode.success for episode in episodes])) if episodes else 0.0


class LessonBook:
    """The memory and the rules of its use. Opened when first needed: to be read by :meth:`patch`, written by
    :meth:`learn` alone, so that an evaluation leaves no trace.

    ``same_task``  where a lesson may come from the very task: in training (default), always, never
    ``exclude_task_ids``, ``exclude_splits``  lessons from these are neither kept nor shown
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        *,
        seed: int,
        top_k: int,
        eval_top_k: int,
        same_task: SameTask,
        exclude_task_ids: Iterable[str],
        exclude_splits: Iterable[str],
        only_if_better: bool,
    ) -> None:
        for key in options:
            if key not in _OPTIONS:
                close = nearest(key, _OPTIONS)
                hint = f"Did you mean {close[0]!r}?" if close else f"It takes: {', '.join(_OPTIONS)}."
                raise ConfigError(f"retro: memory has no option {key!r}. {hint}")
        if same_task not in ("train", "always", "never"):
            raise unknown("choice of retro's same_task", str(same_task), ("train", "always", "never"))
        self._options = {**_OPTIONS, **options}
        self._path, self._embedder_name = str(self._options.pop("path")), str(self._options.pop("embedder"))
        check_options(*(self._options[name] for name in ("alpha", "kappa", "ema", "max_entries", "max_characters")))
        check_embedder(self._embedder_name)
        if self._path != ":memory:" and Path(self._path).is_dir():
            raise ConfigError(f"retro: memory path {self._path} is a folder; give a file in it")
        self._seed, self._top_k, self._eval_top_k, self._same_task = seed, top_k, eval_top_k, same_task
        self._no_tasks, self._no_splits = frozenset(exclude_task_ids), frozenset(exclude_splits)
        self._only_if_better = only_if_better
        self._embedder: Embedder | None = None
        self._memory: LessonMemory | None = None
        self._restored: list[dict[str, Any]] | None = None

    def memory(self, writable: bool = False) -> LessonMemory:
        """The memory, opened or reopened as asked. Raises ConfigError where another process writes its file."""
        memory = self._memory
        if memory is None or (writable and memory.frozen):
            self._embedder = self._embedder or make_embedder(self._embedder_name)
            may_write = writable or self._path == ":memory:"
            memory = LessonMemory(self._path, self._embedder, seed=self._seed, writable=may_write, **self._options)
            if self._restored is not None:
                memory.replace_all(self._restored)
                self._restored = None if may_write else self._restored
            self._memory = memory
        return memory

    def patch(self, context: PromptContext) -> PromptPatch | None:
        """Lessons for the first turn: half of a training group goes without; in evaluation every slot gets some."""
        training = context.mode == "train"
        if context.turn or (training and context.slot < context.slots // 2):
            return None
        own = self._same_task == "never" or (self._same_task == "train" and not training)
        found = self.memory().search(
            task_text(context.observation.text),
            self._top_k if training else self._eval_top_k,
            context.mode,
            exclude_task_ids=self._no_tasks | ({context.task.id} if own else set()),
            exclude_splits=self._no_splits,
        )
        if not found:
            return None
        if len(found) == 1:
            text = f"A lesson from an earlier attempt at a similar task: {found[0].text}"
        else:
            text = "\n- ".join(["Lessons from earlier attempts at similar tasks:", *(one.text for one in found)])
        return PromptPatch(text, "lesson:" + "+".join(one.id for one in found), sticky=True)

    def learn(self, groups: Sequence[Group], reflections: Sequence[Sequence[Reflection | None]], step: int) -> Counts:
        """Judge the used lessons by their episodes, then keep new ones; one transaction. Gives counts for the log."""
        counts = dict.fromkeys(
            ("added", "merged", "rejected", "excluded", "unreflected", "used", "unknown_lessons", "skipped"), 0.0
        )
        memory = self.memory(writable=True)
        for group in groups:
            self._judge(memory, group, counts)
        for group, found in zip(groups, reflections, strict=True):
            for episode, reflection in zip(group, found, strict=True):
                if reflection is None:
                    counts["unreflected"] += 1
                elif episode.task.id in self._no_tasks or episode.task.split in self._no_splits:
                    counts["excluded"] += 1
                else:
                    self._keep(memory, episode, reflection, step, counts)
        memory.commit()
        return {**counts, "size": float(len(memory)), "damaged": float(memory.damaged)}

    def rows(self) -> list[dict[str, Any]]:
        """The memory's content for a checkpoint."""
        return self.memory().rows()

    def restore(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Go back to :meth:`rows`, though the file may be ahead; the file follows at the next :meth:`learn`."""
        self._restored = [dict(row) for row in rows]
        if self._memory is not None:
            self._memory.replace_all(self._restored)
            self._restored = self._restored if self._memory.frozen else None

    def close(self) -> None:
        """Release the file; it is opened again when needed."""
        if self._memory is not None:
            self._restored = self._restored if self._memory.frozen else self._memory.rows()
            self._memory.close()
            self._memory = None

    def _judge(self, memory: LessonMemory, group: Group, counts: Counts) -> None:
        used = {at: ids for at, episode in enumerate(group) if (ids := used_lessons(episode))}
        with_lesson = [group.episodes[at] for at in used]
        without = [episode for at, episode in enumerate(group) if at not in used]
        counts["used"] += len(used)
        if self._only_if_better and not rate(with_lesson) > rate(without):
            counts["skipped"] += len(used)
            return
        for at, ids in used.items():
            counts["unknown_lessons"] += memory.update(ids, group.episodes[at].success)

    def _keep(self, memory: LessonMemory, episode: Episode, found: Reflection, step: int, counts: Counts) -> None:
        text = one_line(found.lesson, memory.max_characters)
        if not episode.turns or not found.fits(episode, text):
            counts["rejected"] += 1
            return
        before = len(memory), memory.evictions
        entry = Lesson(
            (episode.task.id,), task_text(episode.turns[0].observation), text, episode.task.split, found.source, step,
            episode.success,
        )  # fmt: skip
        memory.add(entry)
        grown = (len(memory), memory.evictions) != before
        counts["added" if grown else "merged"] += 1
