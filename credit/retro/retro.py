"""RetroAgent: intrinsic reward for progress beyond the best so far, and a memory of lessons (arXiv 2603.08561)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import exp
from typing import Any, Literal

import numpy as np

from agentgym.augment import PromptContext, PromptPatch
from agentgym.credit.components import add_component
from agentgym.credit.protocols import Services
from agentgym.credit.retro.book import EVALUATION_SPLITS, LessonBook, SameTask, rate, used_lessons
from agentgym.credit.retro.models import by_model, seeds_for, transcript
from agentgym.credit.retro.reflection import Reflection, by_rules
from agentgym.errors import ConfigError, unknown
from agentgym.types import Episode, Group

_LATEST_TASKS = 512  # tasks whose latest success and failure are kept for pairwise reflections
_ASK: Mapping[str, float] = {"concurrency": 8, "deadline_s": 120.0, "max_tokens": 256}


class Retro:
    """``R_int = lambda_int * max(0, phi - Phi_x)`` on the last turn, ``Phi_x`` the best mean success on task x so far.

    Each episode gets a reflection ``z = (phi, c, lesson)``. ``Phi`` is read before the batch and raised once per group
    in :meth:`feedback`, from the episodes without a lesson. A lesson is kept if its author foresaw the outcome
    (``c == success``), which he is not told. Half of a group's slots get the best lesson of similar tasks; the memory
    changes in ``feedback`` only, so what is shown does not hang on concurrency, and evaluation changes nothing.

    ``reflection``   ``rules`` (milestones), ``policy`` or ``judge``; ``ask``: concurrency, deadline_s, max_tokens
    ``pairwise``     show the model the latest attempt at the task with the opposite outcome
    ``lambda_int``   weight of R_int; ``clip``: at most this; ``decay="exp"``: times ``exp(-5 * step / decay_steps)``
    ``memory``       False, or options of the lesson memory: path, embedder, alpha, kappa, min_relevance, ema,
                     max_entries, max_characters
    ``normalise_by`` ``group_half``: separate statistics for episodes with and without a lesson
    ``only_if_better``  judge lessons only where the episodes with one did better than those without

    Not here: the paper's RL-trained reflection (extra rows on reflection tokens with their own loss), nor R_int's
    hard cut-off and group-mean options.
    """

    name = component = "retro"
    stage = "add"

    def __init__(
        self,
        lambda_int: float = 1.0,
        decay: Literal["none", "exp"] = "none",
        decay_steps: int = 0,
        clip: float | None = None,
        reflection: Literal["rules", "policy", "judge"] = "rules",
        ask: Mapping[str, float] | None = None,
        pairwise: bool = True,
        memory: bool | Mapping[str, Any] = True,
        top_k: int = 1,
        eval_top_k: int = 3,
        normalise_by: Literal["group", "group_half"] = "group",
        only_if_better: bool = False,
        same_task: SameTask = "train",
        exclude_task_ids: Iterable[str] = (),
        exclude_splits: Iterable[str] = EVALUATION_SPLITS,
        seed: int = 0,
        weight: float = 1.0,
    ) -> None:
        _choice("reflection", reflection, ("rules", "policy", "judge"))
        _choice("normalise_by", normalise_by, ("group", "group_half"))
        _choice("decay", decay, ("none", "exp"))
        if lambda_int < 0 or (clip is not None and clip < 0) or (decay == "exp" and decay_steps < 1):
            raise ConfigError(
                "retro: lambda_int >= 0, clip >= 0, and decay_steps >= 1 with decay 'exp'; "
                f"got {lambda_int}, {clip}, {decay_steps}"
            )
        self.lambda_int, self.clip, self.decay, self.decay_steps = lambda_int, clip, decay, decay_steps
        self.reflection, self.pairwise, self.seed, self.weight = reflection, pairwise, seed, float(weight)
        self.normalise_by = normalise_by
        self.requires = frozenset({reflection} - {"rules"})
        self.traits = frozenset({"augmenter"} if memory is not False else set())
        self._ask = _ask_options(ask or {})
        self.book: LessonBook | None = None
        if memory is not False:
            self.book = LessonBook(
                memory if isinstance(memory, Mapping) else {}, seed=seed, top_k=top_k, eval_top_k=eval_top_k,
                same_task=same_task, exclude_task_ids=exclude_task_ids, exclude_splits=exclude_splits,
                only_if_better=only_if_better,
            )  # fmt: skip
        self.best: dict[str, float] = {}
        self._latest: dict[str, dict[str, str]] = {}
        self._seen: dict[int, tuple[Episode, Reflection]] = {}  # holds the episode, so that its id is not given again
        self._seen_step: int | None = None
        self._report: dict[str, float] = {}

    async def apply(self, groups: list[Group], svc: Services, step: int) -> None:
        """Reflect on every episode and add the component ``retro``."""
        if step != self._seen_step:  # a step may be applied in several draws before its feedback
            self._seen, self._seen_step = {}, step
        found = await self._reflect(groups, svc, step)
        paid: list[float] = []
        for group, reflections in zip(groups, found, strict=True):
            best = self.best.get(group.key, 0.0)
            for episode, reflection in zip(group, reflections, strict=True):
                self._seen[id(episode)] = (episode, reflection)
                values = np.zeros(len(episode.turns))
                values[-1:] = self._intrinsic(reflection.phi, best, step)
                paid.append(float(values.sum()))
                add_component(episode, self.name, values)
        self._report = _figures(groups, [one for row in found for one in row], paid)

    def feedback(self, groups: list[Group], svc: Services, step: int) -> dict[str, float]:
        """Raise Phi, judge the lessons that were used, keep new ones."""
        reflections = [[self._seen.get(id(episode), (None, None))[1] for episode in group] for group in groups]
        self._seen = {}
        for group in groups:
            control = [episode for episode in group if not used_lessons(episode)] if self.book else group.episodes
            if control:
                self.best[group.key] = max(self.best.get(group.key, 0.0), rate(control))
            if self.pairwise and self.reflection != "rules":
                self._remember(group)
        out = {"best_mean": float(np.mean(list(self.best.values()))) if self.best else 0.0}
        if self.book is not None:
            learnt = self.book.learn(groups, reflections, step)
            out |= {f"memory/{key}": value for key, value in learnt.items()}
        return out

    def augment(self, context: PromptContext) -> PromptPatch | None:
        """Lessons below the first observation, for slots ``>= slots // 2`` in training and for all in evaluation."""
        return None if self.book is None else self.book.patch(context)

    def split(self, episode: Episode) -> str:
        """``memory`` or ``plain`` with ``normalise_by="group_half"``, else empty."""
        if self.normalise_by == "group" or self.book is None:
            return ""
        return "memory" if used_lessons(episode) else "plain"

    def report(self) -> dict[str, float]:
        """About the last :meth:`apply`: phi, R_int, predictions, failures of reflection, and the reach of lessons."""
        return dict(self._report)

    def state_dict(self) -> dict[str, Any]:
        """Phi, the latest attempts and the memory's lessons."""
        latest = {task: dict(texts) for task, texts in self._latest.items()}
        return {"best": dict(self.best), "latest": latest, "memory": self.book.rows() if self.book else None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse; the memory becomes that of the checkpoint even where its file is ahead."""
        self.best = {str(task): float(value) for task, value in state["best"].items()}
        self._latest = {str(task): dict(texts) for task, texts in state["latest"].items()}
        if self.book is not None and state["memory"] is not None:  # None: the run before had no memory
            self.book.restore(state["memory"])

    def close(self) -> None:
        """Release the memory's file."""
        if self.book is not None:
            self.book.close()

    def _intrinsic(self, phi: float, best: float, step: int) -> float:
        factor = exp(-5 * step / self.decay_steps) if self.decay == "exp" else 1.0
        value = self.lambda_int * factor * max(0.0, phi - best)
        return value if self.clip is None else min(value, self.clip)

    async def _reflect(self, groups: list[Group], svc: Services, step: int) -> list[list[Reflection]]:
        rules = [by_rules(group) for group in groups]
        if self.reflection == "rules":
            return rules
        if self.reflection not in svc.offered:
            raise ConfigError(
                f"retro: reflection {self.reflection!r} needs the service of that name; it is not offered"
            )
        episodes = [episode for group in groups for episode in group]
        answers = iter(
            await by_model(
                episodes,
                [text for group in groups for text in self._opposites(group)],
                svc.offered[self.reflection],
                [one for row in rules for one in row],
                source=self.reflection,
                seeds=seeds_for(episodes, step, self.seed),
                concurrency=int(self._ask["concurrency"]),
                deadline_s=self._ask["deadline_s"],
                max_tokens=int(self._ask["max_tokens"]),
            )
        )
        return [[next(answers) for _ in group] for group in groups]

    def _opposites(self, group: Group) -> list[str]:
        """Per episode the latest attempt with the opposite outcome: in this group, else from earlier steps."""
        if not self.pairwise:
            return [""] * len(group)
        latest = {**self._latest.get(group.key, {}), **{str(e.success): transcript(e, 3000) for e in group if e.turns}}
        return [latest.get(str(not episode.success), "") for episode in group]

    def _remember(self, group: Group) -> None:
        texts = {str(episode.success): transcript(episode, 3000) for episode in group if episode.turns}
        self._latest[group.key] = {**self._latest.pop(group.key, {}), **texts}
        while len(self._latest) > _LATEST_TASKS:
            del self._latest[next(iter(self._latest))]


def _choice(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise unknown(f"choice of retro's {option}", str(value), allowed)


def _ask_options(given: Mapping[str, float]) -> dict[str, float]:
    for key, value in given.items():
        if key not in _ASK:
            raise unknown("option of retro's ask", key, _ASK)
        if not value > 0 or (key == "concurrency" and value < 1):
            raise ConfigError(f"retro: ask.{key} must be positive, got {value}")
    return {**_ASK, **given}


def _figures(groups: list[Group], found: list[Reflection], paid: list[float]) -> dict[str, float]:
    """Numbers of one application; empty where no episode counts."""
    episodes = [episode for group in groups for episode in group]
    if not episodes:
        return {}
    later = [e for g in groups for e in g if e.index >= max(len(g), max(x.index for x in g) + 1) // 2]
    return {
        "phi_mean": float(np.mean([one.phi for one in found])),
        "r_int_mean": float(np.mean(paid)),
        "foreseen": float(np.mean([one.predicted == e.success for one, e in zip(found, episodes, strict=True)])),
        "parse_failures": float(sum(one.problem == "parse" for one in found)),
        "service_failures": float(sum(one.problem == "service" for one in found)),
        "lesson_rate": float(np.mean([bool(used_lessons(e)) for e in episodes])),
        "hit_rate": float(np.mean([bool(used_lessons(e)) for e in later])) if later else 0.0,
    }
