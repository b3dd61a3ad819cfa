"""Which turns may carry attributed credit, and how the credit of a batch lies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.credit.learned.objectives import spearman
from agentgym.credit.protocols import Array
from agentgym.types import Episode


def credited(episode: Episode, plain: bool = False) -> Array:
    """1 on turns that may carry credit, 0 on refused ones and on repeats of (state, action); 1 throughout if plain."""
    seen: set[tuple[str, str | None]] = set()
    out = np.ones(len(episode.turns))
    for turn in () if plain else episode.turns:
        key = (turn.state_key or turn.observation, turn.action)
        out[turn.index] = turn.grounded and key not in seen
        if turn.grounded:
            seen.add(key)
    return out


def diagnose(
    episodes: Sequence[Episode], raw: Sequence[Array], credits: Sequence[Array], labels: Array
) -> dict[str, float]:
    """``last_share``: of |credit| on last turns (1: collapsed). ``refused`` and ``refused_raw``: mean credit of refused
    turns as paid and as the estimator has it. ``masked``: share of turns without credit by rule. ``spearman``: R_hat
    against R on this batch, which the estimator has not seen."""
    total = sum(float(np.abs(c).sum()) for c in credits)
    last = sum(float(np.abs(c[-1:]).sum()) for c in credits)
    refused = np.array([not turn.grounded for episode in episodes for turn in episode.turns], bool)
    flat_raw, flat_paid = (np.concatenate([np.zeros(0), *some]) for some in (raw, credits))
    sums = np.array([float(c.sum()) for c in credits])
    return {
        "last_share": last / total if total > 0 else 0.0,
        "refused": float(flat_paid[refused].mean()) if refused.any() else 0.0,
        "refused_raw": float(flat_raw[refused].mean()) if refused.any() else 0.0,
        "masked": float(np.mean([1 - credited(e).mean() for e in episodes if e.turns] or [0.0])),
        "credit_sum": float(sums.mean()) if len(sums) else 0.0,
        "spearman": spearman(sums, labels),
    }
