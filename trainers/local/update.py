"""One optimiser step over a minibatch, and the policy-gradient update of a training step built from it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from agentgym.config.recipe import RLSection
from agentgym.seeding import derive_seed
from agentgym.trainers.local.batch import MicroBatch, TrainRow, micro_batches, minibatches, scatter
from agentgym.trainers.local.loss import Scores, clipped_loss, k3, mse_loss, score
from agentgym.trainers.local.optim import Optimizer, TrainingStopped, learning_rate

if TYPE_CHECKING:
    from agentgym.trainers.local.reference import Reference

Stats = dict[str, torch.Tensor]
TokenLoss = Callable[[Scores, MicroBatch], tuple[torch.Tensor, Stats]]

#: truncated importance weight between the sampler's and the trainer's log-probabilities
TRUNCATION = 2.0

#: statistic of a minibatch -> metric that it is logged as; others keep their names
LOGGED_AS = {
    "loss": "loss/total",
    "policy": "loss/policy",
    "kl": "loss/kl",
    "entropy": "loss/entropy",
    "clip_frac": "ratio/clip_frac",
    "ratio": "ratio/mean",
    "kl_old": "ratio/kl_old",
    "tokens": "train/minibatch_tokens",
}


def autocast(model: nn.Module) -> contextlib.AbstractContextManager[Any]:
    """bfloat16 autocast on a GPU, nothing on a CPU."""
    device = next(model.parameters()).device
    if device.type == "cuda":
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return contextlib.nullcontext()


@contextlib.contextmanager
def training_mode(model: nn.Module, *seed: int | str) -> Iterator[None]:
    """Training mode under a seed of its own (dropout), without touching the process's generators."""
    device = next(model.parameters()).device
    model.train()
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(derive_seed(*seed))
            yield
    finally:
        model.eval()


def optimize(
    model: nn.Module,
    optimizer: Optimizer,
    batches: Sequence[MicroBatch],
    token_loss: TokenLoss,
    *,
    temperature: float,
    lr: float,
    where: str,
) -> dict[str, float]:
    """Accumulate the gradients of all micro-batches and step once; returns token means of the statistics.

    Raises TrainingStopped, with the weights as they were, where loss or gradient is not finite.
    """
    optimizer.zero()
    total, tokens = 0.0, 0
    sums: dict[str, float] = {}
    for batch in batches:
        with autocast(model):
            scores = score(model, batch, temperature)
        losses, stats = token_loss(scores, batch)
        loss = (losses * batch.shares).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        names = list(stats)
        values = torch.stack([loss.detach(), *(stats[name].detach().float().sum() for name in names)]).tolist()
        total += values[0]
        tokens += len(batch)
        for name, value in zip(names, values[1:], strict=True):
            sums[name] = sums.get(name, 0.0) + value
    if not np.isfinite(total):
        optimizer.zero()
        raise TrainingStopped(f"the loss is {total} at {where}; this update was not applied.")
    norm = optimizer.step(lr, where)
    return {"loss": total, "grad_norm": norm, "tokens": tokens, **{k: v / max(1, tokens) for k, v in sums.items()}}


def policy_loss(settings: RLSection) -> TokenLoss:
    """Policy loss (clipped, or MSE to the advantage) + KL to the reference - entropy bonus, per token.

    Comes with what is logged about it.
    """

    def token_loss(scores: Scores, batch: MicroBatch) -> tuple[torch.Tensor, Stats]:
        policy, ratio, clipped = clipped_loss(
            scores.logprobs, batch.old, batch.advantages, settings.clip_low, settings.clip_high
        )
        stats = {
            "policy": policy,
            "entropy": scores.entropy,
            "clip_frac": clipped,
            "ratio": ratio,
            "kl_old": k3(batch.old, scores.logprobs),
        }
        losses = policy
        if settings.loss == "mse" and batch.reference is not None:
            losses = mse_loss(scores.logprobs, batch.reference, batch.advantages, batch.turns, settings.mse_beta)
            stats["policy"] = losses
        if settings.kl_coef and batch.reference is not None:
            kl = k3(scores.logprobs, batch.reference)
            losses = losses + settings.kl_coef * kl
            stats["kl"] = kl
        if settings.entropy_coef:
            losses = losses - settings.entropy_coef * scores.entropy
        return losses, stats

    return token_loss


@torch.no_grad()
def row_logprobs(
    model: nn.Module, rows: Sequence[TrainRow], temperature: float, max_rows: int | None, max_tokens: int
) -> list[np.ndarray[Any, np.dtype[np.float32]]]:
    """The model's log-probability of every sampled token, one array per row (0 where not sampled)."""
    device = next(model.parameters()).device
    out: list[Any] = [np.zeros(len(row.row), np.float32) for row in rows]
    for batch in micro_batches(rows, max_rows=max_rows, max_tokens=max_tokens, device=device):
        with autocast(model):
            values = score(model, batch, temperature).logprobs
        for index, array in zip(batch.rows, scatter(rows, batch, values), strict=True):
            out[index] = array
    return out


def usable(rows: Sequence[TrainRow], settings: RLSection) -> list[TrainRow]:
    """Rows that have a gradient. Without KL and entropy term a row whose advantages are all 0 has none."""
    always = bool(settings.kl_coef or settings.entropy_coef or settings.loss == "mse")
    return [row for row in rows if row.weight and row.trained and (always or bool(row.advantages[row.row.mask].any()))]


class PolicyUpdate:
    """The update of one training step: ``epochs`` passes in seeded minibatches over the step's rows."""

    def __init__(self, model: nn.Module, optimizer: Optimizer, settings: RLSection, seed: int, divisor: float) -> None:
        self.model, self.optimizer, self.settings = model, optimizer, settings
        self.seed, self.divisor = seed, divisor

    def run(self, rows: Sequence[TrainRow], step: int, reference: Reference | None = None) -> dict[str, float]:
        """Update the model; returns metrics averaged over minibatches, and the sampler gap of the whole step."""
        settings = self.settings
        rows = usable(rows, settings)
        metrics: dict[str, float] = {"train/rows": float(len(rows))}
        if not rows:
            return metrics
        if reference is not None:
            reference.fill(rows, settings)
        if settings.old_logprobs == "trainer":
            metrics |= self._recompute(rows)
        parts: list[dict[str, float]] = []
        with training_mode(self.model, self.seed, "update", step):
            for epoch in range(settings.epochs):
                for chosen in minibatches(len(rows), settings.minibatch, self.seed, "minibatches", step, epoch):
                    parts.append(self._minibatch([rows[i] for i in chosen], step, len(parts) == 0, metrics))
        for key in parts[0]:
            metrics[LOGGED_AS.get(key, key)] = float(np.mean([part[key] for part in parts]))
        metrics["train/updates"] = float(len(parts))
        return metrics

    def _minibatch(self, rows: list[TrainRow], step: int, first: bool, metrics: dict[str, float]) -> dict[str, float]:
        settings = self.settings
        device = self.optimizer.parameters[0].device
        batches = micro_batches(
            rows, settings.aggregation, self.divisor, settings.micro_batch, settings.micro_tokens, device
        )
        rate = learning_rate(step, settings.steps, settings.lr, settings.warmup, settings.schedule)
        token_loss = policy_loss(settings)
        gaps: list[float] = []

        def watched(scores: Scores, batch: MicroBatch) -> tuple[torch.Tensor, Stats]:
            if first:
                gaps.append(float((scores.logprobs.detach() - batch.old).abs().max()))
            return token_loss(scores, batch)

        part = optimize(
            self.model,
            self.optimizer,
            batches,
            watched,
            temperature=settings.temperature,
            lr=rate,
            where=f"RL step {step}",
        )
        if first and settings.old_logprobs == "sampler":
            metrics["gap/logprob_max"] = max(gaps)
        return part | {"lr": rate}

    def _recompute(self, rows: list[TrainRow]) -> dict[str, float]:
        """Old log-probabilities from the trainer; the sampler's enter as a truncated importance weight."""
        settings = self.settings
        values = row_logprobs(self.model, rows, settings.temperature, settings.micro_batch, settings.micro_tokens)
        worst = 0.0
        for row, old in zip(rows, values, strict=True):
            gap = (old - row.row.logprobs) * row.row.mask
            worst = max(worst, float(np.abs(gap).max(initial=0.0)))
            row.old = old
            row.advantages = (row.advantages * np.minimum(np.exp(gap), TRUNCATION)).astype(np.float32)
        return {"gap/logprob_max": worst}
