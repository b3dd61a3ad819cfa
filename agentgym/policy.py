"""The contract of a policy: it maps a conversation to one sampled turn.

Token in, token out: a policy that samples from a language model returns the ids it was fed, the ids it drew and
their log-probabilities; those are what is trained on. Policies without tokens (scripted, remote endpoints) return
text only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal, TypedDict

import numpy as np

from agentgym.parsing import ActionFormat
from agentgym.tokens import FloatArray, IntArray

FinishReason = Literal["stop", "length"]
NO_TOKENS: IntArray = np.empty(0, np.int32)
NO_LOGPROBS: FloatArray = np.empty(0, np.float32)


class Message(TypedDict):
    """One message of a conversation, as chat templates and endpoints take it."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. ``temperature`` 0 is greedy. Training needs top_p 1 and top_k 0 (off).

    ``max_tokens``: limit of one response; ``stop``: strings that end a response.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 64
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.temperature >= 0:
            raise ValueError(f"Sampling.temperature must be >= 0, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"Sampling.top_p must be in (0, 1], got {self.top_p}")
        if self.top_k < 0 or self.max_tokens < 1:
            raise ValueError(f"Sampling: top_k >= 0 and max_tokens >= 1, got {self.top_k} and {self.max_tokens}")

    @property
    def exact_logprobs(self) -> bool:
        """True where the sampled log-probabilities are those of the full distribution, as training needs."""
        return self.temperature > 0 and self.top_p == 1.0 and self.top_k == 0


@dataclass(slots=True)
class PolicyRequest:
    """One call: the next response of one episode.

    ``session``     unique and constant within an episode: key of caches kept between turns
    ``messages``    the conversation as the prompt layout rendered it
    ``seed``        all randomness of this response; independent of batching and concurrency
    ``admissible``  actions the environment lists, if it does
    ``expert``      the environment's expert action, only where the policy asks for it (``needs_expert``)
    ``token_budget`` tokens (prompt + response) this call may use at most; None: only the model window counts
    ``tools``       tools the model may call, in OpenAI's form; they go through the chat template or to the endpoint
    ``watch``       called with each drawn id and its log-probability, in the sampler's thread; False ends the response
    """

    session: str
    turn: int
    messages: list[Message]
    sampling: Sampling
    format: ActionFormat
    seed: int
    admissible: Sequence[str] | None = None
    expert: str | None = None
    token_budget: int | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    watch: Callable[[int, float], bool] | None = None


@dataclass(slots=True)
class SampledTurn:
    """One sampled response.

    ``prompt_ids`` are all ids the model was conditioned on, ``token_ids`` those it drew (an end token it drew
    included), ``logprobs`` their log-probabilities at the sampling temperature; all empty for text-only policies.
    ``text`` is what the parser reads: the decoded response without the end token.
    ``prompt_tokens``/``completion_tokens``/``cost`` account for remote calls.
    """

    text: str
    finish_reason: FinishReason = "stop"
    prompt_ids: IntArray = field(default_factory=lambda: NO_TOKENS)
    token_ids: IntArray = field(default_factory=lambda: NO_TOKENS)
    logprobs: FloatArray = field(default_factory=lambda: NO_LOGPROBS)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    info: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"SampledTurn.text must be str, got {type(self.text).__name__}")
        if not isinstance(self.info, dict):
            raise TypeError(f"SampledTurn.info must be a dict, got {type(self.info).__name__}")
        if not isfinite(self.cost):
            raise ValueError(f"SampledTurn.cost must be finite, got {self.cost!r}")
        for name in ("prompt_ids", "token_ids"):
            ids = getattr(self, name)
            if ids is not NO_TOKENS:
                setattr(self, name, _token_ids(name, ids))
        if self.logprobs is not NO_LOGPROBS:
            self.logprobs = np.asarray(self.logprobs, np.float32)
        if self.logprobs.ndim != 1 or len(self.token_ids) != len(self.logprobs):
            raise ValueError(
                f"{len(self.token_ids)} sampled ids but log-probabilities of shape {self.logprobs.shape}; one each"
            )
        if self.finish_reason not in ("stop", "length"):
            raise ValueError(f"finish_reason must be stop or length, got {self.finish_reason!r}")


def _token_ids(name: str, ids: Any) -> IntArray:
    """``ids`` as an int32 row; a value that would change on the way is refused."""
    found = np.asarray(ids)
    if found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
        raise TypeError(f"SampledTurn.{name} must be a row of integers, got shape {found.shape} of {found.dtype}")
    if len(found) and not (found.min() >= 0 and found.max() < 1 << 31):
        raise ValueError(f"SampledTurn.{name}: ids go from {found.min()} to {found.max()}, expected 0 to 2**31 - 1")
    return found.astype(np.int32, copy=False)


class Policy(ABC):
    """Something that answers :class:`PolicyRequest`. The rollout engine awaits :meth:`act` once a turn."""

    #: shown in records and tables
    name: str = "policy"
    #: the engine asks the environment's expert first and puts its action into the request
    needs_expert: bool = False

    @abstractmethod
    async def act(self, request: PolicyRequest) -> SampledTurn:
        """Sample one response. Raises PolicyFault when it cannot, ContextOverflow when the prompt does not fit."""

    def release(self, session: str) -> None:  # noqa: B027 - most policies keep nothing
        """The episode is over: free what was kept for it. Called exactly once a session."""

    async def aclose(self) -> None:  # noqa: B027
        """Free clients and devices."""


class BatchPolicy(Policy):
    """A policy that answers many requests in one call; the rollout engine gathers them.

    ``max_batch``: most requests a call takes.
    """

    max_batch: int = 64

    @abstractmethod
    def act_batch(self, requests: Sequence[PolicyRequest]) -> list[SampledTurn | Exception]:
        """Answer all requests, in order. A request that fails alone gives an exception in its place."""

    async def act(self, request: PolicyRequest) -> SampledTurn:
        """One request alone; the engine calls :meth:`act_batch` instead."""
        (answer,) = self.act_batch([request])
        if isinstance(answer, Exception):
            raise answer
        return answer
