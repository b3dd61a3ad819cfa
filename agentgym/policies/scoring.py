"""Log-probabilities of given continuations, many per token row, in one forward pass.

The blocks of a row lie side by side behind it; a mask lets each see its own prefix of the row and itself only (tree
attention, positions restarted at the end of the prefix), so the row is encoded once, and not at all where it is known
from earlier turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch

from agentgym.policies.backends import FORWARD_TOKENS, PlainBackend, SlotBackend
from agentgym.policies.causal import CausalModel
from agentgym.policies.kv import Ints
from agentgym.tokens import IntArray

#: most logits (rows x columns x vocabulary) held at once
LOGITS_LIMIT = 1 << 26
Scores = list[npt.NDArray[np.float32]]
#: ``(cut, ids)``: non-empty ids that are read behind the first ``cut`` >= 1 tokens of their row
Block = tuple[int, Sequence[int] | IntArray]


def score(
    backend: SlotBackend | PlainBackend,
    sessions: Sequence[str],
    prompts: Sequence[IntArray],
    candidates: Sequence[Sequence[Sequence[int]]],
) -> list[Scores]:
    """For each prompt the per-token log-probabilities (temperature 1) of each of its non-empty candidates."""
    blocks = [[(len(prompt), ids) for ids in some] for prompt, some in zip(prompts, candidates, strict=True)]
    if isinstance(backend, PlainBackend):
        return score_plain(backend.model, prompts, blocks)
    return score_tree(backend, sessions, prompts, blocks)


def score_tree(
    backend: SlotBackend, sessions: Sequence[str], rows: Sequence[IntArray], blocks: Sequence[Sequence[Block]]
) -> list[Scores]:
    """For each row the per-token log-probabilities of its blocks; each row is encoded once. A cut may be repeated.

    Every row must have a block at its very end: what lies behind the last cut plays no part and is to be cut off.
    """
    extra = max(_columns(some) for some in blocks)
    longest = max(len(row) for row in rows) + extra
    vocabulary = int(backend.model.config.vocab_size)
    most = max(1, min(LOGITS_LIMIT // (vocabulary * extra), backend.most_rows(longest)))
    out: list[Scores] = []
    for first in range(0, len(rows), most):
        part = slice(first, first + most)
        out += _score_slots(backend, sessions[part], rows[part], blocks[part], extra)
    return out


def _columns(blocks: Sequence[Block]) -> int:
    """Inputs of the scoring pass: the last token of every prefix, and every block without its last token."""
    return len({cut for cut, _ in blocks}) + sum(len(ids) - 1 for _, ids in blocks)


def _score_slots(
    backend: SlotBackend,
    sessions: Sequence[str],
    rows: Sequence[IntArray],
    blocks: Sequence[Sequence[Block]],
    extra: int,
) -> list[Scores]:
    pending = backend.pending(sessions, rows, extra)
    heads = {session: ids[:-1] for session, ids in pending.items() if len(ids) > 1}
    if heads:
        backend.encode(list(heads), heads)
    order = backend.place(sessions)
    width = max(_columns(blocks[i]) for i in order)
    seen = max(len(rows[i]) for i in order) + width
    pieces = [_layout(rows[i], blocks[i], width, seen) for i in order]
    ids, positions, write, allowed, keys = (np.stack(parts) for parts in zip(*pieces, strict=True))
    write[write < 0] = backend.table.cache.capacity - 1
    device = backend.model.device
    at = torch.from_numpy(positions).to(device)
    mask = backend.masks(torch.from_numpy(allowed).to(device), at, torch.from_numpy(keys).to(device)[:, None])
    logits = backend.forward(ids, at, write, mask, seen, keep=width)
    out: list[Scores] = [[] for _ in rows]
    for line, index in enumerate(order):
        logp = torch.log_softmax(logits[line].float(), dim=-1)
        out[index] = _gather(logp, blocks[index], width - _columns(blocks[index]))
    return out


def _leads(blocks: Sequence[Block], first: int) -> dict[int, int]:
    """The column of each prefix's last token, by cut: they come first, in ascending order."""
    return {cut: first + i for i, cut in enumerate(sorted({cut for cut, _ in blocks}))}


def _layout(
    row: IntArray, blocks: Sequence[Block], width: int, seen: int
) -> tuple[Ints, Ints, Ints, npt.NDArray[np.bool_], Ints]:
    """Ids, positions, slot indices to write, mask and key positions of one row, right-aligned to ``width`` columns."""
    ids, positions, write = (np.zeros(width, np.int64) for _ in range(3))
    write[:] = -1  # keys of a prefix inside the row are stored already; only the row's last token is new
    allowed = np.zeros((width, seen), np.bool_)
    allowed[:, 0] = True  # padding sees something
    keys = np.arange(seen)
    leads = _leads(blocks, width - _columns(blocks))
    for cut, column in leads.items():
        ids[column], positions[column] = row[cut - 1], cut - 1
        allowed[column, :cut] = True
    write[leads[len(row)]] = len(row) - 1
    place, column = len(row), max(leads.values()) + 1
    for cut, tokens in blocks:
        size = len(tokens) - 1
        columns, places = slice(column, column + size), slice(place, place + size)
        ids[columns] = tokens[:-1]
        positions[columns] = keys[places] = cut + np.arange(size)
        write[columns] = np.arange(place, place + size)
        allowed[columns, :cut] = True
        allowed[columns, places] = np.tri(size, dtype=np.bool_)
        place, column = place + size, column + size
    return ids, positions, write, allowed, keys


def _gather(logp: torch.Tensor, blocks: Sequence[Block], first: int) -> Scores:
    """Token log-probabilities out of [width, V]; the row's columns begin at ``first``."""
    leads = _leads(blocks, first)
    sources: list[int] = []
    targets: list[int] = []
    column = first + len(leads)
    for cut, tokens in blocks:
        sources += [leads[cut], *range(column, column + len(tokens) - 1)]
        targets += list(tokens)
        column += len(tokens) - 1
    flat = logp[sources, targets].cpu().numpy()
    return np.split(flat, np.cumsum([len(tokens) for _, tokens in blocks])[:-1])


def score_plain(model: CausalModel, rows: Sequence[IntArray], blocks: Sequence[Sequence[Block]]) -> list[Scores]:
    """The same by one whole row per block, nothing kept: for models without such masks, and as a reference.

    Rows of like length share a forward call, padded on the right, where padding cannot be seen.
    """
    flat = [
        (np.concatenate([row[:cut], ids]), len(ids))
        for row, some in zip(rows, blocks, strict=True)
        for cut, ids in some
    ]
    order = sorted(range(len(flat)), key=lambda k: -len(flat[k][0]))
    found: dict[int, npt.NDArray[np.float32]] = {}
    for batch in _batches([flat[k] for k in order], int(model.config.vocab_size)):
        part = order[batch]
        found.update(zip(part, _forward_plain(model, [flat[k] for k in part]), strict=True))
    scores = iter(found[k] for k in range(len(flat)))
    return [[next(scores) for _ in some] for some in blocks]


def _batches(rows: Sequence[tuple[IntArray, int]], vocabulary: int) -> Iterator[slice]:
    """Slices of ``(ids, size)``, the longest first, whose forward stays within the limits on tokens and logits."""
    first = keep = 0
    for k, (ids, size) in enumerate(rows):
        width = len(rows[first][0])
        wanted = max(keep, width - len(ids) + size + 1)
        count = k - first + 1
        if count > 1 and (count * width > FORWARD_TOKENS or count * wanted * vocabulary > LOGITS_LIMIT):
            yield slice(first, k)
            first, wanted = k, size + 1
        keep = wanted
    if rows:
        yield slice(first, len(rows))


def _forward_plain(model: CausalModel, rows: Sequence[tuple[IntArray, int]]) -> Scores:
    """Log-probabilities of the last ``size`` tokens of each ``(ids, size)``; the first row is the longest."""
    width = len(rows[0][0])
    ids, mask = (np.zeros((len(rows), width), np.int64) for _ in range(2))
    for line, (tokens, _) in enumerate(rows):
        ids[line, : len(tokens)], mask[line, : len(tokens)] = tokens, 1
    keep = 1 + max(width - len(tokens) + size for tokens, size in rows)
    device = model.device
    positions = torch.arange(width, device=device).expand(len(rows), -1)
    logits = model(torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device), positions, None, keep)
    out: Scores = []
    for line, (tokens, size) in enumerate(rows):
        begin = len(tokens) - size - 1 - (width - keep)
        logp = torch.log_softmax(logits[line, begin : begin + size].float(), dim=-1)
        out.append(logp[range(size), tokens[-size:].tolist()].cpu().numpy())
    return out
