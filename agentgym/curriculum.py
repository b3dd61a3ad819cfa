"""Which tasks a training step draws, from which environment, and for how many turns.

Three independent means, stacked as a recipe asks: environments mixed by weight; difficulty bands, which draw tasks
whose success rate is neither near 0 nor near 1 (a group without contrast teaches a group-relative estimator nothing);
and staged horizons, after ScalingInter-RL (AgentGym-RL, arXiv 2509.08755), which let episodes grow longer in steps.

Everything drawn is a function of the seed, the step and what earlier steps reported, so a resumed run draws the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from agentgym.seeding import numpy_rng
from agentgym.types import Group, Task, TaskSet


@dataclass(frozen=True, slots=True)
class Band:
    """Prefer tasks of medium difficulty.

    ``low``, ``high``  success rates, 0 to 1: inside (bounds included) a task has weight 1
    ``outside``        weight of a task that is known to lie outside, 0 to 1; above 0, so that it can come back
    ``memory``         how many of a task's latest episodes make its rate
    ``by``             ``task``: a rate for each task; ``kind``: one for all tasks of a kind
    """

    low: float = 0.1
    high: float = 0.9
    outside: float = 0.1
    memory: int = 16
    by: Literal["task", "kind"] = "task"


class Rates:
    """Success over the latest episodes, by task or by kind of task; environment errors do not count."""

    def __init__(self, band: Band) -> None:
        self.band = band
        self._latest: dict[str, list[bool]] = {}

    def key(self, task: Task) -> str:
        """What a task's rate is kept under."""
        return task.id if self.band.by == "task" else task.kind

    def add(self, groups: Iterable[Group]) -> None:
        """Take in a step's episodes."""
        for group in groups:
            latest = self._latest.setdefault(self.key(group.task), [])
            latest.extend(episode.success for episode in group if not episode.termination.is_failure)
            del latest[: -self.band.memory]

    def weight(self, task: Task) -> float:
        """1 inside the band and for tasks that were never tried, else ``outside``."""
        latest = self._latest.get(self.key(task))
        if not latest:
            return 1.0
        return 1.0 if self.band.low <= sum(latest) / len(latest) <= self.band.high else self.band.outside

    def counts(self) -> dict[str, float]:
        """How many known tasks (or kinds) lie below, inside and above the band."""
        rates = [sum(latest) / len(latest) for latest in self._latest.values() if latest]
        below, above = sum(r < self.band.low for r in rates), sum(r > self.band.high for r in rates)
        return {"below": float(below), "inside": float(len(rates) - below - above), "above": float(above)}

    def state_dict(self) -> dict[str, str]:
        """What a checkpoint keeps: latest outcomes as a string of 0 and 1."""
        return {key: "".join("01"[won] for won in latest) for key, latest in self._latest.items()}

    def load_state_dict(self, state: Mapping[str, str]) -> None:
        """The inverse of :meth:`state_dict`."""
        self._latest = {key: [mark == "1" for mark in marks] for key, marks in state.items()}


class TaskSampler:
    """Draws tasks from one or more task sets, by weight, within difficulty bands.

    ``sources``: name -> (tasks, weight). Without a band and with one source the draw is a plain one without
    replacement. ``counted`` holds how many groups each source has given so far.
    """

    def __init__(self, sources: Mapping[str, tuple[TaskSet, float]], band: Band | None, seed: int) -> None:
        self.tasks = {name: tasks for name, (tasks, _) in sources.items()}
        weights = np.array([weight for _, weight in sources.values()], np.float64)
        self.shares = dict(zip(sources, weights / weights.sum(), strict=True))
        self.rates = {name: Rates(band) for name in sources} if band is not None else {}
        self.counted = dict.fromkeys(sources, 0)
        self.seed = seed

    def draw(self, count: int, *stream: int | str) -> dict[str, list[list[Task]]]:
        """``count`` tasks by a seeded stream: source -> passes of distinct tasks. Sources without a task are left out.

        Shares are exact in expectation, and no source is off by a whole task: the remainders alone are drawn.
        """
        found: dict[str, list[list[Task]]] = {}
        for (name, tasks), share in zip(self.tasks.items(), self._split(count, *stream), strict=True):
            place = () if name == next(iter(self.tasks)) else (name,)
            weigh = self.rates[name].weight if name in self.rates else None
            if share:
                weights = np.array([weigh(task) for task in tasks]) if weigh is not None else None
                found[name] = passes(tasks, share, weights, self.seed, *stream, *place)
        return found

    def _split(self, count: int, *stream: int | str) -> list[int]:
        if len(self.tasks) == 1:
            return [count]
        exact = np.array(list(self.shares.values())) * count
        whole = np.floor(exact).astype(np.int64)
        left = count - int(whole.sum())
        if left:
            rest = exact - whole
            rng = numpy_rng(self.seed, "mix", *stream)
            whole[_systematic(rest * (left / rest.sum()), rng)] += 1
        return [int(n) for n in whole]

    def feedback(self, groups: Mapping[str, Sequence[Group]]) -> dict[str, float]:
        """Learn from a step's groups, by source; returns metrics."""
        metrics: dict[str, float] = {}
        for name, some in groups.items():
            self.counted[name] += len(some)
            if name in self.rates:
                self.rates[name].add(some)
                metrics |= {f"curriculum/{name}/{key}": n for key, n in self.rates[name].counts().items()}
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {
            "counted": dict(self.counted),
            "rates": {name: rates.state_dict() for name, rates in self.rates.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of :meth:`state_dict`; sources that are new in the recipe begin empty."""
        for name, n in state.get("counted", {}).items():
            if name in self.counted:
                self.counted[name] = n
        for name, rates in state.get("rates", {}).items():
            if name in self.rates:
                self.rates[name].load_state_dict(rates)


def passes(tasks: TaskSet, count: int, weights: npt.NDArray[np.float64] | None, *seed: int | str) -> list[list[Task]]:
    """``count`` tasks by a seed, in passes of distinct tasks where there are fewer; ``weights`` > 0 one a task."""
    rng = numpy_rng(*seed)
    out: list[list[Task]] = []
    while count > 0:
        if weights is None:
            order = rng.permutation(len(tasks))[:count]
        else:  # Efraimidis and Spirakis, 2006: the largest u^(1/w) are a weighted sample without replacement
            order = np.argsort(np.log(1.0 - rng.random(len(tasks))) / weights, kind="stable")[::-1][:count]
        out.append([tasks[int(i)] for i in order])
        count -= len(order)
    return out


def _systematic(expected: npt.NDArray[np.float64], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Systematic sampling: distinct indices, each with its expected probability (all <= 1, the sum whole)."""
    edges = np.concatenate([[0.0], np.cumsum(expected)])
    points = rng.random() + np.arange(round(edges[-1]))
    return np.minimum(np.searchsorted(edges, points, side="right") - 1, len(expected) - 1).astype(np.int64)


def horizon(stages: Sequence[tuple[int, int]], step: int) -> int | None:
    """The turn limit at ``step`` of ``stages`` (first step, turns), in order; None before the first."""
    reached = [turns for begin, turns in stages if begin <= step]
    return reached[-1] if reached else None
