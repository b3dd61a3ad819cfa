"""The recipe: everything that decides a training run, as one validated tree. Imports no torch.

Every field has a default that works; a recipe file states what it changes. Unknown keys are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from agentgym.parsing import ActionFormat
from agentgym.policy import Sampling
from agentgym.prompts import PromptLayout

if TYPE_CHECKING:
    from agentgym.rollouts import RolloutConfig

#: no integer of a recipe but a seed may be larger; where so many would not fit into memory, the field says less
MAX_INTEGER = 2**31 - 1


class Section(BaseModel):
    """A part of a recipe: unknown keys are refused, values are frozen, numbers are finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _bounded(cls, value: Any, info: ValidationInfo) -> Any:
        limit = 2**63 - 1 if info.field_name == "seed" else MAX_INTEGER
        if isinstance(value, int) and value > limit:
            raise PydanticCustomError("too_large", "Input should be less than or equal to {limit}", {"limit": limit})
        return value


class TaskSource(Section):
    """Which tasks: a split of the environment, its options, and how many of them (None: all).

    ``name``      what results call it; empty: the split's name
    ``optional``  skipped with a note where its data is missing, instead of stopping the run
    ``max_turns`` turn limit on this panel; None: limits.max_turns. For panels whose own limit is the rule of the field
    """

    split: str = "train"
    options: dict[str, Any] = Field(default_factory=dict)
    limit: int | None = Field(None, ge=1)
    name: str = ""
    optional: bool = False
    max_turns: int | None = Field(None, ge=1)

    @property
    def label(self) -> str:
        """The name in results."""
        return self.name or self.split


class EnvSection(Section):
    """The environment: registry name, constructor options, and the task sources of training and evaluation.

    ``extra_tests``: further panels of the final evaluation, for example the official splits where they are present.
    """

    name: str = "alfworld"
    options: dict[str, Any] = Field(default_factory=dict)
    train: TaskSource = TaskSource(split="generated")
    eval: TaskSource = TaskSource(split="generated_valid", limit=64)
    test: TaskSource = TaskSource(split="generated_test", limit=200)
    extra_tests: list[TaskSource] = Field(default_factory=list)


class PromptSection(Section):
    """How turns become a prompt; see :class:`agentgym.prompts.PromptLayout`."""

    layout: Literal["chat", "window"] = "chat"
    system: str = ""
    history: int = Field(2, ge=0)
    show_admissible: bool = False
    show_task: bool = True
    max_observation: int = Field(20_000, ge=0)
    rewrite: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = Field(default_factory=list)

    @model_validator(mode="after")
    def _valid(self) -> PromptSection:
        self.build()
        return self

    def build(self) -> PromptLayout:
        """The layout object."""
        return PromptLayout(**self.model_dump() | {"rewrite": tuple((pattern, text) for pattern, text in self.rewrite)})


class FormatSection(Section):
    """How a response carries its action; see :class:`agentgym.parsing.ActionFormat`."""

    action_tag: str = "action"
    think_tag: str = "think"
    require_think: bool = False
    on_invalid: Literal["send", "stop", "feedback"] = "send"
    tail: int = Field(30, ge=0)
    max_action: int = Field(1000, ge=1)

    def build(self) -> ActionFormat:
        """The format object."""
        return ActionFormat(**self.model_dump())


class LimitsSection(Section):
    """Three separate limits, and the deadlines.

    ``max_turns``            None: the environment's own default
    ``max_response_tokens``  one response
    ``max_episode_tokens``   all tokens of one conversation (prompt + responses); None: no limit
    The model window is the model's own. ``step_timeout``/``reset_timeout``/``policy_timeout`` in seconds.
    """

    max_turns: int | None = Field(None, ge=1)
    max_response_tokens: int = Field(64, ge=1)
    max_episode_tokens: int | None = Field(None, ge=1)
    step_timeout: float = Field(60.0, gt=0)
    reset_timeout: float = Field(120.0, gt=0)
    policy_timeout: float = Field(600.0, gt=0)


class TinyModelSection(Section):
    """A small Llama-style model made from scratch, with a tokenizer trained on the environment's own text."""

    hidden_size: int = Field(64, ge=8, le=65_536)
    layers: int = Field(2, ge=1, le=1024)
    heads: int = Field(4, ge=1, le=1024)
    intermediate_size: int | None = Field(None, ge=1, le=1_000_000)
    vocab_size: int = Field(4096, ge=16, le=10_000_000)
    tokenizer: Literal["word", "bpe"] = "word"
    context: int = Field(4096, ge=64, le=10_000_000)
    tie_embeddings: bool = True


class LoraSection(Section):
    """Low-rank adapters through peft."""

    r: int = Field(16, ge=1, le=65_536)
    alpha: int = Field(32, ge=1)
    dropout: float = Field(0.0, ge=0, lt=1)
    target_modules: list[str] | Literal["all-linear"] = "all-linear"


class ModelSection(Section):
    """The policy model: a folder or hub name in ``path``, or ``tiny`` made from scratch when path is None.

    ``generator``: who samples. ``auto`` is ``torch``, the model itself; ``vllm`` needs CUDA, takes the share
    ``generator_memory`` of the GPU and, its numbers being its own, goes with ``rl.old_logprobs=trainer``.
    """

    path: str | None = None
    tiny: TinyModelSection = TinyModelSection()
    lora: LoraSection | None = None
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    device: str = "auto"
    generator: Literal["auto", "torch", "vllm"] = "auto"
    generator_memory: float = Field(0.4, gt=0, lt=1)
    gradient_checkpointing: bool = False


class SFTSection(Section):
    """Warm start from expert demonstrations. ``steps`` 0: none.

    ``noise``: share of demonstration turns replaced by a random admissible action (trains recovery; the noisy
    actions themselves are not imitated unless ``train_on_noise``); ``noise_exclude``: actions never drawn as noise.
    ``only_success``: drop failed demonstrations of the expert.
    ``rounds``: beyond the first, which is the expert's alone, each round adds ``episodes`` in which the model as it is
    by then plays ``student_share`` of the turns and the expert the rest, which are imitated; ``steps`` is shared out.
    ``min_valid``: a valid-action rate below this after the warm start is warned about before RL.
    """

    steps: int = Field(0, ge=0)
    episodes: int = Field(1000, ge=1, le=10_000_000)
    expert: str = "expert"
    noise: float = Field(0.0, ge=0, le=1)
    noise_exclude: list[str] = Field(default_factory=list)
    train_on_noise: bool = False
    only_success: bool = True
    rounds: int = Field(1, ge=1, le=10_000)
    student_share: float = Field(0.5, ge=0, lt=1)
    batch_size: int = Field(16, ge=1)
    lr: float = Field(4e-3, gt=0)
    warmup: int = Field(10, ge=0)
    schedule: Literal["constant", "cosine", "linear"] = "cosine"
    weight_decay: float = Field(0.0, ge=0)
    max_grad_norm: float = Field(1.0, gt=0)
    min_valid: float = Field(0.9, ge=0, le=1)


class RLSection(Section):
    """Policy-gradient training.

    A step samples ``groups`` tasks x ``group_size`` episodes, then updates ``epochs`` times in minibatches of
    ``minibatch`` rows. ``aggregation``: token-mean | seq-mean-token-mean | seq-mean-token-sum-norm.
    ``drop_dead_groups``: groups without contrast give no rows (counted); ``resample``: how many times more tasks are
    drawn to fill up a step. ``advantage_clip``: advantages are clamped to +-this; 0: never.
    ``micro_batch`` rows and ``micro_tokens`` padded tokens at most go through the model at once; neither changes the
    result. ``token_divisor``: the constant of seq-mean-token-sum-norm; None: limits.max_response_tokens times the
    turn limit (chat layout), or once (window layout). ``old_logprobs``: ``sampler`` takes the recorded ones, which
    are exact; ``trainer`` recomputes them and weighs by the truncated ratio to the sampler's, for generators whose
    numbers differ (vLLM). ``max_seconds``/``max_cpu_seconds``: no further step once rollouts and updates together have
    taken that long.
    """

    steps: int = Field(100, ge=0)
    groups: int = Field(8, ge=1, le=1_000_000)
    group_size: int = Field(8, ge=1, le=1_000_000)
    epochs: int = Field(1, ge=1)
    minibatch: int = Field(32, ge=1)
    micro_batch: int | None = Field(None, ge=1)
    micro_tokens: int = Field(65_536, ge=1)
    lr: float = Field(5e-4, gt=0)
    warmup: int = Field(0, ge=0)
    schedule: Literal["constant", "cosine", "linear"] = "constant"
    weight_decay: float = Field(0.0, ge=0)
    max_grad_norm: float = Field(1.0, gt=0)
    clip_low: float = Field(0.2, gt=0)
    clip_high: float = Field(0.2, gt=0)
    kl_coef: float = Field(0.0, ge=0)
    entropy_coef: float = 0.0
    aggregation: Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm"] = "token-mean"
    token_divisor: float | None = Field(None, gt=0)
    old_logprobs: Literal["sampler", "trainer"] = "sampler"
    advantage_clip: float = Field(3.0, ge=0)
    drop_dead_groups: bool = True
    resample: int = Field(0, ge=0)
    temperature: float = Field(1.0, gt=0)
    invalid_penalty: float = Field(0.0, ge=0)
    success_reward: float | None = None
    max_seconds: float | None = Field(None, gt=0)
    max_cpu_seconds: float | None = Field(None, gt=0)


class EstimatorSection(Section):
    """The advantage estimator by name, with its options (see ``agentgym.credit``)."""

    name: str = "grpo"
    options: dict[str, Any] = Field(default_factory=dict)


class EvalSection(Section):
    """Evaluation during and after training, on fixed panels."""

    every: int = Field(10, ge=0)
    temperature: float = Field(1.0, ge=0)
    attempts: int = Field(1, ge=1, le=1_000_000)
    final: bool = True


class CheckpointSection(Section):
    """Checkpoints every so many RL steps (``every``) and SFT steps (``sft_every``), 0: none but the last of the phase.

    The ``keep`` newest stay, and the one at the end of the warm start.
    """

    every: int = Field(10, ge=0)
    sft_every: int = Field(100, ge=0)
    keep: int = Field(2, ge=1)


class Recipe(Section):
    """A training run."""

    name: str = "run"
    description: str = ""
    seed: int = Field(0, ge=0)
    engine: Literal["local", "verl"] = "local"
    output: str | None = None
    threads: int = Field(1, ge=1, le=1024)
    concurrency: int = Field(64, ge=1, le=100_000)
    env: EnvSection = EnvSection()
    prompt: PromptSection = PromptSection()
    format: FormatSection = FormatSection()
    limits: LimitsSection = LimitsSection()
    model: ModelSection = ModelSection()
    sft: SFTSection = SFTSection()
    rl: RLSection = RLSection()
    credit: list[str | dict[str, dict[str, Any]]] = Field(default_factory=list)
    estimator: EstimatorSection = EstimatorSection()
    eval: EvalSection = EvalSection()
    checkpoint: CheckpointSection = CheckpointSection()

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        if self.rl.micro_batch and self.rl.micro_batch > self.rl.minibatch:
            raise ValueError(f"rl.micro_batch {self.rl.micro_batch} exceeds rl.minibatch {self.rl.minibatch}")
        if self.model.tiny.hidden_size % self.model.tiny.heads:
            size, heads = self.model.tiny.hidden_size, self.model.tiny.heads
            raise ValueError(f"model.tiny.hidden_size {size} is not a multiple of model.tiny.heads {heads}")
        return self

    def rollout_config(self, sampling: Sampling, max_turns: int | None = None) -> RolloutConfig:
        """How the rollout engine plays this recipe; ``max_turns`` in place of the recipe's, where given."""
        from agentgym.rollouts import Limits, RolloutConfig

        limits = self.limits.model_dump(exclude={"max_response_tokens"})
        return RolloutConfig(
            layout=self.prompt.build(),
            format=self.format.build(),
            sampling=sampling,
            limits=Limits(**limits | {"max_turns": max_turns or self.limits.max_turns}),
            concurrency=self.concurrency,
        )

    def train_sampling(self) -> Sampling:
        """How training rollouts sample: full distribution, so that log-probabilities are exact."""
        return Sampling(temperature=self.rl.temperature, max_tokens=self.limits.max_response_tokens)

    def eval_sampling(self) -> Sampling:
        """How evaluation samples."""
        return Sampling(temperature=self.eval.temperature, max_tokens=self.limits.max_response_tokens)
