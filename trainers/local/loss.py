"""The loss: token log-probabilities at the sampling temperature, and pure functions over them.

The clipped ratio of PPO (arXiv 1707.06347) with separate bounds
(DAPO, arXiv 2503.14476), and the k3 estimate of the KL divergence (Schulman, "Approximating KL divergence", 2020).
Logits exist only where a sampled token is predicted, and only a chunk of them at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from agentgym.trainers.local.batch import MicroBatch

#: logits held at once for the backward pass, in numbers; beyond it chunks are recomputed (1 GiB in float32)
CHUNK_NUMBERS = 1 << 28


@dataclass(slots=True)
class Scores:
    """Per sampled token: ``logprobs`` with gradient; ``entropy`` of the distribution it was drawn from; ``top``:
    was it the most likely token."""

    logprobs: torch.Tensor
    entropy: torch.Tensor
    top: torch.Tensor


def clipped_loss(
    logprobs: torch.Tensor, old: torch.Tensor, advantages: torch.Tensor, low: float, high: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """``-min(rho A, clip(rho, 1-low, 1+high) A)`` per token, with rho = exp(logp - old).

    Returns the loss, rho, and where the clip is active (the gradient is cut).
    """
    ratio = torch.exp(logprobs - old)
    bounded = ratio.clamp(1.0 - low, 1.0 + high)
    plain, clipped = ratio * advantages, bounded * advantages
    return -torch.minimum(plain, clipped), ratio, clipped < plain


def k3(logprobs: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """``exp(d) - d - 1`` with d = ref - logp: unbiased for KL(policy || reference), and never negative."""
    d = reference - logprobs
    return torch.exp(d) - d - 1.0


def mse_loss(
    logprobs: torch.Tensor, reference: torch.Tensor, advantages: torch.Tensor, turns: torch.Tensor, beta: float
) -> torch.Tensor:
    """``(beta * log(pi/pi_ref) - A)^2`` per turn, given on each of the turn's tokens (MiRA, WebRL's form).

    The log-ratio is that of the whole response: summed over the turn's tokens. ``turns``: which turn of the batch a
    token belongs to. At a given policy the gradient is -2 beta (A - beta log(pi/pi_ref)) grad log pi.
    """
    count = int(turns.max()) + 1 if len(turns) else 0
    ratio = torch.zeros(count, dtype=logprobs.dtype, device=logprobs.device).index_add(0, turns, logprobs - reference)
    return (beta * ratio[turns] - advantages) ** 2


def score_logits(
    logits: torch.Tensor, targets: torch.Tensor, temperature: float = 1.0, allowed: torch.Tensor | None = None
) -> Scores:
    """Scores of ``targets`` [N] under ``logits`` [N, V] divided by ``temperature``, in float32.

    ``allowed`` [N, A]: the ids that each token was drawn among; the distribution is over those alone.
    """
    z = logits.float()
    if allowed is not None:
        z = z.masked_fill(torch.ones_like(z, dtype=torch.bool).scatter_(1, allowed, False), float("-inf"))
    if temperature != 1.0:
        z = z / temperature
    logp = torch.log_softmax(z, dim=-1)
    chosen = logp.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    entropy = -(logp.exp() * logp.clamp_min(-1e4)).sum(-1)  # clamped: 0 * -inf is NaN
    return Scores(chosen, entropy, z.argmax(-1) == targets)


def plain_head(model: Any) -> tuple[Any, Any] | None:
    """The decoder and output layer where logits are simply ``head(decoder(ids))``; None where a model does more."""
    config = model.config
    for name in ("final_logit_softcapping", "logit_scale", "logits_scaling"):
        if getattr(config, name, None) not in (None, 1, 1.0):
            return None
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    head = inner.get_output_embeddings()
    decoder = getattr(inner, getattr(inner, "base_model_prefix", "") or "model", None)
    if decoder is None or decoder is inner or not isinstance(head, torch.nn.Module):
        return None
    return decoder, head


def hidden_and_head(model: Any, batch: MicroBatch) -> tuple[torch.Tensor, Any]:
    """What predicts each sampled token, [N, H], and the function from there to logits.

    Padding is on the right and attention causal, so no attention mask is needed: real positions never see padding.
    """
    plain = plain_head(model)
    if plain is None:
        logits = model(input_ids=batch.ids, use_cache=False).logits
        return logits.flatten(0, 1).index_select(0, batch.positions), lambda x: x
    decoder, head = plain
    hidden = decoder(input_ids=batch.ids, use_cache=False).last_hidden_state
    return hidden.flatten(0, 1).index_select(0, batch.positions), head


def score(model: Any, batch: MicroBatch, temperature: float = 1.0) -> Scores:
    """Scores of every sampled token of a micro-batch under ``model``.

    Large vocabularies are handled in chunks, recomputed in the backward pass.
    """
    hidden, head = hidden_and_head(model, batch)
    vocab = int(model.config.get_text_config().vocab_size)
    if len(batch) * vocab <= CHUNK_NUMBERS:
        return score_logits(head(hidden), batch.targets, temperature, batch.allowed)
    size = max(1, CHUNK_NUMBERS // (4 * vocab))

    def part(
        piece: torch.Tensor, targets: torch.Tensor, allowed: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        scores = score_logits(head(piece), targets, temperature, allowed)
        return scores.logprobs, scores.entropy, scores.top

    hiddens, targets = torch.split(hidden, size), torch.split(batch.targets, size)
    choices = [None] * len(targets) if batch.allowed is None else torch.split(batch.allowed, size)
    pieces = [checkpoint(part, *some, use_reentrant=False) for some in zip(hiddens, targets, choices, strict=True)]
    logprobs, entropy, top = (torch.cat(column) for column in zip(*pieces, strict=True))
    return Scores(logprobs, entropy, top)
