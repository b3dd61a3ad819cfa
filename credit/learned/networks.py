"""The networks behind the trunks: lists of items in, one float32 per position out. Imports torch.

Weights come from an explicit generator: modules are made without values (``skip_init``) and filled here, so the
process-wide generator is never read or written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.utils import skip_init

from agentgym.credit.learned.text import PARTS, Item
from agentgym.errors import DataError
from agentgym.seeding import derive_seed


class Network(nn.Module):
    """``forward(items)``: all positions of all items in a row. ``last`` is the output layer."""

    last: nn.Linear

    def start(self, mean: float) -> None:
        """Before the first fit: an output of ``mean`` everywhere, plus almost nothing."""
        with torch.no_grad():
            self.last.weight.mul_(0.01)
            self.last.bias.fill_(mean)

    def weights(self) -> dict[str, npt.NDArray[Any]]:
        """The trained parameters, as float32 arrays."""
        return {n: p.detach().cpu().float().numpy().copy() for n, p in self.named_parameters() if p.requires_grad}

    def load(self, weights: Mapping[str, npt.NDArray[Any]]) -> None:
        """The inverse; raises DataError for weights of another network."""
        own = {n: p for n, p in self.named_parameters() if p.requires_grad}
        wrong = {n for n, p in own.items() if n not in weights or weights[n].shape != tuple(p.shape)}
        if wrong or set(weights) - set(own):
            names = ", ".join(sorted(wrong | (set(weights) - set(own)))[:3])
            raise DataError(f"saved credit model: {names} do not fit this trunk; was it saved with other options?")
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(torch.from_numpy(np.array(weights[name])))

    def fingerprint(self) -> str:
        """Of the frozen parameters; empty where all are trained."""
        frozen = [p.detach().flatten()[:64].float().cpu().numpy() for p in self.parameters() if not p.requires_grad]
        return hashlib.blake2b(b"".join(p.tobytes() for p in frozen), digest_size=8).hexdigest() if frozen else ""


def generator(*parts: int | str) -> torch.Generator:
    """A CPU generator of its own."""
    return torch.Generator().manual_seed(derive_seed(*parts))


def _fill(module: nn.Module, seed: int) -> None:
    """He-like values: normal with variance 1 / fan-in; biases 0."""
    source = generator("credit network", seed)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() < 2:
                parameter.zero_()
            else:
                parameter.copy_(torch.randn(parameter.shape, generator=source) / parameter.shape[1] ** 0.5)


def _linear(width: int, out: int) -> nn.Linear:
    made: nn.Linear = skip_init(nn.Linear, width, out)  # type: ignore[no-untyped-call]
    return made


class _Bags(nn.Module):
    """Linear layer on the three bags, each scaled to length 1 so that long texts do not drown short ones."""

    def __init__(self, buckets: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(PARTS * buckets, width))
        self.bias = nn.Parameter(torch.empty(width))

    def fill(self, seed: int) -> None:
        with torch.no_grad():
            self.table.copy_(torch.randn(self.table.shape, generator=generator("credit bags", seed)) * 0.5)
            self.bias.zero_()

    def forward(self, items: Sequence[Item], rows: npt.NDArray[np.int64] | None = None) -> torch.Tensor:
        """Of all positions, or of those in ``rows``."""
        index = np.concatenate([item["index"] for item in items])
        size = np.concatenate([item["size"] for item in items])
        if rows is not None:
            total = size.sum(1, dtype=np.int64)
            begin = np.cumsum(total) - total
            size, length = size[rows], total[rows]
            inside = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
            index = index[np.repeat(begin[rows], length) + inside]
        scale = np.repeat(1 / np.sqrt(np.maximum(size, 1)).astype(np.float32), size.ravel())
        offsets = np.concatenate([[0], np.cumsum(size.sum(1, dtype=np.int64))[:-1]]) if len(size) else np.zeros(0)
        bags: torch.Tensor = nn.functional.embedding_bag(
            torch.from_numpy(index.astype(np.int64)),
            self.table,
            torch.from_numpy(offsets.astype(np.int64)),
            mode="sum",
            per_sample_weights=torch.from_numpy(scale),
        )
        return bags + self.bias


class WordsNetwork(Network):
    """Bags -> ReLU -> Linear, position by position; equal positions are computed once."""

    def __init__(self, buckets: int, hidden: int, seed: int) -> None:
        super().__init__()
        self.bags, self.last = _Bags(buckets, hidden), _linear(hidden, 1)
        _fill(self.last, seed)
        self.bags.fill(seed)

    def forward(self, items: Sequence[Item]) -> torch.Tensor:
        if not sum(len(item["size"]) for item in items):
            return torch.zeros(0)
        if "key" not in items[0]:
            return self.last(torch.relu(self.bags(items)))[:, 0]  # type: ignore[no-any-return]
        keys = np.concatenate([item["key"] for item in items])
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        out = self.last(torch.relu(self.bags(items, first.astype(np.int64))))[:, 0]
        return out[torch.from_numpy(inverse.ravel())]  # type: ignore[no-any-return]


class _Head(nn.Module):
    def __init__(self, width: int, seed: int) -> None:
        super().__init__()
        inner = max(1, width // 4)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.first, self.last = _linear(width, inner), _linear(inner, 1)
        _fill(self, seed)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.last(nn.functional.gelu(self.first(self.norm(hidden.float()))))[:, 0]  # type: ignore[no-any-return]


class OwnNetwork(Network):
    """Bags -> tanh -> GRU over positions -> head."""

    def __init__(self, buckets: int, hidden: int, seed: int) -> None:
        super().__init__()
        self.bags = _Bags(buckets, hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True, device="meta").to_empty(device="cpu")
        _fill(self.gru, derive_seed("gru", seed))
        self.bags.fill(seed)
        self.head = _Head(hidden, seed)

    @property
    def last(self) -> nn.Linear:  # type: ignore[override]
        """The head's output layer."""
        return self.head.last

    def forward(self, items: Sequence[Item]) -> torch.Tensor:
        lengths = [len(item["size"]) for item in items]
        if not sum(lengths):
            return torch.zeros(0)
        padded = nn.utils.rnn.pad_sequence(list(torch.split(torch.tanh(self.bags(items)), lengths)), batch_first=True)
        out, _ = self.gru(padded)
        inside = torch.arange(padded.shape[1])[None] < torch.tensor(lengths)[:, None]
        return self.head(out[inside])  # type: ignore[no-any-return]


class HeadNetwork(Network):
    """The head on kept hidden states."""

    def __init__(self, width: int, seed: int) -> None:
        super().__init__()
        self.head = _Head(width, seed)

    @property
    def last(self) -> nn.Linear:  # type: ignore[override]
        """The head's output layer."""
        return self.head.last

    def forward(self, items: Sequence[Item]) -> torch.Tensor:
        return self.head(torch.from_numpy(np.concatenate([item["hidden"] for item in items])))  # type: ignore[no-any-return]


class LoraNetwork(Network):
    """The head on a policy copy that carries a trained adapter (``svc.offered["trunk"].clone_for_training``)."""

    def __init__(self, trunk: nn.Module, seed: int) -> None:
        super().__init__()
        self.trunk = trunk
        self.width = int(trunk.width)  # type: ignore[arg-type]
        device = next(trunk.parameters()).device
        self.head = _Head(self.width, seed).to(device)

    @property
    def last(self) -> nn.Linear:  # type: ignore[override]
        """The head's output layer."""
        return self.head.last

    def forward(self, items: Sequence[Item]) -> torch.Tensor:
        device = self.head.last.weight.device
        counts = np.array([len(item["row_size"]) for item in items])
        shift = np.cumsum(counts) - counts
        at = np.concatenate([item["at"] for item in items])
        row = np.concatenate([item["row"] + s for item, s in zip(items, shift, strict=True)])
        hidden = torch.zeros(len(at), self.width, device=device)
        real = at >= 0
        if real.any():
            sizes = np.concatenate([item["row_size"] for item in items])
            ids = torch.from_numpy(np.concatenate([item["ids"] for item in items]).astype(np.int64)).to(device)
            padded = nn.utils.rnn.pad_sequence(list(torch.split(ids, sizes.tolist())), batch_first=True)
            mask = torch.arange(padded.shape[1], device=device)[None] < torch.from_numpy(sizes).to(device)[:, None]
            out = self.trunk(padded, mask).float()
            found = out[torch.from_numpy(row[real]).to(device).long(), torch.from_numpy(at[real]).to(device).long()]
            places = torch.from_numpy(np.flatnonzero(real)).to(device)
            hidden = hidden.index_copy(0, places, found)
        return self.head(hidden)  # type: ignore[no-any-return]
