"""Subgoal hints: the first open subgoal in the prompt of every turn (SGO of MiRA, arXiv 2603.19685, at inference)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence, Set
from typing import Any, Literal

from agentgym.augment import PromptContext, PromptPatch
from agentgym.credit.protocols import Services
from agentgym.credit.subgoal_judge import Subgoal
from agentgym.credit.subgoal_tracker import SubgoalTracker
from agentgym.errors import AgentGymError, ConfigError, unknown
from agentgym.types import Task


class SubgoalHint:
    """Pays nothing; adds one line to the prompt, or none where no subgoal is known or all are reached.

    ``source``    ``env``: the task's milestone names, reached as the environment says (names only: no plan, no place,
                  no answer goes into the prompt); ``given``: ``subgoals``, by task id, task name, kind or ``*``, each
                  a list of texts or of ``{name, seen}``; ``judge``: the judge writes ``count`` of them from the task
                  as it is first seen, and is asked which are reached before every ``check_every``-th later turn. A
                  turn for which it fails, or takes longer than ``deadline`` seconds, goes without a hint
    ``seen``      text that proves a given subgoal reached, once an observation since holds it (case and spaces do not
                  count). A given subgoal called like a milestone is reached as the environment says
    ``texts``     milestone or subgoal name -> what the prompt calls it; else the name with ``_`` as spaces
    ``template``  a format string with ``{subgoal}``, ``{done}`` and ``{total}``
    ``clip``      most characters of one observation that the judge is shown

    ``deadline`` must stay below ``limits.policy_timeout``, which ends the episode.
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
        check_every: int = 1,
        deadline: float = 60.0,
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
        self.tracker = SubgoalTracker(count, clip, check_every, deadline)
        self.requires = frozenset({"judge"} if source == "judge" else set())
        self._services: Services | None = None
        self._hints = self._asked = 0

    def bind(self, services: Services) -> None:
        """Where the judge is found, once it is needed."""
        self._services = services

    def augment(self, context: PromptContext) -> PromptPatch | Awaitable[PromptPatch | None] | None:
        """The first open subgoal; None where there is none. A coroutine where a judge is asked."""
        if self.source == "judge":
            return self._judged(context)
        goals = self._goals(context.task, context.milestone_names)
        return self._patch(context, goals, {at for at, goal in enumerate(goals) if self._is_done(goal, context)})

    def report(self) -> dict[str, float]:
        """``hinted``: share of the training turns since the last report with a hint; ``judge_failed_turns``: turns
        since then, evaluation's too, that went without because the judge failed."""
        out = {"hinted": self._hints / self._asked} if self._asked else {}
        if self.source == "judge":
            out["judge_failed_turns"] = float(self.tracker.failures)
        self._hints = self._asked = self.tracker.failures = 0
        return out

    def state_dict(self) -> dict[str, Any]:
        """Subgoals that the judge wrote."""
        return {"subgoals": self.tracker.writer.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse."""
        self.tracker.writer.load_state_dict(state.get("subgoals", {}))

    async def _judged(self, context: PromptContext) -> PromptPatch | None:
        if self._services is None or "judge" not in self._services.offered:
            raise AgentGymError("subgoal_hint: source 'judge' has no judge; CreditPipeline hands it over by bind()")
        found = await self.tracker.progress(context, self._services.offered["judge"])
        return self._patch(context, *(found or ((), frozenset())))

    def _patch(self, context: PromptContext, goals: Sequence[Subgoal], done: Set[int]) -> PromptPatch | None:
        found = None
        if len(done) < len(goals):
            goal = next(goal.name for at, goal in enumerate(goals) if at not in done)
            text = self.texts.get(goal, goal.replace("_", " "))
            line = self.template.format(subgoal=text, done=len(done), total=len(goals))
            found = PromptPatch(line, f"{self.name}:{self.source}")
        if context.mode == "train":
            self._asked += 1
            self._hints += found is not None
        return found

    def _goals(self, task: Task, milestones: Sequence[str]) -> Sequence[Subgoal]:
        if self.source == "env":
            return [Subgoal(name) for name in milestones]
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
