"""Tells when a policy learns to collect dense rewards instead of solving tasks: dense up, outcome down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

WINDOW = 30  # steps; its later half is compared with its earlier half
SIGMAS = 2.0  # a mean has moved when it differs by so many standard errors of the difference
OUTCOME = "credit/outcome_mean"


class HackingAlarm:
    """Watches the means of paid dense components beside the outcome, over the last WINDOW steps.

    A warning, not a stop: tasks get harder by chance, and a curriculum makes both move. Gates (``gated``) and sums
    that telescope are the cure.
    """

    def __init__(self, components: Sequence[str]) -> None:
        self.components = list(components)
        self.kept: dict[str, list[float]] = {name: [] for name in (*self.components, OUTCOME)}
        self.silent = 0  # steps until the next word: one window is told once

    def check(self, metrics: Mapping[str, float], note: Callable[[str], None]) -> dict[str, float]:
        """Look at one more step; ``alarm/NAME`` is 1 where component NAME rises while the outcome falls."""
        if not self.components or OUTCOME not in metrics:
            return {}
        for name in self.kept:
            key = name if name == OUTCOME else f"credit/{name}/mean"
            self.kept[name] = [*self.kept[name], float(metrics.get(key, 0.0))][-WINDOW:]
        self.silent = max(0, self.silent - 1)
        falls = moved(self.kept[OUTCOME]) < -SIGMAS
        out = {f"alarm/{name}": float(falls and moved(self.kept[name]) > SIGMAS) for name in self.components}
        found = [name for name in self.components if out[f"alarm/{name}"]]
        if found and not self.silent:
            self.silent = WINDOW
            note(
                f"WARNING: over the last {WINDOW} steps {', '.join(found)} rose while the outcome fell: the policy may "
                "be collecting dense rewards instead of solving tasks. Gate them (credit: [..., gated]), lower their "
                "weight, or see 'agentgym credit explain'."
            )
        return out

    def state_dict(self) -> dict[str, Any]:
        """For checkpoints."""
        return {"kept": self.kept, "silent": self.silent}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From checkpoints; components that were not there before begin anew."""
        for name, values in state.get("kept", {}).items():
            if name in self.kept:
                self.kept[name] = [float(value) for value in values]
        self.silent = int(state.get("silent", 0))


def moved(values: Sequence[float]) -> float:
    """How many standard errors the later half's mean lies above the earlier half's; 0 before the window is full."""
    if len(values) < WINDOW:
        return 0.0
    early, late = np.array(values[: WINDOW // 2]), np.array(values[WINDOW // 2 :])
    error = float((early.var(ddof=1) / len(early) + late.var(ddof=1) / len(late)) ** 0.5)
    difference = float(late.mean() - early.mean())
    return difference / error if error > 0 else float(np.sign(difference)) * np.inf if difference else 0.0
