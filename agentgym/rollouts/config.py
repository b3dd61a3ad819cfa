"""What a rollout needs to know: limits, deadlines, prompt layout, action format, sampling, concurrency."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from agentgym.augment import Augmenter, Mode
from agentgym.parsing import ActionFormat
from agentgym.policy import Sampling
from agentgym.prompts import PromptLayout


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one episode, and the deadlines of every wait.

    ``max_turns``           None: the environment's own default
    ``max_episode_tokens``  tokens of one conversation (prompt + responses); None: only the model window counts.
                            The limit of one response is ``Sampling.max_tokens``; the window is the policy's.
    ``reset_timeout``       seconds for starting the environment, and again for each reset
    ``step_timeout``        seconds for a step or an expert call
    ``policy_timeout``      seconds for one response (for one batch, where the policy takes batches)

    An environment stepped inline runs on the event loop itself and cannot be interrupted; deadlines of the
    environment hold for thread and process workers.
    """

    max_turns: int | None = None
    max_episode_tokens: int | None = None
    reset_timeout: float = 120.0
    step_timeout: float = 60.0
    policy_timeout: float = 600.0

    def __post_init__(self) -> None:
        for name in ("max_turns", "max_episode_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"Limits.{name} must be >= 1 or None, got {value}")
        for name in ("reset_timeout", "step_timeout", "policy_timeout"):
            if not getattr(self, name) > 0:
                raise ValueError(f"Limits.{name} must be > 0 seconds, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class RolloutConfig:
    """How episodes are run.

    ``concurrency``  most episodes in flight
    ``workers``      most environment workers. None: ``concurrency`` threads for blocking environments, and
                     ``min(concurrency, 4 * CPUs)`` processes for environments that are not thread-safe. A worker
                     plays one episode at a time; it starts when it is first needed. Inline environments ignore it.
    ``augmenter``    adds notes to prompts (:mod:`agentgym.augment`), in ``mode`` train or eval
    """

    layout: PromptLayout = field(default_factory=PromptLayout)
    format: ActionFormat = field(default_factory=ActionFormat)
    sampling: Sampling = field(default_factory=Sampling)
    limits: Limits = field(default_factory=Limits)
    concurrency: int = 64
    workers: int | None = None
    augmenter: Augmenter | None = None
    mode: Mode = "eval"

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ValueError(f"RolloutConfig.concurrency must be >= 1, got {self.concurrency}")
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"RolloutConfig.workers must be >= 1 or None, got {self.workers}")


@dataclass(slots=True)
class RolloutStats:
    """What an engine has done so far, all runs together.

    ``workers_replaced`` workers that died, were killed at a deadline or raised; ``threads_abandoned`` threads that
    did not come back from a deadline; ``loop_lag`` the longest time, in seconds, that the event loop was late.
    """

    episodes: int = 0
    turns: int = 0
    sampled_tokens: int = 0
    terminations: Counter[str] = field(default_factory=Counter)
    workers_started: int = 0
    workers_replaced: int = 0
    threads_abandoned: int = 0
    batches: int = 0
    batched_requests: int = 0
    loop_lag: float = 0.0
