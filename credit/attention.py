"""Attention-based credit, ABC: the outcome spread over turns by what the reward model's last token attends to.

A function only: it needs attention weights of the finished text, which no service of a trainer offers.
"""

from __future__ import annotations

import numpy as np

from agentgym.credit.components import CreditError
from agentgym.credit.protocols import Array


def attention_redistribution(outcome: float, attention: Array, beta: float = 0.5) -> Array:
    """``r_t = (1 - beta) * R * 1[t last] + beta * R * a_t``, ``a`` = attention summed over each turn's tokens,
    renormalised over turns; the sum over turns is R.

    ``attention``: last layer, mean over heads, the last token's row; >= 0. Attention that is 0 everywhere says nothing,
    and everything stays on the last turn. It looks at the finished text, so it is no potential of the state and biases
    the gradient. Raises CreditError for negative or non-finite attention, and for beta outside [0, 1].
    """
    weights = np.asarray(attention, np.float64)
    if not 0 <= beta <= 1 or not np.isfinite(weights).all() or (weights < 0).any():
        raise CreditError(f"attention credit: beta in [0, 1] and finite attention >= 0; got beta {beta}, {weights}")
    if not len(weights):
        return weights
    total = float(weights.sum())
    last = np.zeros(len(weights))
    last[-1] = 1.0
    share = weights / total if total > 0 else last
    spread: Array = outcome * ((1 - beta) * last + beta * share)
    return spread
