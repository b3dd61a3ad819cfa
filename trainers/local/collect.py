"""One training step's data: tasks, rollouts, credit, and the token rows that come out of them.

Failed episodes (env_error, aborted) make no rows and are counted; groups without contrast are dropped and counted,
and may be replaced by freshly drawn tasks.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from agentgym.config.recipe import RLSection
from agentgym.credit import CreditPipeline, place, project
from agentgym.credit.protocols import TokenRagged
from agentgym.curriculum import TaskSampler, passes
from agentgym.seeding import derive_seed
from agentgym.tokens import FloatArray
from agentgym.trainers.local.batch import TrainRow
from agentgym.trainers.local.choices import Choices
from agentgym.types import Episode, Group, Task, TaskSet, Termination


class Engine(Protocol):
    """What is used of :class:`agentgym.rollouts.RolloutEngine`."""

    def run_sync(
        self,
        tasks: Iterable[Task],
        n: int = 1,
        seed: int = 0,
        on_episode: Callable[[Episode], None] | None = None,
        collect: bool = True,
    ) -> list[Group]:
        """Groups of ``n`` episodes, one a task, in order."""
        ...


@dataclass(slots=True)
class StepData:
    """``rows`` to train on, the ``groups`` they come from (also by environment, where several are mixed), ``metrics``,
    and what a critic is to be fitted to."""

    rows: list[TrainRow]
    groups: list[Group]
    metrics: dict[str, float] = field(default_factory=dict)
    targets: list[tuple[list[Group], TokenRagged]] = field(default_factory=list)
    by_source: dict[str, list[Group]] = field(default_factory=dict)


def draw_tasks(tasks: TaskSet, count: int, *seed: int | str) -> list[list[Task]]:
    """``count`` tasks by a seeded stream, without replacement; in passes of distinct tasks where there are fewer."""
    return passes(tasks, count, None, *seed)


class Collector:
    """Makes the data of each step from the recipe's seed and the step number alone."""

    def __init__(
        self,
        engine: Engine,
        tasks: TaskSet,
        credit: CreditPipeline,
        settings: RLSection,
        seed: int,
        on_episode: Callable[[Episode], None] | None = None,
        choices: Callable[[Episode], Choices] | None = None,
        engines: Mapping[str, Engine] | None = None,
        sampler: TaskSampler | None = None,
    ) -> None:
        self.engine, self.tasks, self.credit, self.settings = engine, tasks, credit, settings
        self.seed, self.on_episode, self.choices = seed, on_episode, choices
        self.engines = engines or {"": engine}
        self.sampler = sampler or TaskSampler({"": (tasks, 1.0)}, None, seed)

    def collect(self, step: int) -> StepData:
        """Roll out ``groups`` x ``group_size`` episodes, assign credit, and project it to tokens."""
        settings = self.settings
        data = StepData([], [])
        dead = 0
        wanted = settings.groups
        started = time.perf_counter()
        spent_credit = 0.0
        for attempt in range(1 + settings.resample):
            groups = self._roll_out(step, attempt, wanted, data.by_source)
            began = time.perf_counter()
            result = self.credit.run(groups, step=step)
            spent_credit += time.perf_counter() - began
            for index, (group, is_dead) in enumerate(zip(groups, result.dead, strict=True)):
                dead += is_dead
                wanted -= not is_dead
                if not (is_dead and settings.drop_dead_groups):
                    tokens = result.tokens[index] if result.tokens is not None else None
                    data.rows.extend(self._rows(group, result.advantages[index], tokens))
            data.groups.extend(groups)
            if result.targets is not None:
                data.targets.append((groups, result.targets))
            data.metrics |= result.metrics  # of the last draw; the episode metrics below cover all
            if wanted <= 0 or not settings.drop_dead_groups:
                break
        data.metrics |= episode_metrics([e for g in data.groups for e in g])
        if len(self.engines) > 1:
            for name, some in data.by_source.items():
                data.metrics |= _mixed(name, some)
        data.metrics |= {
            "train/groups": float(len(data.groups)),
            "train/dead_groups": float(dead),
            "time/rollout": time.perf_counter() - started - spent_credit,
            "time/credit": spent_credit,
        }
        return data

    def warm_up(
        self, tasks: TaskSet, episodes: int, engine: Engine | None = None, size: int | None = None
    ) -> list[Group]:
        """Groups of ``size`` (None: as in training), ``episodes`` in all, for credit modules that learn."""
        size = size or self.settings.group_size
        drawn = draw_tasks(tasks, -(-episodes // size), self.seed, "tasks", "warm-up")
        return self._play(engine or self.engine, drawn, size, "warm-up")

    def _roll_out(self, step: int, attempt: int, count: int, by_source: dict[str, list[Group]]) -> list[Group]:
        groups: list[Group] = []
        first = next(iter(self.engines))
        for name, chosen in self.sampler.draw(count, "tasks", step, attempt).items():
            place = () if name == first else (name,)
            found = self._play(self.engines[name], chosen, self.settings.group_size, step, attempt, *place)
            by_source.setdefault(name, []).extend(found)
            groups += found
        return groups

    def _play(self, engine: Engine, drawn: list[list[Task]], size: int, *stream: int | str) -> list[Group]:
        groups: list[Group] = []
        for turn, chosen in enumerate(drawn):
            seed = derive_seed(self.seed, "rollout", *stream, turn)
            groups += engine.run_sync(chosen, n=size, seed=seed, on_episode=self.on_episode)
        return groups

    def _rows(self, group: Group, advantages: Sequence[Any], tokens: Sequence[Any] | None) -> list[TrainRow]:
        rows: list[TrainRow] = []
        for index, episode in enumerate(group):
            if episode.termination.is_failure:
                continue
            drawn = tokens[index] if tokens is not None else None
            arrays = row_advantages(episode, advantages[index], drawn, self.settings.advantage_clip)
            allowed = self.choices(episode) if self.choices is not None else [None] * len(arrays)
            for row, array, among in zip(episode.rows, arrays, allowed, strict=True):
                if row.mask.any():
                    rows.append(TrainRow(row, array, allowed=among, name=episode.where))
        return rows


def row_advantages(episode: Episode, advantages: Any, tokens: Sequence[Any] | None, clip: float) -> list[FloatArray]:
    """Clipped advantages on the tokens of each row: per turn, or per token where the estimator tells these apart.

    ``clip`` 0: never. Every trainer uses it.
    """
    bound = clip or np.inf
    if tokens is not None:
        return place(episode, [np.clip(turn, -bound, bound) for turn in tokens])
    return project(episode, np.clip(advantages, -bound, bound))


def episode_metrics(episodes: Sequence[Episode], prefix: str = "train") -> dict[str, float]:
    """Means over episodes. Success and outcome count every episode, failed ones too; the rest those that ran."""
    count = max(1, len(episodes))
    ran = [e for e in episodes if not e.termination.is_failure]
    turns = [t for e in ran for t in e.turns]
    ends = Counter(e.termination for e in episodes)
    out = {
        "success": sum(e.success for e in episodes) / count,
        "outcome": sum(e.outcome for e in episodes) / count,
        "episodes": float(len(episodes)),
        "errors": float(ends[Termination.ENV_ERROR] + ends[Termination.ABORTED]),
        "turns": len(turns) / max(1, len(ran)),
        "tokens": float(sum(len(row) for e in ran for row in e.rows)),
        "sampled_tokens": float(sum(e.sampled_tokens for e in ran)),
        "invalid_rate": sum(not t.valid for t in turns) / max(1, len(turns)),
        "refused_rate": sum(not t.grounded for t in turns) / max(1, len(turns)),
        "repeat_rate": sum(_repeats(e) for e in ran) / max(1, len(turns)),
    }
    for end in Termination:
        if ends[end]:
            out[f"end/{end.value}"] = ends[end] / count
    return {f"{prefix}/{key}": value for key, value in out.items()}


def _mixed(name: str, groups: Sequence[Group]) -> dict[str, float]:
    """Share and success of one environment of several."""
    episodes = [episode for group in groups for episode in group]
    won = sum(episode.success for episode in episodes) / max(1, len(episodes))
    return {f"mix/{name}/groups": float(len(groups)), f"mix/{name}/success": won}


def _repeats(episode: Episode) -> int:
    """Turns that repeat the action of the turn before."""
    return sum(a.action is not None and a.action == b.action for a, b in itertools.pairwise(episode.turns))
