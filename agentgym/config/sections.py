"""The sections of a recipe that say what runs: environment, prompt, limits, model."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from agentgym.config.section import Section
from agentgym.parsing import ActionFormat, ToolNotation
from agentgym.prompts import PromptLayout


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
    ``warmup``: tasks on which credit modules that learn are fitted before the first update; None: ``train``.
    ``weight``: the share of this environment's tasks in a step where section ``mix`` names others.
    """

    name: str = "alfworld"
    options: dict[str, Any] = Field(default_factory=dict)
    train: TaskSource = TaskSource(split="generated")
    eval: TaskSource = TaskSource(split="generated_valid", limit=64)
    test: TaskSource = TaskSource(split="generated_test", limit=200)
    extra_tests: list[TaskSource] = Field(default_factory=list)
    warmup: TaskSource | None = None
    weight: float = Field(1.0, gt=0)


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
    tools: ToolNotation = "auto"

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
    """A small Llama-style model made from scratch, with a tokenizer trained on the environment's own text.

    ``init_std``: standard deviation of the first weights. The default is that of transformers, meant for wide models;
    one over the root of ``hidden_size`` makes a narrow one learn much sooner.
    """

    hidden_size: int = Field(64, ge=8, le=65_536)
    layers: int = Field(2, ge=1, le=1024)
    heads: int = Field(4, ge=1, le=1024)
    intermediate_size: int | None = Field(None, ge=1, le=1_000_000)
    vocab_size: int = Field(4096, ge=16, le=10_000_000)
    tokenizer: Literal["word", "bpe"] = "word"
    context: int = Field(4096, ge=64, le=10_000_000)
    tie_embeddings: bool = True
    init_std: float = Field(0.02, gt=0, le=10)


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
    ``constrain``: draw responses among the admissible actions only, in RL and in evaluation; RL then trains the
    distribution over these. For environments that list them, with ``generator`` torch.
    """

    path: str | None = None
    tiny: TinyModelSection = TinyModelSection()
    lora: LoraSection | None = None
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    device: str = "auto"
    generator: Literal["auto", "torch", "vllm"] = "auto"
    generator_memory: float = Field(0.4, gt=0, lt=1)
    gradient_checkpointing: bool = False
    constrain: bool = False
