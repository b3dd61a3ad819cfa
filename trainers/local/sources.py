"""The environments of a run: one, or several mixed by weight; their tasks, engines and the sampler over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentgym.augment import Augmenter
from agentgym.config.recipe import Recipe
from agentgym.curriculum import Band, TaskSampler, horizon
from agentgym.environment import Environment
from agentgym.registry import make
from agentgym.trainers.local import panels, setup
from agentgym.types import TaskSet


@dataclass(slots=True)
class Source:
    """One environment of a run. ``recipe``: the run's own, with this environment in its ``env`` section."""

    title: str
    recipe: Recipe
    env: Environment
    tasks: TaskSet
    weight: float


def sources_of(recipe: Recipe) -> list[Source]:
    """All environments of a recipe: ``env`` first, then those of ``mix``."""
    parts = [(recipe.env.name, recipe.env, recipe.env.weight)]
    parts += [(mixed.title, mixed.section(), mixed.weight) for mixed in recipe.mix]
    found = []
    for title, section, weight in parts:
        env = make(section.name, **section.options)
        found.append(Source(title, recipe.of_source(section), env, panels.task_set(env, section.train), weight))
    return found


def sampler_of(sources: list[Source], seed: int, band: Band | None = None) -> TaskSampler:
    """Draws tasks from all sources by weight."""
    return TaskSampler({source.title: (source.tasks, source.weight) for source in sources}, band, seed)


class Training:
    """What training rolls out on: an engine for each source, and which tasks come next for how many turns."""

    def __init__(self, recipe: Recipe, sources: list[Source], policy: Any, augmenter: Augmenter | None) -> None:
        band = recipe.curriculum.band
        self.sampler = sampler_of(sources, recipe.seed, Band(**band.model_dump()) if band is not None else None)
        self.stages = [(stage.step, stage.max_turns) for stage in recipe.curriculum.horizon]
        self.engines = {
            source.title: setup.make_engine(
                source.recipe, policy, recipe.train_sampling(), source.recipe.env.train.max_turns, augmenter, "train"
            )
            for source in sources
        }
        self._full = {
            source.title: self.engines[source.title].config.limits.max_turns or source.env.spec.max_turns
            for source in sources
        }

    def begin(self, step: int) -> dict[str, float]:
        """Set the turn limit of a step; returns it as a metric where it is staged."""
        turns = horizon(self.stages, step)
        if turns is None:
            return {}
        for title, engine in self.engines.items():
            engine.limit_turns(min(turns, self._full[title]))
        return {"curriculum/max_turns": float(turns)}

    def close(self) -> None:
        """End all environment workers."""
        for engine in self.engines.values():
            engine.close()
