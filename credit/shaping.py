"""Potential-based reward shaping (Ng, Harada and Russell 1999)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agentgym.credit.components import CreditError
from agentgym.credit.protocols import Array


def shape(
    r: Array,
    potential: Array,
    gamma: float = 1.0,
    coef: float = 1.0,
    terminal: Literal["zero", "keep"] = "zero",
) -> Array:
    """``r'_t = r_t + coef * (gamma * P(s_{t+1}) - P(s_t))``: [T] rewards from [T] rewards and [T + 1] potentials.

    ``terminal="zero"`` puts ``P(s_T) = 0``, which leaves the optimal policy as it was; ``keep`` leaves a bonus
    ``coef * gamma^T * P(s_T)`` at the end, and so pays for ending in a promising state. Raises CreditError where the
    lengths do not fit or a value is not finite.
    """
    r, p = np.asarray(r, np.float64), np.array(potential, np.float64)
    if terminal not in ("zero", "keep"):
        raise CreditError(f"shaping: terminal must be 'zero' or 'keep', got {terminal!r}")
    if r.ndim != 1 or p.shape != (len(r) + 1,):
        raise CreditError(f"shaping: {len(r)} rewards need {len(r) + 1} potentials, got shape {p.shape}")
    if not np.isfinite(p).all() or not np.isfinite(r).all():
        raise CreditError("shaping: rewards and potentials must be finite")
    if terminal == "zero":
        p[-1] = 0.0
    shaped: Array = r + coef * (gamma * p[1:] - p[:-1])
    return shaped
