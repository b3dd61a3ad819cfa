"""The one function that carries turn advantages to tokens. Every trainer uses it."""

from __future__ import annotations

import numpy as np

from agentgym.credit.components import CreditError
from agentgym.credit.protocols import Array
from agentgym.tokens import FloatArray
from agentgym.types import Episode


def project(episode: Episode, advantages: Array) -> list[FloatArray]:
    """``A[t]`` on every sampled token of turn t and 0 on all others: one float32 array per token row.

    Turns come from ``row.turns``, never from rewards or mask gaps. A turn that drew no token places nothing;
    :func:`empty_turns` counts them, and a reward on one still reaches the earlier turns through the return.
    """
    values = np.asarray(advantages, np.float64)
    if values.shape != (len(episode.turns),):
        raise CreditError(f"{episode.where}: {values.shape} advantages for {len(episode.turns)} turns")
    if not np.isfinite(values).all():
        turn = int(np.flatnonzero(~np.isfinite(values))[0])
        raise CreditError(f"{episode.where}, turn {turn}: advantage is {values[turn]}, must be finite")
    with_zero = np.append(values, 0.0).astype(np.float32)  # row.turns is -1 on unsampled tokens: the zero at the end
    for row in episode.rows:
        if len(row) and int(row.turns.max()) >= len(values):
            raise CreditError(f"{episode.where}: a token belongs to turn {row.turns.max()} of {len(values)} turns")
    return [with_zero[row.turns] for row in episode.rows]


def place(episode: Episode, tokens: list[Array]) -> list[FloatArray]:
    """One value per sampled token, ``tokens[turn][k]``, on the token rows; 0 on all others. float32 per row."""
    if len(tokens) != len(episode.turns):
        raise CreditError(f"{episode.where}: token values for {len(tokens)} of {len(episode.turns)} turns")
    out = [np.zeros(len(row), np.float32) for row in episode.rows]
    for turn, values in zip(episode.turns, tokens, strict=True):
        drawn = turn.end - turn.start if turn.row >= 0 else 0
        if len(values) != drawn:
            raise CreditError(f"{episode.where}, turn {turn.index}: {len(values)} values for {drawn} sampled tokens")
        if drawn:
            if not np.isfinite(values).all():
                raise CreditError(f"{episode.where}, turn {turn.index}: a token's advantage is not finite")
            out[turn.row][turn.start : turn.end] = values
    return out


def empty_turns(episode: Episode) -> int:
    """Turns without a sampled token, in an episode that has token rows (text-only policies have none at all)."""
    return len([turn for turn in episode.turns if turn.row < 0 or turn.end == turn.start]) if episode.rows else 0
