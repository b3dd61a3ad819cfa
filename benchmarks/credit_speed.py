"""Seconds of credit assignment for 1,000 trajectories x 20 turns; target: at most 50 ms (no model involved).

    python benchmarks/credit_speed.py [--json OUT]

Reports CPU milliseconds, median of 7 with minimum and maximum.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np

from agentgym.credit import CreditPipeline, assign, project
from agentgym.tokens import TokenRow
from agentgym.types import Episode, Group, Task, Termination, Turn

TARGET_MS = 50.0


def make_groups(trajectories: int, turns: int, size: int = 8, tokens: int = 12) -> list[Group]:
    """Groups with random outcomes; each turn has ``tokens`` observation and as many sampled tokens."""
    rng = np.random.default_rng(0)
    index = np.repeat(np.arange(turns, dtype=np.int32), 2 * tokens)
    mask = np.tile(np.repeat([False, True], tokens), turns)
    length = len(index)
    groups = []
    for g in range(trajectories // size):
        task = Task("bench", f"task {g}")
        episodes = []
        for i in range(size):
            row = TokenRow(
                np.zeros(length, np.int32),
                mask,
                np.zeros(length, np.float32),
                np.where(mask, index, -1).astype(np.int32),
            )
            record = [
                Turn(
                    t,
                    "",
                    "",
                    "",
                    valid=bool(rng.random() < 0.9),
                    row=0,
                    start=(2 * t + 1) * tokens,
                    end=(2 * t + 2) * tokens,
                )
                for t in range(turns)
            ]
            won = bool(rng.random() < 0.5)
            ended = Termination.ENV_DONE if won else Termination.MAX_TURNS
            episodes.append(Episode(task, i, i, record, ended, float(won), won, rows=[row]))
        groups.append(Group(task, episodes))
    return groups


def measure(work: Callable[[], object], repeats: int = 7) -> dict[str, float]:
    """CPU milliseconds of ``work``: median, minimum, maximum."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(1000 * (time.process_time() - start))
    return {"median_ms": statistics.median(times), "min_ms": min(times), "max_ms": max(times)}


def clear(groups: list[Group]) -> None:
    """Forget recorded components, so that a pipeline can run again."""
    for group in groups:
        for episode in group:
            for turn in episode.turns:
                turn.rewards = {"env": 0.0}


def main() -> None:
    """Measure every estimator, the whole pipeline with metrics, and the projection."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", default="", help="also write the figures here")
    out = parser.parse_args().json
    figures: dict[str, dict[str, float]] = {}
    for turns in (20, 50):
        groups = make_groups(1000, turns)
        clear(groups)
        for name in ("grpo", "rloo", "discounted_return"):
            pipeline = CreditPipeline(["invalid_penalty"], name)

            def run(pipeline: CreditPipeline = pipeline, groups: list[Group] = groups) -> None:
                pipeline.run(groups)
                clear(groups)

            figures[f"{name} + invalid_penalty, 1000 x {turns}"] = measure(run)
        advantages = assign(groups)

        def tokens(groups: list[Group] = groups, advantages: list[list[np.ndarray]] = advantages) -> None:
            for group, rows in zip(groups, advantages, strict=True):
                for episode, values in zip(group, rows, strict=True):
                    project(episode, values)

        figures[f"project, 1000 x {turns}"] = measure(tokens)
    for name, found in figures.items():
        print(f"{name:<46} {found['median_ms']:7.1f} ms  ({found['min_ms']:.1f} - {found['max_ms']:.1f})")
    if out:
        with open(out, "w", encoding="utf-8") as file:
            json.dump({"target_ms": TARGET_MS, "figures": figures}, file, indent=1)


if __name__ == "__main__":
    main()
