"""Drawing tokens: one seeded uniform number per (request, position), inverse CDF in float64.

The draw of a row depends on its own seed, position and logits only, so neither batch nor concurrency changes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from agentgym.policy import Sampling

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1, _MIX2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def _splitmix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * _MIX1
    x = (x ^ (x >> np.uint64(27))) * _MIX2
    return x ^ (x >> np.uint64(31))


def uniforms(seeds: npt.NDArray[np.uint64], position: int) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1), one per seed, for the token at ``position`` of each response (a counter-based hash)."""
    with np.errstate(over="ignore"):
        mixed = _splitmix(_splitmix(seeds + _GOLDEN) + np.uint64(position + 1) * _GOLDEN)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def seed_array(seeds: Sequence[int]) -> npt.NDArray[np.uint64]:
    """Request seeds as uint64, any integer accepted."""
    return np.array([seed & 0xFFFFFFFFFFFFFFFF for seed in seeds], np.uint64)


@dataclass(slots=True)
class RowSampling:
    """Sampling settings of B rows as tensors: ``temperature`` [B, 1] (1 where greedy), ``greedy`` [B] or None."""

    seeds: npt.NDArray[np.uint64]
    temperature: torch.Tensor
    greedy: torch.Tensor | None
    top_p: torch.Tensor | None
    top_k: torch.Tensor | None

    @classmethod
    def of(cls, seeds: Sequence[int], samplings: Sequence[Sampling], device: torch.device) -> RowSampling:
        """Build from one Sampling a row."""
        greedy = [s.temperature == 0 for s in samplings]
        kept = [s.top_p for s in samplings]
        most = [s.top_k for s in samplings]

        def tensor(values: Sequence[float], dtype: torch.dtype) -> torch.Tensor:
            return torch.tensor(values, dtype=dtype, device=device)

        return cls(
            seed_array(seeds),
            tensor([s.temperature or 1.0 for s in samplings], torch.float32)[:, None],
            tensor(greedy, torch.bool) if any(greedy) else None,
            tensor(kept, torch.float64)[:, None] if min(kept) < 1 else None,
            tensor(most, torch.int64)[:, None] if max(most) > 0 else None,
        )

    def take(self, keep: npt.NDArray[np.int64]) -> RowSampling:
        """The settings of the rows ``keep``, in that order."""
        index = torch.from_numpy(keep).to(self.temperature.device)

        def rows(tensor: torch.Tensor | None) -> torch.Tensor | None:
            return None if tensor is None else tensor[index]

        return RowSampling(
            self.seeds[keep], self.temperature[index], rows(self.greedy), rows(self.top_p), rows(self.top_k)
        )


def draw(
    logits: torch.Tensor, rows: RowSampling, position: int, allowed: torch.Tensor | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """One token a row from ``logits`` [B, V]: ids [B] and their float32 log-probabilities [B].

    The log-probability is that of the full distribution at the row's temperature (1 where greedy), top-p and
    top-k not counted; ``allowed`` [B, V] bool narrows the distribution itself (constrained decoding).
    A row whose logits are not finite comes back with a NaN log-probability.
    """
    scaled = logits.float() / rows.temperature
    if allowed is not None:
        scaled = scaled.masked_fill(~allowed, float("-inf"))
    logp = torch.log_softmax(scaled, dim=-1)
    tokens = _inverse_cdf(_narrowed(logp, rows), rows.seeds, position)
    if rows.greedy is not None:
        tokens = torch.where(rows.greedy, _lowest_argmax(logp), tokens)
    picked = logp.gather(1, tokens[:, None])[:, 0]
    return tokens.cpu().numpy(), picked.cpu().numpy()


def _inverse_cdf(probabilities: torch.Tensor, seeds: npt.NDArray[np.uint64], position: int) -> torch.Tensor:
    """The first id whose cumulative probability exceeds u times the total, per row of [B, V] float64."""
    cumulative = probabilities.cumsum(-1)
    u = torch.from_numpy(uniforms(seeds, position)).to(cumulative.device)
    tokens = torch.searchsorted(cumulative, u[:, None] * cumulative[:, -1:], right=True)[:, 0]
    return tokens.clamp_(max=probabilities.shape[-1] - 1)


def _lowest_argmax(values: torch.Tensor) -> torch.Tensor:
    """Index of the maximum of each row; the lowest index among ties."""
    ids = torch.arange(values.shape[-1], device=values.device)
    best = torch.where(values == values.amax(-1, keepdim=True), ids, values.shape[-1])
    return best.amin(-1).clamp_(max=values.shape[-1] - 1)


def _narrowed(logp: torch.Tensor, rows: RowSampling) -> torch.Tensor:
    """Probabilities in float64 with everything outside top-k and top-p set to zero (not renormalised)."""
    probabilities = logp.double().exp_()
    if rows.top_p is None and rows.top_k is None:
        return probabilities
    ordered, order = probabilities.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(ordered.shape[-1], device=ordered.device)[None]
    keep = torch.ones_like(ordered, dtype=torch.bool)
    if rows.top_k is not None:
        keep &= (rank < rows.top_k) | (rows.top_k == 0)
    if rows.top_p is not None:
        ordered = ordered * keep
        before = ordered.cumsum(-1) - ordered
        keep &= (before < rows.top_p * ordered.sum(-1, keepdim=True)) | (rows.top_p >= 1)
    return probabilities * torch.zeros_like(keep).scatter_(1, order, keep)
