"""Token rows: what the sampler saw and drew, kept exactly.

A row is one token sequence as the model saw it. Each sampled token has mask 1, its log-probability at the
sampling temperature, and the index of its turn; every other token (prompt, template, observation, forced
tokens) has mask 0. Nothing is ever re-tokenised: ids come from the sampler and are trained as they are.

An append-only conversation gives one row an episode. Where the next prompt does not begin with the tokens
recorded so far (a window layout, or a chat template that drops earlier thinking), a new row starts, so no
sampled token is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]


@dataclass(slots=True)
class TokenRow:
    """One token sequence: four arrays of equal length L.

    ``ids`` int32; ``mask`` bool, True = drawn by the sampler and trained; ``logprobs`` float32, the sampled
    token's log-probability at the sampling temperature, 0 where mask is False; ``turns`` int32, the turn a
    sampled token belongs to, -1 where mask is False. Raises ValueError where lengths or contents disagree.
    """

    ids: IntArray
    mask: BoolArray
    logprobs: FloatArray
    turns: IntArray

    def __post_init__(self) -> None:
        length = len(self.ids)
        for name in ("mask", "logprobs", "turns"):
            if len(getattr(self, name)) != length:
                raise ValueError(f"token row: {length} ids but {len(getattr(self, name))} entries in {name}")
        if not np.array_equal(self.turns >= 0, self.mask):
            raise ValueError("token row: turns must be >= 0 exactly where mask is set")
        if not np.isfinite(self.logprobs).all():
            raise ValueError("token row: non-finite log-probability")

    def __len__(self) -> int:
        return len(self.ids)


class RowBuilder:
    """Builds the rows of one episode while it runs; amortised linear time.

    Call :meth:`add` once a turn with the ids the model was given and the ids it drew.
    """

    __slots__ = ("_done", "_ids", "_length", "_logprobs", "_mask", "_turns", "prefix_breaks")

    def __init__(self, capacity: int = 256) -> None:
        self._done: list[TokenRow] = []
        self.prefix_breaks = 0
        self._allocate(capacity)

    def _allocate(self, capacity: int) -> None:
        self._ids = np.empty(capacity, np.int32)
        self._mask = np.zeros(capacity, np.bool_)
        self._logprobs = np.zeros(capacity, np.float32)
        self._turns = np.full(capacity, -1, np.int32)
        self._length = 0

    def _reserve(self, length: int) -> None:
        if length <= len(self._ids):
            return
        capacity = max(length, 2 * len(self._ids))
        extra = capacity - len(self._ids)
        self._ids = np.concatenate([self._ids, np.empty(extra, np.int32)])
        self._mask = np.concatenate([self._mask, np.zeros(extra, np.bool_)])
        self._logprobs = np.concatenate([self._logprobs, np.zeros(extra, np.float32)])
        self._turns = np.concatenate([self._turns, np.full(extra, -1, np.int32)])

    def add(
        self,
        turn: int,
        prompt_ids: Sequence[int] | IntArray,
        token_ids: Sequence[int] | IntArray,
        logprobs: Sequence[float] | FloatArray,
    ) -> tuple[int, int, int]:
        """Record one turn; returns ``(row, start, end)`` of its sampled tokens (an empty span if it drew none)."""
        prompt = np.asarray(prompt_ids, np.int32)
        drawn = np.asarray(token_ids, np.int32)
        if len(drawn) != len(logprobs):
            raise ValueError(f"turn {turn}: {len(drawn)} sampled tokens but {len(logprobs)} log-probabilities")
        known = self._length
        if known and not (len(prompt) >= known and np.array_equal(prompt[:known], self._ids[:known])):
            self.prefix_breaks += 1
            self._close()
            known = 0
        start = len(prompt)
        end = start + len(drawn)
        self._reserve(end)
        self._ids[known:start] = prompt[known:]
        self._ids[start:end] = drawn
        self._mask[start:end] = True
        self._logprobs[start:end] = logprobs
        self._turns[start:end] = turn
        self._length = end
        return len(self._done), start, end

    def _close(self) -> None:
        n = self._length
        if n:
            self._done.append(
                TokenRow(self._ids[:n].copy(), self._mask[:n].copy(), self._logprobs[:n].copy(), self._turns[:n].copy())
            )
        self._allocate(256)

    def rows(self) -> list[TokenRow]:
        """All rows so far, the open one included (copied)."""
        if not self._length:
            return list(self._done)
        n = self._length
        last = TokenRow(self._ids[:n].copy(), self._mask[:n].copy(), self._logprobs[:n].copy(), self._turns[:n].copy())
        return [*self._done, last]
