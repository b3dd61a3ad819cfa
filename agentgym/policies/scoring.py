"""Log-probabilities of given continuations, many per prompt, in one forward pass.

The candidates of a prompt lie side by side behind it; a mask lets each see the prompt and itself only (tree
attention), so the prompt is encoded once, and not at all where it is known from earlier turns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from agentgym.policies.backends import PlainBackend, SlotBackend
from agentgym.policies.causal import CausalModel
from agentgym.policies.kv import Ints
from agentgym.tokens import IntArray

#: most logits (rows x columns x vocabulary) held at once
LOGITS_LIMIT = 1 << 26
Scores = list[npt.NDArray[np.float32]]


def score(
    backend: SlotBackend | PlainBackend,
    sessions: Sequence[str],
    prompts: Sequence[IntArray],
    candidates: Sequence[Sequence[Sequence[int]]],
) -> list[Scores]:
    """For each prompt the per-token log-probabilities (temperature 1) of each of its non-empty candidates."""
    if isinstance(backend, PlainBackend):
        return [_score_plain(backend.model, prompt, some) for prompt, some in zip(prompts, candidates, strict=True)]
    extra = max(_columns(some) for some in candidates)
    longest = max(len(prompt) for prompt in prompts) + extra
    vocabulary = int(backend.model.config.vocab_size)
    rows = max(1, min(LOGITS_LIMIT // (vocabulary * extra), backend.most_rows(longest)))
    out: list[Scores] = []
    for first in range(0, len(prompts), rows):
        part = slice(first, first + rows)
        out += _score_slots(backend, sessions[part], prompts[part], candidates[part], extra)
    return out


def _columns(candidates: Sequence[Sequence[int]]) -> int:
    """Inputs behind the prompt's last token: every candidate without its last token."""
    return 1 + sum(len(ids) - 1 for ids in candidates)


def _score_slots(
    backend: SlotBackend,
    sessions: Sequence[str],
    prompts: Sequence[IntArray],
    candidates: Sequence[Sequence[Sequence[int]]],
    extra: int,
) -> list[Scores]:
    pending = backend.pending(sessions, prompts, extra)
    heads = {session: ids[:-1] for session, ids in pending.items() if len(ids) > 1}
    if heads:
        backend.encode(list(heads), heads)
    order = backend.place(sessions)
    lengths = backend.window_lengths().copy()
    width = max(_columns(candidates[i]) for i in order)
    seen = int(lengths.max()) + width
    blocks = [_block(int(n), prompts[i][-1], candidates[i], width, seen) for n, i in zip(lengths, order, strict=True)]
    ids, positions, write, allowed, keys = (np.stack(parts) for parts in zip(*blocks, strict=True))
    write[write < 0] = backend.table.cache.capacity - 1
    device = backend.model.device
    at = torch.from_numpy(positions).to(device)
    mask = backend.masks(torch.from_numpy(allowed).to(device), at, torch.from_numpy(keys).to(device)[:, None])
    logits = backend.forward(ids, at, write, mask, seen, keep=width)
    out: list[Scores] = [[] for _ in prompts]
    for row, index in enumerate(order):
        logp = torch.log_softmax(logits[row].float(), dim=-1)
        out[index] = _gather(logp, candidates[index], width - _columns(candidates[index]))
    return out


def _block(
    length: int, last: int, candidates: Sequence[Sequence[int]], width: int, seen: int
) -> tuple[Ints, Ints, Ints, npt.NDArray[np.bool_], Ints]:
    """One row: the prompt's last token at ``length``, then the candidates; right-aligned to ``width`` columns."""
    ids, positions, write = (np.zeros(width, np.int64) for _ in range(3))
    write[:] = -1
    allowed = np.zeros((width, seen), np.bool_)
    allowed[:, 0] = True  # padding sees something
    keys = np.arange(seen)
    column = width - _columns(candidates)
    ids[column], positions[column], write[column] = last, length, length
    allowed[column:, : length + 1] = True
    place, column = length + 1, column + 1
    for candidate in candidates:
        size = len(candidate) - 1
        ids[column : column + size] = candidate[:-1]
        positions[column : column + size] = keys[place : place + size] = length + 1 + np.arange(size)
        write[column : column + size] = place + np.arange(size)
        allowed[column : column + size, place : place + size] = np.tri(size, dtype=np.bool_)
        place, column = place + size, column + size
    return ids, positions, write, allowed, keys


def _gather(logp: torch.Tensor, candidates: Sequence[Sequence[int]], first: int) -> Scores:
    """Token log-probabilities out of [width, V]; column ``first`` is the prompt's last token."""
    sources: list[int] = []
    targets: list[int] = []
    column = first + 1
    for candidate in candidates:
        sources += [first, *range(column, column + len(candidate) - 1)]
        targets += candidate
        column += len(candidate) - 1
    flat = logp[sources, targets].cpu().numpy()
    return np.split(flat, np.cumsum([len(candidate) for candidate in candidates])[:-1])


def _score_plain(model: CausalModel, prompt: IntArray, candidates: Sequence[Sequence[int]]) -> Scores:
    """One row per candidate, nothing kept: for models whose keys and values cannot be, and as a reference."""
    out: Scores = []
    for candidate in candidates:
        row = torch.from_numpy(np.concatenate([prompt, candidate]).astype(np.int64))[None].to(model.device)
        positions = torch.arange(row.shape[1], device=model.device)[None]
        logits = model(row, torch.ones_like(row), positions, None, len(candidate) + 1)
        logp = torch.log_softmax(logits[0, :-1].float(), dim=-1)
        out.append(logp[range(len(candidate)), list(candidate)].cpu().numpy())
    return out
