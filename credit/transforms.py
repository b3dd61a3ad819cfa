"""Transforms of a named component, paid in its place: Delta, Clip (process rewards) and PAR (preference as reward).

Each takes component ``X`` out of what is paid and pays ``delta:X``, ``clip:X`` or ``preference:X`` instead, with X's
weight; X itself stays recorded. They stack in the order of the recipe: ``clip`` of ``preference:X``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from agentgym.credit.components import add_component, component, flat_component
from agentgym.credit.protocols import Array, Services
from agentgym.errors import ConfigError, unknown
from agentgym.types import Episode, Group


def delta(scores: Array) -> Array:
    """``r_k = s_k - s_{k+1}``, the last keeps its score: the return-to-go at k is ``s_k`` (Delta PRM; the index
    convention is our reading). Bounded whatever the length: more good steps behind a bad one do not pay for it."""
    return scores - np.append(scores[1:], 0.0) if len(scores) else scores.copy()


def clip(scores: Array, eta: float) -> Array:
    """``r_k = min(s_k - eta, 0)`` (Clip PRM): punishes steps below eta, pays for none."""
    clipped: Array = np.minimum(scores - eta, 0.0)
    return clipped


def preference(score: float, references: Array, k: float = 1.0) -> float:
    """``mean_m sigmoid(k * (score - ref_m))`` in (0, 1) (PAR); 0.5, no preference, without references."""
    if not len(references):
        return 0.5
    x = np.clip(k * (score - references), -500.0, 500.0)  # exp stays finite
    return float(np.mean(1.0 / (1.0 + np.exp(-x))))


class Replacement:
    """Base: pays ``<name>:X`` in place of component X; X None (default): the one component paid beside the outcome."""

    name = ""
    stage = "shape"
    traits: frozenset[str] = frozenset()
    requires: frozenset[str] = frozenset()

    def __init__(self, component: str | None = None) -> None:
        self.source, self._found = component or "", component is None

    @property
    def target(self) -> str:
        """The component that it writes."""
        return f"{self.name}:{self.source}"

    def plan(self, paid: dict[str, float]) -> dict[str, float]:
        """``X`` -> ``<name>:X`` with its weight. Raises where X is not paid before this part, or is not clear."""
        if self._found:
            dense = [name for name in paid if name != "outcome"]
            if len(dense) != 1:
                raise ConfigError(
                    f"{self.name}: component=NAME must say what to work on; paid before it: {', '.join(paid)}"
                )
            self.source = dense[0]
        if self.source not in paid:
            raise unknown(f"component of {self.name}", self.source, paid, "It works on what is paid before it.")
        return {self.target if name == self.source else name: weight for name, weight in paid.items()}


class Delta(Replacement):
    """:func:`delta` of a component of step scores. Needs return-to-go with gamma 1 (else nothing telescopes)."""

    name = "delta"
    traits = frozenset({"telescoping", "return_to_go"})

    async def apply(self, groups: list[Group], svc: Services, step: int) -> None:
        """Write the differences."""
        for group in groups:
            for episode in group:
                add_component(episode, self.target, delta(component(episode, self.source)))


class Clip(Replacement):
    """:func:`clip` of a component of step scores.

    ``eta``  the bar; None: the batch's ``quantile`` (default the median) of all step scores. Its sum is at most 0, so
    ending early is cheap: watch ``turns``, the mean length, which is reported.
    """

    name = "clip"

    def __init__(self, component: str | None = None, eta: float | None = None, quantile: float = 0.5) -> None:
        super().__init__(component)
        if not 0 <= quantile <= 1:
            raise ConfigError(f"clip: quantile must be in [0, 1], got {quantile}")
        self.eta, self.quantile = eta, quantile
        self._report: dict[str, float] = {}

    async def apply(self, groups: list[Group], svc: Services, step: int) -> None:
        """Write the clipped scores."""
        episodes = [episode for group in groups for episode in group]
        scores = flat_component(episodes, self.source)
        if not len(scores):
            self._report = {}
            return
        eta = float(np.quantile(scores, self.quantile)) if self.eta is None else float(self.eta)
        clipped = clip(scores, eta)
        ends = np.cumsum([len(episode.turns) for episode in episodes]).tolist()
        for episode, end in zip(episodes, ends, strict=True):
            add_component(episode, self.target, clipped[end - len(episode.turns) : end])
        self._report = {
            "eta": eta,
            "punished": float((clipped < 0).mean()),
            "turns": len(scores) / len(episodes),
        }

    def report(self) -> dict[str, float]:
        """``eta`` in use, share of steps ``punished``, mean ``turns`` of an episode."""
        return self._report


class Preference(Replacement):
    """:func:`preference` of an episode's score (the component's sum over its turns), paid on its last turn.

    ``references``  scores of a frozen policy's episodes: a list for all tasks, or a mapping from task name, id or kind
                    to a list; or ``group`` (default, ours): the other episodes of the group, by index
    ``most``        references used (M); one suffices, says the paper
    ``k``           slope
    """

    name = "preference"

    def __init__(
        self,
        component: str | None = None,
        references: Sequence[float] | Mapping[str, Sequence[float]] | str = "group",
        k: float = 1.0,
        most: int = 10,
    ) -> None:
        super().__init__(component)
        if isinstance(references, str) and references != "group":
            raise unknown("references of preference", references, ("group",))
        if not k > 0 or most < 1:
            raise ConfigError(f"preference: k > 0 and most >= 1, got {k} and {most}")
        self.references, self.k, self.most = references, float(k), most
        for scores in references.values() if isinstance(references, Mapping) else [references]:
            if not isinstance(scores, str) and not (len(scores) and np.isfinite(np.asarray(scores, np.float64)).all()):
                raise ConfigError(f"preference: references must be finite numbers, at least one, got {scores!r}")
        self._without = 0

    async def apply(self, groups: list[Group], svc: Services, step: int) -> None:
        """Write the preference on each last turn."""
        self._without = 0
        for group in groups:
            episodes = sorted(group, key=lambda episode: episode.index)
            scores = np.array([component(episode, self.source).sum() for episode in episodes], np.float64)
            for i, episode in enumerate(episodes):
                references = self._of(episode, np.delete(scores, i))
                self._without += not len(references)
                values = np.zeros(len(episode.turns))
                values[-1:] = preference(float(scores[i]), references, self.k)
                add_component(episode, self.target, values)

    def report(self) -> dict[str, float]:
        """``episodes_without`` any reference, which were paid 0.5."""
        return {"episodes_without": float(self._without)}

    def _of(self, episode: Episode, others: Array) -> Array:
        found = self.references
        if isinstance(found, Mapping):
            keys = (episode.task.name, episode.task.id, episode.task.kind)
            found = next((found[key] for key in keys if key in found), ())
        return others[: self.most] if isinstance(found, str) else np.asarray(found[: self.most], np.float64)
