"""Two ways to run a causal language model turn by turn, behind one small interface.

:class:`SlotBackend` keeps keys and values across turns and encodes new tokens only; :class:`PlainBackend` encodes
the whole prompt at every turn and works with any architecture (recurrent layers, foreign caches). ``make_backend``
checks on the model itself that the first one is exact and falls back to the second otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from agentgym.policies.causal import CausalModel, evaluating
from agentgym.policies.kv import Ints, SlotTable
from agentgym.tokens import IntArray

logger = logging.getLogger(__name__)
#: most tokens (rows x columns) of one forward call while prompts are encoded
FORWARD_TOKENS = 8192


class Backend(Protocol):
    """``start`` encodes prompts, ``step`` appends one token a row; both return last-token logits [B, V].

    ``order``/``keep``: for each row of the logits, the index of its prompt / of its row in the previous call.
    """

    def start(self, sessions: Sequence[str], prompts: Sequence[IntArray], extra: int) -> tuple[torch.Tensor, Ints]:
        """Encode the prompts; ``extra`` is how many tokens each may grow."""

    def step(self, tokens: Ints, active: npt.NDArray[np.bool_]) -> tuple[torch.Tensor, Ints]:
        """Append ``tokens[i]`` to every active row i; finished rows may be dropped."""

    def most_rows(self, length: int) -> int:
        """How many sequences of ``length`` tokens fit at once."""

    def release(self, session: str) -> None:
        """Forget a session."""

    def clear(self) -> None:
        """Forget everything: the weights changed."""


class SlotBackend:
    """Keys and values stay in slots across turns (:class:`~agentgym.policies.kv.SlotTable`)."""

    def __init__(self, model: CausalModel, limit_bytes: int) -> None:
        self.model = model
        self.table = SlotTable(model.token_bytes(), limit_bytes)
        self._rows: list[str] = []
        self._capacity = self._start = 0
        self.encoded = self.reused = 0
        config = model.config
        self._kinds = set(getattr(config, "layer_types", None) or ())
        self._sliding = getattr(config, "sliding_window", None)

    def most_rows(self, length: int) -> int:
        """See :class:`Backend`."""
        return self.table.most_rows(length + 1)

    def release(self, session: str) -> None:
        """See :class:`Backend`."""
        self.table.release(session)

    def clear(self) -> None:
        """See :class:`Backend`."""
        self.table.clear()
        self._rows, self._capacity, self._start = [], 0, 0

    def start(self, sessions: Sequence[str], prompts: Sequence[IntArray], extra: int) -> tuple[torch.Tensor, Ints]:
        """See :class:`Backend`. Of a known session only the part after the longest common prefix is encoded."""
        return self.encode(list(sessions), self.pending(sessions, prompts, extra))

    def pending(self, sessions: Sequence[str], prompts: Sequence[IntArray], extra: int) -> dict[str, IntArray]:
        """Give every session a slot with room for ``extra`` more; the end of each prompt that is still to encode."""
        self._capacity = max(len(p) for p in prompts) + extra + 1  # one more for what padding writes
        self.place(sessions)
        out: dict[str, IntArray] = {}
        for session, prompt in zip(sessions, prompts, strict=True):
            slot = self.table.slot[session]
            known = _common_prefix(self.table.tokens[slot, : self.table.lengths[slot]], prompt[:-1])
            self.table.lengths[slot] = known
            out[session] = prompt[known:]
            self.reused += known
            self.encoded += len(prompt) - known
        return out

    def encode(self, sessions: list[str], pending: dict[str, IntArray]) -> tuple[torch.Tensor, Ints]:
        """Encode ragged new tokens: the heads of the long ones among themselves, then the tails of all at once."""
        sizes = sorted(len(pending[s]) for s in sessions)
        width = max(16, 2 * sizes[len(sizes) // 2])
        width = max(1, min(width, sizes[-1], FORWARD_TOKENS // len(sessions)))
        longer = [s for s in sessions if len(pending[s]) > width]
        if longer:
            self.encode(longer, {s: pending[s][:-width] for s in longer})
            pending = pending | {s: pending[s][-width:] for s in longer}
        order = self.place(sessions)
        fresh = [pending[sessions[i]] for i in order]
        ids = np.zeros((len(fresh), width), np.int64)
        for row, new in enumerate(fresh):  # right-aligned: the last column is every row's last token
            ids[row, width - len(new) :] = new
        return self._forward(ids, np.array([len(new) for new in fresh], np.int64)), order

    def place(self, sessions: Sequence[str]) -> Ints:
        """Make the sessions' slots the window of the next forward; the session index of each of its rows."""
        self._start, order = self.table.place(sessions, self._capacity)
        self._rows = [sessions[i] for i in order]
        return order

    def step(self, tokens: Ints, active: npt.NDArray[np.bool_]) -> tuple[torch.Tensor, Ints]:
        """See :class:`Backend`. Finished rows ride along as padding until they are half of the window."""
        keep = np.arange(len(tokens), dtype=np.int64)
        if active.sum() <= len(tokens) // 2:
            keep = active.nonzero()[0]
            keep = keep[self.place([self._rows[i] for i in keep])]
        return self._forward(tokens[keep][:, None], active[keep].astype(np.int64)), keep

    def _forward(self, ids: Ints, sizes: Ints) -> torch.Tensor:
        """Append the last ``sizes[i]`` of ``ids[i]`` ([B, Q]) to row i of the window; logits [B, V] of column -1."""
        table = self.table
        count, width = ids.shape
        window = slice(self._start, self._start + count)
        lengths = table.lengths[window]
        positions = (lengths + sizes)[:, None] + np.arange(-width, 0)
        padding = positions < lengths[:, None]
        write = np.where(padding, table.cache.capacity - 1, positions)
        positions[padding] = 0
        table.tokens[np.arange(window.start, window.stop)[:, None], write] = ids
        lengths += sizes
        seen = int(lengths.max())
        at = torch.from_numpy(positions).to(self.model.device)
        return self.forward(ids, at, write, self._mask(at, torch.arange(seen, device=at.device)), seen)[:, -1]

    def forward(self, ids: Ints, at: torch.Tensor, write: Ints, mask: Any, seen: int, keep: int = 1) -> torch.Tensor:
        """One call on the window: ``ids`` [B, Q] at positions ``at``, stored at ``write``; logits [B, keep, V]."""
        window = slice(self._start, self._start + len(ids))
        self.table.cache.begin(window, torch.from_numpy(write).to(self.model.device), seen)
        return self.model(torch.from_numpy(ids).to(self.model.device), mask, at, self.table.cache, keep)

    def window_lengths(self) -> Ints:
        """Tokens held by each row of the window."""
        return self.table.lengths[self._start : self._start + len(self._rows)]

    def _mask(self, at: torch.Tensor, keys: torch.Tensor) -> Any:
        """The causal mask for query positions ``at`` [B, Q] and key positions ``keys`` [seen]."""
        return self.masks(keys <= at[:, :, None], at, keys)

    def masks(self, allowed: torch.Tensor, at: torch.Tensor, keys: torch.Tensor) -> Any:
        """What the model takes as attention mask: ``allowed`` [B, Q, seen] bool, narrowed where layers slide.

        ``at`` [B, Q] and ``keys`` [seen] or [B, 1, seen] are the positions; one mask per layer kind where they differ.
        """
        if not self._sliding and "sliding_attention" not in self._kinds:
            return self._additive(allowed)
        near = allowed & (at[:, :, None] - keys < (self._sliding or 1 << 40))
        if not self._kinds:
            return self._additive(near)
        by_kind = {"full_attention": allowed, "sliding_attention": near}
        return {kind: self._additive(by_kind[kind]) for kind in self._kinds}

    def _additive(self, allowed: torch.Tensor) -> torch.Tensor:
        dtype = self.model.module.dtype
        mask = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
        return mask.masked_fill_(~allowed, torch.finfo(dtype).min)[:, None]


class PlainBackend:
    """Left-padded prompts, encoded anew at every turn, with the model's own cache inside one turn."""

    def __init__(self, model: CausalModel) -> None:
        self.model = model
        self._cache: Any = None
        self._mask = torch.empty(0)
        self.encoded = self.reused = 0

    def most_rows(self, length: int) -> int:
        """See :class:`Backend`."""
        return 1 << 30

    def release(self, session: str) -> None:
        """See :class:`Backend`."""

    def clear(self) -> None:
        """See :class:`Backend`."""

    def start(self, sessions: Sequence[str], prompts: Sequence[IntArray], extra: int) -> tuple[torch.Tensor, Ints]:
        """See :class:`Backend`."""
        from transformers import DynamicCache

        count, width = len(prompts), max(len(p) for p in prompts)
        ids, mask = np.zeros((count, width), np.int64), np.zeros((count, width), np.int64)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = prompt
            mask[row, width - len(prompt) :] = 1
        self.encoded += int(mask.sum())
        device = self.model.device
        self._mask = torch.from_numpy(mask).to(device)
        positions = (self._mask.cumsum(-1) - 1).clamp_(min=0)
        self._cache = DynamicCache(config=self.model.config)
        logits = self.model(torch.from_numpy(ids).to(device), self._mask, positions, self._cache)
        return logits[:, -1], np.arange(count, dtype=np.int64)

    def step(self, tokens: Ints, active: npt.NDArray[np.bool_]) -> tuple[torch.Tensor, Ints]:
        """See :class:`Backend`. Finished rows are kept; what they compute is ignored."""
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(tokens), 1)], dim=1)
        positions = self._mask.sum(-1, keepdim=True) - 1
        ids = torch.from_numpy(tokens).to(self.model.device)[:, None]
        logits = self.model(ids, self._mask, positions, self._cache)
        return logits[:, -1], np.arange(len(tokens), dtype=np.int64)


def _common_prefix(left: IntArray, right: IntArray) -> int:
    """Length of the longest common prefix of two id arrays."""
    size = min(len(left), len(right))
    differ = (left[:size] != right[:size]).nonzero()[0]
    return int(differ[0]) if len(differ) else size


def make_backend(model: Any, limit_bytes: int, reuse: bool | None = None) -> SlotBackend | PlainBackend:
    """The backend for ``model``. ``reuse`` None: keys and values are kept where a check shows that it is exact."""
    causal = CausalModel(model)
    if reuse is False:
        return PlainBackend(causal)
    backend = SlotBackend(causal, limit_bytes)
    if reuse is None:
        problem = _probe(model, causal)
        if problem:
            logger.warning("%s: prompts are encoded anew every turn (%s)", type(causal.module).__name__, problem)
            return PlainBackend(causal)
    return backend


def _probe(model: Any, causal: CausalModel) -> str:
    """Encode three short rows in two ragged pieces and compare with whole rows; the problem found, or empty."""
    rng = np.random.Generator(np.random.PCG64(0))
    top = min(int(causal.config.vocab_size), 1000)
    rows = [rng.integers(0, top, size).astype(np.int32) for size in (9, 5, 12)]
    names = ["a", "b", "c"]
    with torch.inference_mode(), evaluating(model):
        try:
            backend = SlotBackend(causal, 1 << 30)
            backend.start(names, [row[:cut] for row, cut in zip(rows, (4, 2, 11), strict=True)], 16)
            logits, order = backend.start(names, rows, 16)
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:200]}"
        worst = scale = 0.0
        for line, index in enumerate(order):
            ids = torch.from_numpy(rows[index].astype(np.int64))[None].to(causal.device)
            whole = causal.module(input_ids=ids).logits[0, -1].float()
            worst = max(worst, float((logits[line].float() - whole).abs().max()))
            scale = max(scale, float(whole.abs().max()))
    tolerance = (1e-4 if causal.module.dtype == torch.float32 else 5e-2) * max(scale, 1e-2)
    return "" if worst <= tolerance else f"log-odds differ by {worst:.3g}"
