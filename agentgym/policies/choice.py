"""Choosing among the admissible actions by the model's own log-probability of each.

For models that know what to do but not the format, and for action values of a language prior. The recorded
log-probabilities are the model's, but the choice is not a draw from the model: evaluation only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch

from agentgym.errors import ConfigError, ContextOverflow, PolicyFault
from agentgym.policies.causal import evaluating
from agentgym.policies.drawn import Draw
from agentgym.policies.hf import HFPolicy
from agentgym.policies.sampling import seed_array, uniforms
from agentgym.policies.scoring import Scores, score
from agentgym.policy import PolicyRequest, SampledTurn
from agentgym.tokens import IntArray


class ChoicePolicy(HFPolicy):
    """Scores every admissible action, rendered in the demanded format with the end token, and picks one.

    ``score_by`` ``total``: log-probability of the whole response; ``mean``: per token, which does not favour short
    actions. Sampling.temperature 0 picks the best, otherwise actions are drawn from softmax(score / temperature).
    ``info["probability"]`` is the chosen action's.
    """

    def __init__(
        self, model: Any, tokenizer: Any, *, score_by: Literal["total", "mean"] = "total", **options: Any
    ) -> None:
        if score_by not in ("total", "mean"):
            raise ConfigError(f"choice policy: score_by must be total or mean, got {score_by!r}")
        super().__init__(model, tokenizer, **options)
        self.score_by = score_by

    @property
    def exact_logprobs(self) -> bool:
        """Always False: an action is chosen among the listed ones, not drawn token by token."""
        return False

    def act_batch(self, requests: Sequence[PolicyRequest]) -> list[SampledTurn | Exception]:
        """Answer all requests; PolicyFault where no admissible actions are listed."""
        self._forget()
        prompts = self.renderer.prompts([(r.session, r.messages, r.tools) for r in requests])
        answers: list[SampledTurn | Exception | None] = []
        candidates: dict[int, list[list[int]]] = {}
        for index, (request, prompt) in enumerate(zip(requests, prompts, strict=True)):
            found = self._candidates(request, prompt)
            answers.append(found if isinstance(found, Exception) else None)
            if not isinstance(found, Exception):
                candidates[index] = found
        if candidates:
            with torch.inference_mode(), evaluating(self.model):
                scores = score(
                    self.generator.backend,
                    [requests[i].session for i in candidates],
                    [prompts[i] for i in candidates],
                    list(candidates.values()),
                )
            for (index, some), found_scores in zip(candidates.items(), scores, strict=True):
                answers[index] = self._choose(requests[index], prompts[index], some, found_scores)
        return [answer for answer in answers if answer is not None]

    def _candidates(self, request: PolicyRequest, prompt: IntArray) -> list[list[int]] | PolicyFault | ContextOverflow:
        if not request.admissible:
            return PolicyFault(f"session {request.session!r}: choice=True needs admissible actions, got none")
        texts = [request.format.render(action) for action in request.admissible]
        end = self._end_id()
        candidates = [[*ids, end] for ids in self.encode_responses(texts)]
        overflow = self.generator.check(prompt, max(map(len, candidates)), request.token_budget)
        return candidates if overflow is None else overflow

    def _choose(
        self, request: PolicyRequest, prompt: IntArray, candidates: list[list[int]], scores: Scores
    ) -> SampledTurn | PolicyFault:
        reduce = np.sum if self.score_by == "total" else np.mean
        values = np.array([reduce(some, dtype=np.float64) for some in scores])
        if not np.isfinite(values).all():
            return PolicyFault(f"session {request.session!r}: the model's logits are not finite")
        scaled = values / (request.sampling.temperature or 1.0)
        weights = np.exp(scaled - scaled.max())
        if request.sampling.temperature == 0:
            best = int(values.argmax())
        else:
            u = float(uniforms(seed_array([request.seed]), 0)[0])
            best = min(int(np.searchsorted(weights.cumsum(), u * weights.sum(), side="right")), len(values) - 1)
        drawn = Draw(np.array(candidates[best], np.int32), scores[best].astype(np.float32), "stop", True)
        turn = self._turn(request, prompt, drawn)
        turn.info["probability"] = float(weights[best] / weights.sum())
        return turn
