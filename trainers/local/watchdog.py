"""Stops a run whose policy has broken, instead of letting it burn hours: degenerate text, lost action format.

Non-finite losses and gradients are caught where they arise (:mod:`agentgym.trainers.local.update`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from agentgym.trainers.local.optim import TrainingStopped
from agentgym.types import Episode

REPEATED = 0.95  # share of one token among all sampled ones that counts as degenerate
ENOUGH = 200  # sampled tokens before that share says anything
HEALTHY, COLLAPSED, PATIENCE = 0.5, 0.1, 3  # valid-action rate once reached; then below this for so many steps


class Watchdog:
    """Looks at every step's episodes; :meth:`check` raises TrainingStopped with what it saw and what to try."""

    def __init__(self) -> None:
        self.best_valid = 0.0
        self.low_steps = 0

    def check(self, episodes: Sequence[Episode], step: int) -> dict[str, float]:
        """Metrics of the text; raises when it is degenerate."""
        ran = [e for e in episodes if not e.termination.is_failure]
        if not ran:
            first = next((e.error for e in episodes if e.error), "no reason recorded")
            raise TrainingStopped(
                f"all {len(episodes)} episodes of RL step {step} failed to run, so there is nothing to train on. "
                f"The first: {first}"
            )
        share, token = top_token(ran)
        if share > REPEATED:
            raise TrainingStopped(
                f"degenerate text at RL step {step}: {share:.1%} of all sampled tokens are the id {token}. "
                "Resume from an earlier checkpoint with a lower rl.lr, or with rl.kl_coef > 0."
            )
        turns = [turn for e in ran for turn in e.turns]
        valid = sum(turn.valid for turn in turns) / max(1, len(turns))
        self.best_valid = max(self.best_valid, valid)
        self.low_steps = self.low_steps + 1 if self.best_valid >= HEALTHY and valid < COLLAPSED else 0
        if self.low_steps >= PATIENCE:
            raise TrainingStopped(
                f"the policy lost the action format: {valid:.1%} of its responses at RL step {step} hold an action "
                f"({self.best_valid:.1%} at best), for {PATIENCE} steps. Lower rl.lr, or set rl.invalid_penalty."
            )
        return {"train/top_token_share": share}

    def state_dict(self) -> dict[str, Any]:
        """For checkpoints."""
        return {"best_valid": self.best_valid, "low_steps": self.low_steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """From checkpoints."""
        self.best_valid, self.low_steps = float(state["best_valid"]), int(state["low_steps"])


def top_token(episodes: Sequence[Episode]) -> tuple[float, int]:
    """The most frequent sampled token's share and id; share 0 where fewer than ENOUGH tokens were sampled."""
    drawn = [row.ids[row.mask] for e in episodes for row in e.rows]
    ids = np.concatenate(drawn) if drawn else np.empty(0, np.int32)
    if len(ids) < ENOUGH:
        return 0.0, -1
    counts = np.bincount(ids)
    token = int(counts.argmax())
    return float(counts[token] / len(ids)), token
