"""Milestones: a reward for progress towards the goal, from the environment's facts, from rules, or from a judge.

``Phi_t`` is the share of milestones reached (MiRA, arXiv 2603.19685, with the environment's facts in place of its judge
and critic). Paid as potential-based shaping (Ng et al. 1999), or once each (CALM).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from agentgym.credit.components import add_component
from agentgym.credit.milestone_judge import Judged
from agentgym.credit.milestone_sources import EnvironmentFacts, Progress, Rules, Source
from agentgym.credit.protocols import Array, Services
from agentgym.credit.shaping import shape
from agentgym.errors import ConfigError, unknown
from agentgym.types import Episode, Group


class Milestones:
    """Adds the component ``milestone``.

    ``source``    ``env`` (default): the milestones that the environment reports, an oracle signal;
                  ``rules``: ``rules=[{name, pattern, field}]``, regular expressions over the transcript;
                  ``judge``: ``subgoals`` of them written by the judge, checked by ``check`` (see
                  :class:`agentgym.credit.milestone_judge.Judged`). What rules and judge find is noted in
                  ``turn.info["milestones:rules" | "milestones:judge"]``, names as of that turn, and all names in
                  ``episode.info`` under the same key
    ``payment``   ``potential``: ``coef * (gamma * Phi_{t+1} - Phi_t)``; ``once``: ``coef`` for each milestone, when it
                  is reached first
    ``terminal_potential``  ``zero``: Phi counts as 0 at a true end, which leaves the best policy as it was. With
                  gamma 1, ``G_t = R - Phi_t`` after an end and ``Phi_T - Phi_t`` where a limit cut the episode. Where
                  a solved task ends with R = Phi = 1 and failures run into the turn limit, this plus the outcome *is*
                  the plain return of the Phi differences ("milestone turn credit"), and solving is paid once.
                  ``keep``: ``G_t = R + Phi_T - Phi_t``: pays a bonus for ending in a promising state, and pays
                  solving twice
    ``truncated``  the same for an episode that a limit cut: ``keep`` (default), for a cut is no end, so that progress
                  in a failed episode is praised; a bias towards progress (measured: cosine .63 to .93 with the exact
                  gradient of success, ``benchmarks/results/credit_bench.json``). ``zero``: exact where the limit is
                  part of the task, and progress without success is taken back

    Milestones stay reached: an undo neither costs nor pays. Before turn 0 none counts as reached. An episode without
    milestones gets 0 and is counted. ``potential`` needs an estimator with returns-to-go, with ``keep`` also one with
    per-turn advantages (rloo) will do; ``once`` works with any.
    """

    name = "milestones"
    component = "milestone"

    def __init__(
        self,
        source: Literal["env", "rules", "judge"] = "env",
        payment: Literal["potential", "once"] = "potential",
        terminal_potential: Literal["zero", "keep"] = "zero",
        truncated: Literal["zero", "keep"] = "keep",
        gamma: float = 1.0,
        coef: float = 1.0,
        weight: float = 1.0,
        rules: Sequence[Mapping[str, str]] = (),
        subgoals: int = 4,
        check: Literal["episode", "turn"] = "episode",
        clip: int = 2000,
    ) -> None:
        for option, value, allowed in (
            ("payment", payment, ("potential", "once")),
            ("terminal_potential", terminal_potential, ("zero", "keep")),
            ("truncated", truncated, ("zero", "keep")),
            ("source", source, ("env", "rules", "judge")),
        ):
            if value not in allowed:
                raise unknown(f"{option} of milestones", str(value), allowed)
        if not 0 <= gamma <= 1:
            raise ConfigError(f"milestones: gamma must be in [0, 1], got {gamma}")
        if bool(rules) != (source == "rules"):
            raise ConfigError(f"milestones: rules go with source 'rules', and only there; source is {source!r}")
        self.payment, self.gamma, self.coef = payment, float(gamma), float(coef)
        self.terminal: Literal["zero", "keep"] = terminal_potential
        self.truncated: Literal["zero", "keep"] = truncated
        self.weight = float(weight)
        self.source: Source
        if source == "env":
            self.source = EnvironmentFacts()
        else:
            self.source = Rules(rules) if source == "rules" else Judged(subgoals, check, clip)
        self.requires = self.source.requires
        self.traits = frozenset[str]()
        if payment == "potential":
            self.traits |= {"telescoping"} | ({"return_to_go"} if terminal_potential == "zero" else set())
        self._report: dict[str, float] = {}

    def plan(self, paid: dict[str, float]) -> dict[str, float]:
        """The component has a name of its own."""
        if self.component in paid:
            raise ConfigError("credit lists milestones twice: one source and one payment at a time")
        return {**paid, self.component: self.weight}

    async def apply(self, groups: list[Group], svc: Services, step: int) -> None:
        """Add the component to every episode. A judge that fails costs milestones, never the batch."""
        found = await self.source.read(groups, svc)
        pairs = [
            (episode, progress)
            for group, row in zip(groups, found, strict=True)
            for episode, progress in zip(group, row, strict=True)
        ]
        for episode, progress in pairs:
            if self.source.label:
                self._note(episode, progress)
            add_component(episode, self.component, self._pay(episode, progress))
        shares = [float(progress.potential()[-1]) for _, progress in pairs if progress.names]
        self._report = {"episodes_without": float(len(pairs) - len(shares)), **self.source.counts}
        if shares:
            self._report["reached"] = float(np.mean(shares))

    def report(self) -> dict[str, float]:
        """``reached``: mean share at the end; ``episodes_without`` any milestones; and the source's own counts."""
        return self._report

    def _pay(self, episode: Episode, progress: Progress) -> Array:
        if self.payment == "once":
            counts = np.array([0, *map(len, progress.reached)], np.float64)
            return self.coef * np.diff(counts)
        terminal = self.truncated if episode.termination.is_truncation else self.terminal
        return shape(np.zeros(len(episode.turns)), progress.potential(), self.gamma, self.coef, terminal)

    def _note(self, episode: Episode, progress: Progress) -> None:
        key = f"milestones:{self.source.label}"
        episode.info[key] = list(progress.names)
        for turn, names in zip(episode.turns, progress.reached, strict=True):
            turn.info[key] = list(names)

    def state_dict(self) -> dict[str, Any]:
        """The judge's subgoals; nothing for other sources."""
        return {"subgoals": self.source.writer.state_dict()} if isinstance(self.source, Judged) else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse."""
        if isinstance(self.source, Judged):
            self.source.writer.load_state_dict(state.get("subgoals", {}))
