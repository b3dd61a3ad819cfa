"""Subgoal hints: the first open subgoal in the prompt of every turn (SGO of MiRA, arXiv 2603.19685, at inference)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from agentgym.augment import PromptContext, PromptPatch
from agentgym.credit.protocols import Services
from agentgym.credit.subgoal_judge import Subgoal, SubgoalWriter
from agentgym.errors import ConfigError, unknown
from agentgym.types import Group, Task


class SubgoalHint:
    """Pays nothing; adds one line to the prompt, or none where no subgoal is known or all are reached.

    ``source``    ``env``: the task's milestone names, reached as the environment says (names only: no plan, no place,
                  no answer goes into the prompt); ``given``: ``subgoals``, by task id, task name, kind or ``*``, each
                  a list of texts or of ``{name, seen}``; ``judge``: written by the judge for the tasks of a batch,
                  when the batch is credited, so a task gets hints from its second visit on
    ``seen``      text that proves a subgoal reached, once an observation since holds it (case and spaces do not count).
                  A subgoal whose name is one of the environment's milestones is reached as the environment says
    ``texts``     milestone or subgoal name -> what the prompt calls it; else the name with ``_`` as spaces
    ``template``  a format string with ``{subgoal}``, ``{done}`` and ``{total}``
    """

    name = "subgoal_hint"
    traits = frozenset({"augmenter"})

    def __init__(
        self,
        source: Literal["env", "given", "judge"] = "env",
        template: str = "Next subgoal: {subgoal}.",
        texts: Mapping[str, str] | None = None,
        subgoals: Mapping[str, Sequence[Any]] | None = None,
        count: int = 4,
        clip: int = 2000,
    ) -> None:
        if source not in ("env", "given", "judge"):
            raise unknown("source of subgoal_hint", str(source), ("env", "given", "judge"))
        if bool(subgoals) != (source == "given"):
            raise ConfigError(f"subgoal_hint: subgoals go with source 'given', and only there; source is {source!r}")
        try:
            template.format(subgoal="x", done=0, total=1)
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"subgoal_hint: template {template!r} takes {{subgoal}}, {{done}} and {{total}} only: {error!r}"
            ) from error
        self.source, self.template, self.texts = source, template, dict(texts or {})
        self.given = {key: _subgoals(key, goals) for key, goals in (subgoals or {}).items()}
        self.writer = SubgoalWriter(count, clip)
        self.requires = frozenset({"judge"} if source == "judge" else set())
        self._hints = self._asked = 0

    def plan(self, paid: dict[str, float]) -> dict[str, float]:
        """A hint is no reward."""
        return paid

    def augment(self, context: PromptContext) -> PromptPatch | None:
        """The first open subgoal; None where there is none."""
        goals = self._goals(context.task, context.milestone_names)
        done = [self._is_done(goal, context) for goal in goals]
        found = None
        if not all(done):
            goal = goals[done.index(False)].name
            text = self.texts.get(goal, goal.replace("_", " "))
            line = self.template.format(subgoal=text, done=sum(done), total=len(goals))
            found = PromptPatch(line, f"{self.name}:{self.source}")
        if context.mode == "train":
            self._asked += 1
            self._hints += found is not None
        return found

    async def apply(self, groups: list[Group], svc: Services, step: int) -> None:
        """With the judge: have subgoals written for tasks that have none yet."""
        if self.source != "judge":
            return
        starts = {
            group.key: (group.task, episode.turns[0].observation)
            for group in groups
            for episode in group
            if episode.turns
        }
        await asyncio.gather(*(self.writer.write(task, start, svc.offered["judge"]) for task, start in starts.values()))

    def report(self) -> dict[str, float]:
        """``hinted``: share of the training turns since the last report with a hint; ``judge_failed_tasks`` so far."""
        out = {"hinted": self._hints / self._asked} if self._asked else {}
        self._hints = self._asked = 0
        return out | ({"judge_failed_tasks": float(self.writer.failed)} if self.source == "judge" else {})

    def state_dict(self) -> dict[str, Any]:
        """Subgoals that the judge wrote."""
        return {"subgoals": self.writer.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse."""
        self.writer.load_state_dict(state.get("subgoals", {}))

    def _goals(self, task: Task, milestones: Sequence[str]) -> Sequence[Subgoal]:
        if self.source == "env":
            return [Subgoal(name) for name in milestones]
        if self.source == "judge":
            return self.writer.known.get(task.id, ())
        keys = (task.id, task.name, task.kind, "*")
        return next((self.given[key] for key in keys if key in self.given), ())

    def _is_done(self, goal: Subgoal, context: PromptContext) -> bool:
        if goal.name in context.milestone_names:
            return any(goal.name in turn.milestones for turn in context.turns[-1:])  # never shrinks: the last holds all
        seen = _folded(goal.seen)
        return bool(seen) and any(seen in _folded(turn.next_observation) for turn in context.turns)


def _subgoals(key: str, goals: Sequence[Any]) -> tuple[Subgoal, ...]:
    try:
        out = tuple(Subgoal(g) if isinstance(g, str) else Subgoal(**g) for g in goals)
    except TypeError as error:
        raise ConfigError(f"subgoal_hint: subgoals of {key!r}: each is a text or {{name, seen}}: {error}") from error
    if not out or any(not goal.name for goal in out):
        raise ConfigError(f"subgoal_hint: subgoals of {key!r} need at least one, each with a name")
    return out


def _folded(text: str) -> str:
    return " ".join(text.lower().split())
