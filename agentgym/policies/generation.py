"""Sampling responses in ragged batches from a causal language model.

Each job is drawn from its own seed, so neither the batch it is in nor its place there changes what is drawn.
Keys and values stay between turns where the model allows it (:mod:`agentgym.policies.backends`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from agentgym.errors import AgentGymError, ContextOverflow, PolicyFault
from agentgym.policies.backends import make_backend
from agentgym.policies.causal import CausalModel, evaluating
from agentgym.policies.drawn import Draw
from agentgym.policies.sampling import RowSampling, draw
from agentgym.policies.trie import Trie
from agentgym.policy import FinishReason, Sampling
from agentgym.tokens import IntArray


@dataclass(slots=True)
class Job:
    """One response to draw: ``prompt`` ids [P], and a trie of allowed continuations where the choice is narrowed.

    ``limit``: most tokens, prompt and response together; None: the model window alone counts. ``watch``: told of every
    drawn id and its log-probability; it must not raise, and False ends the response.
    """

    session: str
    prompt: IntArray
    sampling: Sampling
    seed: int
    limit: int | None = None
    trie: Trie | None = None
    watch: Callable[[int, float], bool] | None = None


@dataclass(slots=True)
class _Run:
    """A job under way."""

    job: Job
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: FinishReason | None = None
    ended: bool = False
    problem: AgentGymError | None = None
    node: Trie | None = None

    def result(self) -> Draw | AgentGymError:
        if self.problem is not None:
            return self.problem
        ids, logprobs = np.array(self.ids, np.int32), np.array(self.logprobs, np.float32)
        return Draw(ids, logprobs, self.finish or "length", self.ended)


class TorchGenerator:
    """Draws responses with plain torch on any device.

    ``model``        a transformers causal LM, with or without peft adapters
    ``stop_ids``     ids that end a response (drawn ones belong to it)
    ``decode``       ids to text, for stop strings
    ``window``       most tokens of prompt and response; None: the model's own
    ``cache_bytes``  memory for keys and values kept between turns (None: 2 GiB, on CUDA 30 % of what is free now);
                     least recently used sessions go first
    ``reuse``        None: keep keys and values where this is exact; False: encode whole prompts every turn
    """

    def __init__(
        self,
        model: Any,
        stop_ids: Sequence[int],
        decode: Callable[[Sequence[int]], str],
        window: int | None = None,
        cache_bytes: int | None = None,
        reuse: bool | None = None,
    ) -> None:
        self.model = model
        self.stop_ids = frozenset(stop_ids)
        self.backend = make_backend(model, cache_bytes or _cache_bytes(), reuse)
        self.window = window or CausalModel(model).window
        self._decode = decode
        self._device = self.backend.model.device

    def release(self, session: str) -> None:
        """Free what is kept for a session."""
        self.backend.release(session)

    def clear(self) -> None:
        """Drop every kept key and value: the weights changed."""
        self.backend.clear()

    def check(self, prompt: IntArray, new_tokens: int, limit: int | None) -> ContextOverflow | None:
        """The overflow that ``prompt`` plus ``new_tokens`` would be, or None."""
        bounds = {"the model window": self.window, "the token budget": limit}
        for what, bound in bounds.items():
            if bound is not None and len(prompt) + new_tokens > bound:
                return ContextOverflow(
                    f"prompt of {len(prompt)} tokens plus {new_tokens} requested exceeds {what} of {bound} tokens"
                )
        return None

    def generate(self, jobs: Sequence[Job]) -> list[Draw | AgentGymError]:
        """Draw all jobs' responses, in order; a job that fails alone gives its error in its place.

        Sessions must differ within one call. Errors: ContextOverflow, and PolicyFault for logits that are not finite.
        """
        if len({job.session for job in jobs}) != len(jobs):
            raise ValueError("one call holds two requests of the same session; a session has one turn at a time")
        runs = [_Run(job, node=job.trie) for job in jobs]
        for run in runs:
            run.problem = self.check(run.job.prompt, run.job.sampling.max_tokens, run.job.limit)
        with torch.inference_mode(), evaluating(self.model):
            ready = [run for run in runs if run.problem is None]
            while ready:
                longest = max(len(run.job.prompt) + run.job.sampling.max_tokens for run in ready)
                count = min(len(ready), self.backend.most_rows(longest))
                self._run(ready[:count])
                ready = ready[count:]
        return [run.result() for run in runs]

    def _run(self, runs: Sequence[_Run]) -> None:
        """Draw one batch to its end."""
        jobs = [run.job for run in runs]
        extra = max(job.sampling.max_tokens for job in jobs)
        logits, order = self.backend.start([job.session for job in jobs], [job.prompt for job in jobs], extra)
        rows = RowSampling.of([job.seed for job in jobs], [job.sampling for job in jobs], self._device).take(order)
        live = [runs[i] for i in order]
        position = 0
        while True:
            tokens, logprobs = draw(logits, rows, position, self._allowed(live, logits.shape[-1]))
            position += 1
            for run, token, logprob in zip(live, tokens.tolist(), logprobs.tolist(), strict=True):
                if run.finish is None:
                    self._take(run, token, logprob)
            active = np.array([run.finish is None for run in live])
            if not active.any():
                return
            logits, keep = self.backend.step(np.asarray(tokens, np.int64), active)
            if len(keep) != len(live) or (keep[1:] < keep[:-1]).any():
                live, rows = [live[i] for i in keep], rows.take(keep)

    def _take(self, run: _Run, token: int, logprob: float) -> None:
        """Add one drawn token to a run and see whether the response is complete."""
        if not math.isfinite(logprob):
            run.finish = "stop"
            run.problem = PolicyFault(
                f"session {run.job.session!r}: the model's logits are not finite at response token {len(run.ids)}. "
                "Weights that diverged in training are the usual cause: lower the learning rate."
            )
            return
        run.ids.append(token)
        run.logprobs.append(logprob)
        if run.node is not None:
            run.node = run.node.children.get(token)
        sampling = run.job.sampling
        if token in self.stop_ids:
            run.finish, run.ended = "stop", True
        elif (sampling.stop and self._stopped(run.ids, sampling.stop)) or (run.node is not None and run.node.complete):
            run.finish = "stop"
        elif len(run.ids) >= sampling.max_tokens:
            run.finish = "length"
        if run.job.watch is not None and not run.job.watch(token, logprob) and run.finish is None:
            run.finish = "length"

    def _stopped(self, ids: list[int], stop: tuple[str, ...]) -> bool:
        """Whether the newest token completed one of the stop strings."""
        tail = ids[-(max(map(len, stop)) + 8) :]  # a token may be part of a character; eight more settle that
        text = self._decode(tail)
        return any(mark in text for mark in stop)

    def _allowed(self, live: Sequence[_Run], vocabulary: int) -> torch.Tensor | None:
        """Mask [B, V] of the ids that tries allow next, or None where no run has one."""
        if all(run.node is None for run in live):
            return None
        mask = np.ones((len(live), vocabulary), np.bool_)
        for row, run in zip(mask, live, strict=True):
            if run.node is not None and run.finish is None:
                row[:] = False
                row[list(run.node.children)] = True
        return torch.from_numpy(mask).to(self._device)


def _cache_bytes() -> int:
    """Default memory for kept keys and values."""
    if torch.cuda.is_available():
        return int(0.3 * torch.cuda.mem_get_info()[0])
    return 2 << 30
