"""What a learned credit model is fitted to. Imports torch only when a loss is computed.

Items carry the targets: ``label`` float64, and for the sum objective ``credit`` float32 [turns], 0 on turns whose
credit is 0 by rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from agentgym.credit.learned.text import Item
from agentgym.credit.protocols import Array

if TYPE_CHECKING:
    import torch

EPSILON = 1e-8  #: label variance below this cannot be learned from


class Objective(Protocol):
    """``loss`` of network outputs; ``start`` the output before any fit; ``scored`` predictions against targets."""

    def loss(self, out: torch.Tensor, items: Sequence[Item], weights: Array) -> torch.Tensor: ...
    def start(self, items: Sequence[Item], weights: Array) -> float: ...
    def predict(self, out: Array) -> Array: ...
    def scored(self, outputs: Sequence[Array], items: Sequence[Item]) -> tuple[Array, Array]: ...


class SumToLabel:
    """``mean_i (sum_t c_t - R_i)^2 + spread * mean_i sum_t c_t^2`` (SPA, arXiv 2505.20732, equation of the loss)."""

    def __init__(self, spread: float) -> None:
        self.spread = spread

    def loss(self, out: torch.Tensor, items: Sequence[Item], weights: Array) -> torch.Tensor:
        """The sum over an episode is a product with a 0/1 matrix: the same order, so the same bits, every time."""
        import torch

        mask = np.concatenate([item["credit"] for item in items])
        owner = np.repeat(np.arange(len(items)), [len(item["credit"]) for item in items])
        member = (owner[None] == np.arange(len(items))[:, None]).astype(np.float32)
        credit = out * torch.from_numpy(mask).to(out)
        label = torch.tensor([float(item["label"][0]) for item in items]).to(out)
        weight = torch.from_numpy(weights).to(out)
        error = (torch.from_numpy(member).to(out) @ credit - label) ** 2
        squares = torch.from_numpy(member).to(out) @ credit**2
        return (weight * (error + self.spread * squares)).sum() / weight.sum()

    def start(self, items: Sequence[Item], weights: Array) -> float:
        """mean(R) / mean(T), over turns that can carry credit."""
        turns = float(np.average([item["credit"].sum() for item in items], weights=weights))
        return float(np.average([item["label"][0] for item in items], weights=weights)) / max(turns, 1.0)

    def predict(self, out: Array) -> Array:
        """Outputs are credits."""
        return out

    def scored(self, outputs: Sequence[Array], items: Sequence[Item]) -> tuple[Array, Array]:
        """R_hat and R, per episode."""
        sums = [float((out * item["credit"]).sum()) for out, item in zip(outputs, items, strict=True)]
        return np.array(sums), np.array([item["label"][0] for item in items], np.float64)


class _PerPosition:
    """A probability at every position, by the sigmoid of the output."""

    def start(self, items: Sequence[Item], weights: Array) -> float:
        """The logit of the mean label."""
        lengths = [len(item["label"]) for item in items]
        labels = np.concatenate([item["label"] for item in items])
        mean = np.clip(np.average(labels, weights=np.repeat(weights, lengths)), 0.01, 0.99)
        return float(np.log(mean / (1 - mean)))

    def predict(self, out: Array) -> Array:
        """In (0, 1)."""
        return np.exp(-np.logaddexp(0.0, -out))

    def scored(self, outputs: Sequence[Array], items: Sequence[Item]) -> tuple[Array, Array]:
        """All positions."""
        predicted = self.predict(np.concatenate([np.zeros(0), *outputs]))
        return predicted, np.concatenate([np.zeros(0), *(item["label"] for item in items)])

    def _parts(
        self, out: torch.Tensor, items: Sequence[Item], weights: Array
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        import torch

        label = torch.from_numpy(np.concatenate([item["label"] for item in items])).to(out)
        weight = torch.from_numpy(np.repeat(weights, [len(item["label"]) for item in items])).to(out)
        return out, label, weight / weight.sum()


class LabelMSE(_PerPosition):
    """Squared error to a label in [0, 1] at every position (MiRA's potential critic, arXiv 2603.19685)."""

    def loss(self, out: torch.Tensor, items: Sequence[Item], weights: Array) -> torch.Tensor:
        """Weighted mean over positions."""
        out, label, weight = self._parts(out, items, weights)
        return (weight * (out.sigmoid() - label) ** 2).sum()


class SuccessBCE(_PerPosition):
    """Binary cross-entropy with the final success at every position (MiRA's value critic)."""

    def loss(self, out: torch.Tensor, items: Sequence[Item], weights: Array) -> torch.Tensor:
        """Weighted mean over positions."""
        import torch

        out, label, weight = self._parts(out, items, weights)
        losses = torch.nn.functional.binary_cross_entropy_with_logits(out, label, reduction="none")
        return (weight * losses).sum()


def spearman(x: Array, y: Array) -> float:
    """Rank correlation, ties at their mean rank; 0 where either side is constant."""
    if len(x) < 2:
        return 0.0
    a, b = _ranks(x), _ranks(y)
    a, b = a - a.mean(), b - b.mean()
    norm = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return float((a * b).sum()) / norm if norm > 0 else 0.0


def _ranks(x: Array) -> Array:
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    ranks: Array = (np.cumsum(counts) - (counts - 1) / 2)[inverse.ravel()]
    return ranks


def explained(predicted: Array, target: Array) -> float:
    """Share of the target's variance that the prediction explains; 0 where the target is constant."""
    variance = float(np.var(target)) if len(target) else 0.0
    return 1 - float(np.mean((target - predicted) ** 2)) / variance if variance > EPSILON else 0.0
