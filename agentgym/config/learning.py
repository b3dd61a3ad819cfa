"""The sections of a recipe that say how a policy learns and is measured."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from agentgym.config.section import Section


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
    ``loss``: ``clip`` is PPO's; ``mse`` regresses ``mse_beta * log(pi/pi_ref)`` of each turn's response onto its
    advantage (MiRA, arXiv 2603.19685), pi_ref being the reference policy. The reference of ``mse`` and of the KL term
    is the policy at the start of RL, taken anew every ``reference_every`` steps (0: never).
    ``warmup_from``: whose episodes credit modules that learn are fitted on before the first update: ``policy``, the
    starting one; ``demonstrations``, the noisy expert's of section ``sft`` (``expert``, ``noise``), failed ones too;
    what values the policy itself (estimator ``mira``) then learns from the first steps only.
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
    loss: Literal["clip", "mse"] = "clip"
    mse_beta: float = Field(1.0, gt=0)
    reference_every: int = Field(0, ge=0)
    warmup_from: Literal["policy", "demonstrations"] = "policy"
    invalid_penalty: float = Field(0.0, ge=0)
    success_reward: float | None = None
    max_seconds: float | None = Field(None, gt=0)
    max_cpu_seconds: float | None = Field(None, gt=0)


class EstimatorSection(Section):
    """The advantage estimator by name, with its options (see ``agentgym.credit``)."""

    name: str = "grpo"
    options: dict[str, Any] = Field(default_factory=dict)


class CriticSection(Section):
    """The value model of estimators that need one (``gae``, ``mira`` with ``critic: trainer``).

    ``trunk``: ``copy`` is a model of its own, begun as a copy of the policy; ``policy`` reads the policy's own hidden
    states, unchanged; ``auto``: ``policy`` under LoRA, else ``copy``. ``warmup``: so many first RL steps train the
    critic only. ``epochs`` passes over the step's episodes in minibatches of ``minibatch`` rows.
    """

    trunk: Literal["auto", "copy", "policy"] = "auto"
    lr: float = Field(1e-3, gt=0)
    weight_decay: float = Field(0.0, ge=0)
    max_grad_norm: float = Field(1.0, gt=0)
    epochs: int = Field(1, ge=1)
    minibatch: int = Field(32, ge=1)
    warmup: int = Field(0, ge=0)


class JudgeSection(Section):
    """A model behind an OpenAI-compatible endpoint that credit modules ask (``milestones``, ``retro``, ...).

    ``url`` None: there is none. ``key``: name of the environment variable with the API key. ``cache``: file of
    answers, inside the run folder unless absolute; empty: none. ``timeout`` seconds for one request, ``deadline`` for
    an answer, retries included. ``max_calls``: requests of one process at most; None: no limit.
    """

    url: str | None = None
    model: str = ""
    key: str = "OPENAI_API_KEY"
    timeout: float = Field(60.0, gt=0)
    deadline: float = Field(180.0, gt=0)
    max_calls: int | None = Field(None, ge=0)
    concurrency: int = Field(16, ge=1, le=1000)
    cache: str = "judge.sqlite"

    @model_validator(mode="after")
    def _named(self) -> JudgeSection:
        if self.url is not None and not self.model:
            raise ValueError("judge.url is given, but judge.model is not: name the model to ask")
        return self


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


class TrackSection(Section):
    """Where metrics go besides ``metrics.jsonl``: any of ``tensorboard``, ``wandb``, ``mlflow``.

    ``project``: W&B project, MLflow experiment. ``offline``: W&B writes to the run folder only, for ``wandb sync``.
    ``mlflow_uri``: tracking server or database; None: MLFLOW_TRACKING_URI, else ``RUN/mlflow.db``.
    """

    to: list[Literal["tensorboard", "wandb", "mlflow"]] = Field(["tensorboard"])
    project: str = "agentgym"
    offline: bool = False
    mlflow_uri: str | None = None
