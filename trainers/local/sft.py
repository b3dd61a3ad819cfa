"""Supervised warm start on demonstrations: many small, length-bucketed batches in a seeded order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from agentgym.config.recipe import SFTSection
from agentgym.seeding import derive_seed, numpy_rng
from agentgym.trainers.local.batch import MicroBatch, TrainRow, micro_batches
from agentgym.trainers.local.loss import Scores
from agentgym.trainers.local.optim import Optimizer, learning_rate
from agentgym.trainers.local.update import Stats, optimize, training_mode

#: batches are cut from length-sorted stretches of this many batches, so that rows of a batch are of similar length
STRETCH = 8


class BatchOrder:
    """Which rows step ``s`` trains on, as a function of the seed and ``s`` alone, so that a run can begin anywhere.

    Every epoch is a new permutation; within stretches rows are sorted by length and the batches shuffled.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self.lengths = np.asarray(lengths)
        self.size, self.seed = min(batch_size, len(lengths)), seed
        self.per_epoch = len(lengths) // self.size
        self._epoch = -1
        self._batches: list[npt.NDArray[np.int64]] = []

    def batch(self, step: int) -> npt.NDArray[np.int64]:
        """Row indices of a step."""
        epoch, place = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._cut(epoch)
        return self._batches[place]

    def _cut(self, epoch: int) -> list[npt.NDArray[np.int64]]:
        rng = numpy_rng(self.seed, "sft", "order", epoch)
        order = rng.permutation(len(self.lengths))[: self.per_epoch * self.size]
        batches: list[npt.NDArray[np.int64]] = []
        for begin in range(0, len(order), STRETCH * self.size):
            stretch = order[begin : begin + STRETCH * self.size]
            stretch = stretch[np.argsort(self.lengths[stretch], kind="stable")]
            batches.extend(stretch[i : i + self.size] for i in range(0, len(stretch), self.size))
        return [batches[i] for i in rng.permutation(len(batches))]


def imitation_loss(scores: Scores, batch: MicroBatch) -> tuple[torch.Tensor, Stats]:
    """Negative log-likelihood of the demonstrated tokens; accuracy of the most likely token."""
    return -scores.logprobs, {"accuracy": scores.top, "entropy": scores.entropy}


class WarmStart:
    """One round of the SFT phase, from step ``begin`` on: :meth:`step` runs one update."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        rows: Sequence[TrainRow],
        settings: SFTSection,
        seed: int,
        micro_tokens: int = 65_536,
        begin: int = 0,
    ) -> None:
        self.model, self.optimizer, self.rows, self.settings = model, optimizer, rows, settings
        self.seed, self.micro_tokens, self.begin = seed, micro_tokens, begin
        self.order = BatchOrder([len(row.row) for row in rows], settings.batch_size, derive_seed(seed, begin))

    def step(self, step: int) -> dict[str, float]:
        """Update ``step``; returns its metrics."""
        settings = self.settings
        chosen = [self.rows[i] for i in self.order.batch(step - self.begin)]
        device = self.optimizer.parameters[0].device
        rate = learning_rate(step, settings.steps, settings.lr, settings.warmup, settings.schedule)
        with training_mode(self.model, self.seed, "sft", step):
            result = optimize(
                self.model,
                self.optimizer,
                micro_batches(chosen, max_tokens=self.micro_tokens, device=device),
                imitation_loss,
                temperature=1.0,
                lr=rate,
                where=f"SFT step {step}",
            )
        return {
            "sft/loss": result["loss"],
            "sft/accuracy": result["accuracy"],
            "sft/entropy": result["entropy"],
            "sft/tokens": result["tokens"],
            "grad_norm": result["grad_norm"],
            "lr": rate,
        }

    def run(self, first: int, last: int, after: Callable[[int, dict[str, float]], None]) -> None:
        """Steps ``first`` to ``last`` - 1; ``after(step + 1, metrics)`` is called after each."""
        for step in range(first, last):
            after(step + 1, self.step(step))
