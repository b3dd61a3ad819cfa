"""The recipe: everything that decides a training run, as one validated tree. Imports no torch.

Every field has a default that works; a recipe file states what it changes. Unknown keys are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from agentgym.config.cluster import ClusterSection
from agentgym.config.curriculum import BandSection, CurriculumSection, MixSection, StageSection
from agentgym.config.learning import (
    CheckpointSection,
    CriticSection,
    EstimatorSection,
    EvalSection,
    JudgeSection,
    RLSection,
    SFTSection,
    TrackSection,
)
from agentgym.config.section import MAX_INTEGER, Section
from agentgym.config.sections import (
    EnvSection,
    FormatSection,
    LimitsSection,
    LoraSection,
    ModelSection,
    PromptSection,
    TaskSource,
    TinyModelSection,
)
from agentgym.policy import Sampling

if TYPE_CHECKING:
    from agentgym.augment import Augmenter, Mode
    from agentgym.rollouts import RolloutConfig

__all__ = [
    "MAX_INTEGER",
    "BandSection",
    "CheckpointSection",
    "ClusterSection",
    "CriticSection",
    "CurriculumSection",
    "EnvSection",
    "EstimatorSection",
    "EvalSection",
    "FormatSection",
    "JudgeSection",
    "LimitsSection",
    "LoraSection",
    "MixSection",
    "ModelSection",
    "PromptSection",
    "RLSection",
    "Recipe",
    "SFTSection",
    "Section",
    "StageSection",
    "TaskSource",
    "TinyModelSection",
    "TrackSection",
]


class Recipe(Section):
    """A training run.

    ``cluster`` and ``verl`` are for ``engine: verl`` only: on what it runs, and values for verl's own configuration,
    which win over what the recipe is translated to. ``mix``: further environments of the same run.
    """

    name: str = "run"
    description: str = ""
    seed: int = Field(0, ge=0)
    engine: Literal["local", "verl"] = "local"
    output: str | None = None
    threads: int = Field(1, ge=1, le=1024)
    concurrency: int = Field(64, ge=1, le=100_000)
    env: EnvSection = EnvSection()
    mix: list[MixSection] = Field(default_factory=list)
    curriculum: CurriculumSection = CurriculumSection()
    prompt: PromptSection = PromptSection()
    format: FormatSection = FormatSection()
    limits: LimitsSection = LimitsSection()
    model: ModelSection = ModelSection()
    sft: SFTSection = SFTSection()
    rl: RLSection = RLSection()
    credit: list[str | dict[str, dict[str, Any]]] = Field(default_factory=list)
    estimator: EstimatorSection = EstimatorSection()
    critic: CriticSection = CriticSection()
    judge: JudgeSection = JudgeSection()
    eval: EvalSection = EvalSection()
    checkpoint: CheckpointSection = CheckpointSection()
    track: TrackSection = TrackSection()
    cluster: ClusterSection = ClusterSection()
    verl: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        if self.rl.micro_batch and self.rl.micro_batch > self.rl.minibatch:
            raise ValueError(f"rl.micro_batch {self.rl.micro_batch} exceeds rl.minibatch {self.rl.minibatch}")
        if self.model.tiny.hidden_size % self.model.tiny.heads:
            size, heads = self.model.tiny.hidden_size, self.model.tiny.heads
            raise ValueError(f"model.tiny.hidden_size {size} is not a multiple of model.tiny.heads {heads}")
        titles = [self.env.name, *(source.title for source in self.mix)]
        twice = {title for title in titles if titles.count(title) > 1}
        if twice:
            raise ValueError(f"mix: {', '.join(sorted(twice))} stands twice; give each a label of its own")
        return self

    def of_source(self, section: EnvSection) -> Recipe:
        """This recipe with another environment."""
        return self.model_copy(update={"env": section})

    def rollout_config(
        self,
        sampling: Sampling,
        max_turns: int | None = None,
        augmenter: Augmenter | None = None,
        mode: Mode = "eval",
    ) -> RolloutConfig:
        """How the rollout engine plays this recipe; ``max_turns`` in place of the recipe's, where given."""
        from agentgym.rollouts import Limits, RolloutConfig

        limits = self.limits.model_dump(exclude={"max_response_tokens"})
        return RolloutConfig(
            layout=self.prompt.build(),
            format=self.format.build(),
            sampling=sampling,
            limits=Limits(**limits | {"max_turns": max_turns or self.limits.max_turns}),
            concurrency=self.concurrency,
            augmenter=augmenter,
            mode=mode,
        )

    def train_sampling(self) -> Sampling:
        """How training rollouts sample: full distribution, so that log-probabilities are exact."""
        return Sampling(temperature=self.rl.temperature, max_tokens=self.limits.max_response_tokens)

    def eval_sampling(self) -> Sampling:
        """How evaluation samples."""
        return Sampling(temperature=self.eval.temperature, max_tokens=self.limits.max_response_tokens)
