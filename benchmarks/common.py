"""What the benchmarks share: timing, the trivial environment, the result files."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentgym import Environment, EnvironmentSpec, Observation, Step, Task, TaskSet

RESULTS = Path(__file__).parent / "results"


class Echo(Environment):
    """The trivial text environment of the comparison with peers: ten turns, no work."""

    spec = EnvironmentSpec("echo", max_turns=10)

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        return TaskSet([Task("echo", f"t{i}", split, seed=i) for i in range(options.get("count", 1))])

    def reset(self, task: Task) -> Observation:
        self.turn = 0
        return Observation("say something")

    def step(self, action: str) -> Step:
        self.turn += 1
        done = self.turn >= 10
        return Step(Observation(f"you said {action}"), 1.0 if done else 0.0, done, done)


def cpu_us(function: Callable[[], int], repeats: int = 7) -> dict[str, float]:
    """CPU microseconds per unit: ``function`` does some units of work and says how many. Median, min, max."""
    figures = []
    for _ in range(repeats):
        begun = time.process_time()
        units = function()
        figures.append((time.process_time() - begun) / units * 1e6)
    return {"median": statistics.median(figures), "min": min(figures), "max": max(figures)}


def save(name: str, figures: dict[str, Any]) -> None:
    """Print the figures and keep them, with the machine, in ``benchmarks/results/NAME.json``."""
    machine = {"cpus": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    document = {"benchmark": name, "machine": machine, **figures}
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(document, indent=2, default=lambda value: round(float(value), 4))
    (RESULTS / f"{name}.json").write_text(text + "\n")
    print(text)
