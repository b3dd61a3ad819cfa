"""From token rows to padded batches: minibatches, micro-batches, and every token's share of the loss.

The share of a token (:func:`token_shares`) is computed over the whole minibatch before it is cut into
micro-batches, so the gradient does not depend on how it is cut. Rows are padded on the right and only real
positions are ever read: masks come from recorded spans and lengths, never from a search for an end token, and
the padding id does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from agentgym.errors import DataError
from agentgym.seeding import numpy_rng
from agentgym.tokens import FloatArray, TokenRow

Aggregation = Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm"]


@dataclass(slots=True)
class TrainRow:
    """A token row with what the loss needs.

    ``advantages`` one per token, read where the row's mask is set; ``weight`` 0 takes the row out entirely;
    ``reference`` the reference policy's log-probabilities, per token; ``old`` replaces the recorded
    log-probabilities (only where the trainer recomputes them); ``allowed`` the ids each sampled token was drawn among,
    one list per sampled token (None: the whole vocabulary); ``name`` says whose row it is, in errors.
    """

    row: TokenRow
    advantages: FloatArray
    weight: float = 1.0
    reference: FloatArray | None = None
    old: FloatArray | None = None
    allowed: Sequence[Sequence[int]] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if len(self.advantages) != len(self.row):
            raise ValueError(f"{self.name}: {len(self.row)} tokens but {len(self.advantages)} advantages")
        if not np.isfinite(self.advantages).all():
            raise ValueError(f"{self.name}: non-finite advantage")
        if len(self.row) and self.row.mask[0]:
            raise ValueError(f"{self.name}: the first token is marked as sampled, but nothing came before it")
        if self.allowed is not None and len(self.allowed) != self.trained:
            raise ValueError(f"{self.name}: {self.trained} sampled tokens but {len(self.allowed)} lists of choices")

    @property
    def trained(self) -> int:
        """Number of sampled tokens."""
        return int(self.row.mask.sum())


@dataclass(slots=True)
class MicroBatch:
    """One forward pass: ``ids`` [B, L], and one entry per sampled token in the 1-d tensors.

    ``positions``  flat index into [B * L] of the position that predicts the token
    ``shares``     the token's factor in the minibatch loss; the loss is ``sum(shares * token_loss)``
    ``turns``      which turn of the micro-batch the token belongs to, counted from 0
    ``rows``       indices of the rows in the list that was batched, in order
    ``allowed``    [N, A] ids each token was drawn among, the last repeated as padding; None: the whole vocabulary
    """

    ids: torch.Tensor
    positions: torch.Tensor
    targets: torch.Tensor
    advantages: torch.Tensor
    old: torch.Tensor
    shares: torch.Tensor
    reference: torch.Tensor | None
    turns: torch.Tensor
    rows: list[int]
    allowed: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.targets)


def check_window(rows: Sequence[TrainRow], window: int | None) -> None:
    """Raise DataError, with counts, where rows exceed the model window. Nothing is ever cut."""
    if window is None:
        return
    long = [row for row in rows if len(row.row) > window]
    if long:
        worst = max(long, key=lambda row: len(row.row))
        raise DataError(
            f"{len(long)} of {len(rows)} training rows exceed the model window of {window} tokens; the longest has "
            f"{len(worst.row)} ({worst.name or 'unnamed'}). Rows are never cut: raise model.tiny.context, use a model "
            "with a longer window, or lower limits.max_turns or limits.max_episode_tokens."
        )


def token_shares(
    lengths: npt.ArrayLike, weights: npt.ArrayLike, mode: Aggregation, divisor: float
) -> npt.NDArray[np.float64]:
    """The loss factor of each token of each row, over a whole minibatch.

    With n_i sampled tokens and weight w_i of row i:
    ``token-mean`` w_i / sum(w n); ``seq-mean-token-mean`` w_i / (n_i sum w);
    ``seq-mean-token-sum-norm`` w_i / (divisor sum w), with a constant divisor (Dr.GRPO, arXiv 2503.20783).
    Rows of weight 0 or without sampled tokens get 0 and count nowhere.
    """
    n = np.asarray(lengths, np.float64)
    w = np.asarray(weights, np.float64) * (n > 0)
    if mode == "token-mean":
        total = float((w * n).sum())
        return w / total if total else w
    total = float(w.sum())
    if not total:
        return w
    if mode == "seq-mean-token-mean":
        return w / np.maximum(n, 1) / total
    if mode == "seq-mean-token-sum-norm":
        if not divisor > 0:
            raise ValueError(f"the token divisor must be > 0, got {divisor}")
        return w / divisor / total
    raise ValueError(f"unknown aggregation {mode!r}")


def minibatches(count: int, size: int, *seed: int | str) -> list[npt.NDArray[np.int64]]:
    """A seeded shuffle of ``count`` rows cut into ceil(count / size) parts of nearly equal size."""
    if not count:
        return []
    order = numpy_rng(*seed).permutation(count)
    return np.array_split(order, -(-count // size))


def split_by_length(
    lengths: Sequence[int], max_rows: int | None = None, max_tokens: int = 65_536, overhead: int = 256
) -> list[list[int]]:
    """Group rows of similar length: the cut of the length-sorted rows that costs least.

    The cost of a group is its padded size plus ``overhead``, the price of one more forward and backward pass in
    tokens. Exact, by dynamic programming over the sorted order. A single row may exceed ``max_tokens``.
    """
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    best: list[float] = [0.0]
    start = [0]
    limit = max_rows or len(lengths)
    for end in range(1, len(order) + 1):
        longest = lengths[order[end - 1]]
        choice, cost = end - 1, best[end - 1] + longest + overhead
        for begin in range(end - 2, max(-1, end - 1 - limit), -1):
            size = (end - begin) * longest
            if size > max_tokens:
                break
            if best[begin] + size + overhead < cost:
                choice, cost = begin, best[begin] + size + overhead
        best.append(cost)
        start.append(choice)
    groups: list[list[int]] = []
    end = len(order)
    while end:
        groups.append(order[start[end] : end])
        end = start[end]
    return groups


def micro_batches(
    rows: Sequence[TrainRow],
    mode: Aggregation = "token-mean",
    divisor: float = 1.0,
    max_rows: int | None = None,
    max_tokens: int = 65_536,
    device: torch.device | str = "cpu",
) -> list[MicroBatch]:
    """Cut one minibatch into micro-batches. Rows that weigh nothing are left out."""
    shares = token_shares([row.trained for row in rows], [row.weight for row in rows], mode, divisor)
    live = [i for i in range(len(rows)) if shares[i]]
    groups = split_by_length([len(rows[i].row) for i in live], max_rows, max_tokens)
    return [collate(rows, [live[k] for k in group], shares, device) for group in groups]


def collate(
    rows: Sequence[TrainRow], chosen: list[int], shares: npt.NDArray[np.float64], device: torch.device | str = "cpu"
) -> MicroBatch:
    """Pad the ``chosen`` rows to their longest and gather what the loss reads at each sampled token."""
    length = max(len(rows[i].row) for i in chosen)
    ids = np.zeros((len(chosen), length), np.int64)
    parts: dict[str, list[npt.NDArray[Any]]] = {k: [] for k in ("at", "target", "adv", "old", "share", "ref", "turn")}
    turns_before = 0
    with_reference = all(rows[i].reference is not None for i in chosen)
    for line, index in enumerate(chosen):
        item = rows[index]
        ids[line, : len(item.row)] = item.row.ids
        at = np.flatnonzero(item.row.mask)
        parts["at"].append(at - 1 + line * length)
        parts["target"].append(item.row.ids[at])
        parts["adv"].append(item.advantages[at])
        parts["old"].append((item.row.logprobs if item.old is None else item.old)[at])
        parts["share"].append(np.full(len(at), shares[index]))
        found, turn = np.unique(item.row.turns[at], return_inverse=True)
        parts["turn"].append(turn + turns_before)
        turns_before += len(found)
        if item.reference is not None and with_reference:
            parts["ref"].append(item.reference[at])

    def tensor(key: str, dtype: torch.dtype) -> torch.Tensor:
        return torch.as_tensor(np.concatenate(parts[key]), dtype=dtype).to(device)

    return MicroBatch(
        ids=torch.from_numpy(ids).to(device),
        positions=tensor("at", torch.long),
        targets=tensor("target", torch.long),
        advantages=tensor("adv", torch.float32),
        old=tensor("old", torch.float32),
        shares=tensor("share", torch.float32),
        reference=tensor("ref", torch.float32) if with_reference else None,
        turns=tensor("turn", torch.long),
        rows=list(chosen),
        allowed=_choices([rows[i] for i in chosen], device),
    )


def _choices(rows: Sequence[TrainRow], device: torch.device | str) -> torch.Tensor | None:
    """The choices of all sampled tokens, padded to the most; all rows of a batch have them, or none has."""
    if all(row.allowed is None for row in rows):
        return None
    lists = [ids for row in rows for ids in row.allowed or ()]
    if len(lists) != sum(row.trained for row in rows):
        raise ValueError("rows drawn among admissible actions and freely drawn ones cannot share a batch")
    out = np.empty((len(lists), max(map(len, lists))), np.int64)
    for line, ids in zip(out, lists, strict=True):
        line[: len(ids)] = ids
        line[len(ids) :] = ids[-1]
    return torch.from_numpy(out).to(device)


def scatter(rows: Sequence[TrainRow], batch: MicroBatch, values: torch.Tensor) -> list[FloatArray]:
    """Per-token values of a micro-batch back as one array per row of ``batch.rows`` (0 where not sampled)."""
    flat = values.detach().float().cpu().numpy()
    out: list[FloatArray] = []
    begin = 0
    for index in batch.rows:
        full = np.zeros(len(rows[index].row), np.float32)
        at = np.flatnonzero(rows[index].row.mask)
        full[at] = flat[begin : begin + len(at)]
        begin += len(at)
        out.append(full)
    return out
