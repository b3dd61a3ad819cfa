"""The sections of a recipe that say which tasks a step draws: mixed environments, difficulty bands, horizons."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from agentgym.config.section import Section
from agentgym.config.sections import EnvSection, TaskSource


class MixSection(Section):
    """One more environment of a run.

    ``weight``: its share of a step's tasks beside ``env.weight``. ``test``: tasks of the final evaluation (None: not
    measured). ``label``: what metrics and results call it; empty: ``name``. ``train.max_turns`` and
    ``test.max_turns``: its own turn limits.
    """

    name: str
    options: dict[str, Any] = Field(default_factory=dict)
    train: TaskSource = TaskSource()
    test: TaskSource | None = None
    weight: float = Field(1.0, gt=0)
    label: str = ""

    @property
    def title(self) -> str:
        """The label, or the environment's name."""
        return self.label or self.name

    def section(self) -> EnvSection:
        """The same as the ``env`` section of a recipe of its own."""
        test = self.test or self.train
        return EnvSection(name=self.name, options=self.options, train=self.train, eval=test, test=test)


class StageSection(Section):
    """From RL step ``step`` on, episodes of training have at most ``max_turns`` turns."""

    step: int = Field(ge=0)
    max_turns: int = Field(ge=1)


class BandSection(Section):
    """Prefer tasks of medium difficulty; see :class:`agentgym.curriculum.Band`."""

    low: float = Field(0.1, ge=0, le=1)
    high: float = Field(0.9, ge=0, le=1)
    outside: float = Field(0.1, gt=0, le=1)
    memory: int = Field(16, ge=1, le=100_000)
    by: Literal["task", "kind"] = "task"

    @model_validator(mode="after")
    def _ordered(self) -> BandSection:
        if self.low > self.high:
            raise ValueError(f"low {self.low} exceeds high {self.high}")
        return self


class CurriculumSection(Section):
    """How the tasks of training change. ``horizon``: stages of the turn limit in order of steps (ScalingInter-RL);
    evaluation keeps the full limit. ``band``: draw tasks by their success rate so far; None: all alike."""

    horizon: list[StageSection] = Field(default_factory=list)
    band: BandSection | None = None

    @model_validator(mode="after")
    def _ordered(self) -> CurriculumSection:
        steps = [stage.step for stage in self.horizon]
        if steps != sorted(set(steps)):
            raise ValueError(f"the stages of horizon must begin at rising steps, got {steps}")
        return self
