"""Milliseconds of credit assignment for 1,000 trajectories x 20 and x 50 turns; target: at most 50 ms at 20 turns.

    python benchmarks/credit_speed.py [--json OUT] [--only WORD]

Groups of 8, 12 sampled tokens a turn, about 30 states a task; no model is involved. Three tables, in CPU milliseconds,
median of 7 with minimum and maximum: every estimator alone, every estimator in a whole pipeline (with one rewarder
and all metrics), and every module that learns nothing, in a pipeline with ``discounted_return``. What cannot be built
is named.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from agentgym.credit import CreditPipeline, project
from agentgym.credit.numerics import outcome_values
from agentgym.credit.protocols import Services, TokenRagged, Values
from agentgym.credit.registry import make_estimator
from agentgym.errors import AgentGymError
from agentgym.tokens import TokenRow
from agentgym.types import Episode, Group, Task, Termination, Turn

TARGET_MS = 50.0
TOKENS = 12
STATES = 30
NAMES = tuple(f"step {k}" for k in range(4))

ESTIMATORS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("grpo", {}),
    ("rloo", {}),
    ("discounted_return", {}),
    ("reinforce_pp", {}),
    ("reinforce_pp", {"baseline": "group", "gamma": 0.97}),
    ("gae", {}),
    ("gae", {"level": "token"}),
    ("gae", {"level": "bilevel"}),
    ("gigpo", {}),
    ("gigpo", {"norm": "mean_std", "first_visit": True}),
    ("hgpo", {}),
    ("igpo", {}),
    ("igpo", {"norm": "joint"}),
)

#: what a recipe lists; each is measured with discounted_return. Modules that learn, or ask a model, are left out
CREDIT: tuple[list[Any], ...] = (
    [],
    ["invalid_penalty"],
    ["grounding_penalty"],
    ["invalid_penalty", "grounding_penalty"],
    ["milestones"],
    [{"milestones": {"payment": "once"}}],
    ["milestones", "gated"],
    ["retro"],
    ["milestones", {"delta": {"component": "milestone"}}],
    ["milestones", {"clip": {"component": "milestone"}}],
    ["milestones", {"preference": {"component": "milestone"}}],
    ["milestones", {"shuffled": {"component": "milestone"}}],
    ["curiosity"],
)


def make_groups(trajectories: int, turns: int, size: int = 8, tokens: int = TOKENS) -> list[Group]:
    """Groups with random outcomes; each turn has ``tokens`` observation and as many sampled tokens."""
    rng = np.random.default_rng(0)
    index = np.repeat(np.arange(turns, dtype=np.int32), 2 * tokens)
    mask = np.tile(np.repeat([False, True], tokens), turns)
    owner = np.where(mask, index, -1).astype(np.int32)
    groups = []
    for g in range(trajectories // size):
        task = Task("bench", f"task {g}")
        episodes = []
        for i in range(size):
            zeros = np.zeros(len(index), np.int32)
            row = TokenRow(zeros, mask, zeros.astype(np.float32) - 1, owner)
            won = bool(rng.random() < 0.5)
            ended = Termination.ENV_DONE if won else Termination.MAX_TURNS
            record = _turns(rng, turns, tokens)
            episodes.append(Episode(task, i, i, record, ended, float(won), won, milestone_names=NAMES, rows=[row]))
        groups.append(Group(task, episodes))
    return groups


def _turns(rng: np.random.Generator, turns: int, tokens: int) -> list[Turn]:
    valid, grounded = rng.random(turns) < 0.9, rng.random(turns) < 0.9
    states, reached = rng.integers(STATES, size=turns + 1), np.sort(rng.integers(len(NAMES) + 1, size=turns))
    return [
        Turn(
            t,
            f"You are in room {states[t]}. On the desk you see a mug and a lamp.",
            "r",
            "a",
            next_observation=f"You are in room {states[t + 1]}. On the desk you see a mug and a lamp.",
            state_key=f"room {states[t]}",
            valid=bool(valid[t]),
            grounded=bool(grounded[t]),
            milestones=NAMES[: reached[t]],
            row=0,
            start=(2 * t + 1) * tokens,
            end=(2 * t + 2) * tokens,
            sampled_tokens=tokens,
        )
        for t in range(turns)
    ]


class Critic:
    """The service of a trainer, with values made beforehand: the critic's own time is not measured."""

    def __init__(self, groups: list[Group]) -> None:
        rng = np.random.default_rng(1)
        self.made: TokenRagged = [
            [[rng.normal(size=turn.end - turn.start) for turn in episode.turns] for episode in group]
            for group in groups
        ]

    def values(self, groups: object) -> TokenRagged:
        return self.made

    def fit(self, groups: object, targets: TokenRagged) -> dict[str, float]:
        return {}


def measure(work: Callable[[], object], after: Callable[[], object] = lambda: None) -> dict[str, float]:
    """CPU milliseconds of ``work``: median, minimum, maximum of 7 after one to warm up; ``after`` is not counted."""
    times = []
    for _ in range(8):
        start = time.process_time()
        work()
        times.append(1000 * (time.process_time() - start))
        after()
    return {"median_ms": statistics.median(times[1:]), "min_ms": min(times[1:]), "max_ms": max(times[1:])}


def clear(groups: list[Group]) -> None:
    """Forget recorded components, so that a pipeline can run again."""
    for group in groups:
        for episode in group:
            for turn in episode.turns:
                turn.rewards = {"env": 0.0}


def label(entry: Any) -> str:
    """A name with its options, short."""
    name, options = entry if isinstance(entry, tuple) else (entry, {})
    if isinstance(entry, dict):
        ((name, options),) = entry.items()
    return f"{name}({', '.join(f'{k}={v}' for k, v in options.items())})" if options else str(name)


def measure_all(turns: int, only: str) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Figures by name, and what was skipped with the reason."""
    groups = make_groups(1000, turns)
    clear(groups)
    services = Services({"critic": Critic(groups)})
    values = outcome_values(groups)
    values = Values(
        values.total, values.dense, values.outcome,
        [[np.array([turn[0] for turn in episode]) for episode in group] for group in services.offered["critic"].made],
        services.offered["critic"].made,
    )  # fmt: skip
    figures: dict[str, dict[str, float]] = {}
    skipped: dict[str, str] = {}

    def note(name: str, prepare: Callable[[], Callable[[], object]]) -> None:
        if only not in name:
            return
        try:
            figures[f"{name}, 1000 x {turns}"] = measure(prepare(), lambda: clear(groups))
        except (AgentGymError, ImportError, TypeError) as error:
            skipped[name] = str(error).splitlines()[0]

    def alone(name: str, options: dict[str, Any]) -> Callable[[], object]:
        estimator = make_estimator(name, options)
        return lambda: estimator.compute(groups, values)

    def piped(credit: list[Any], name: str, options: dict[str, Any]) -> Callable[[], object]:
        pipeline = CreditPipeline(credit, name, options, services=services)
        return lambda: pipeline.run(groups)

    for name, options in ESTIMATORS:
        note(f"alone: {label((name, options))}", lambda n=name, o=options: alone(n, o))
    for name, options in ESTIMATORS:
        note(
            f"pipeline: invalid_penalty, {label((name, options))}",
            lambda n=name, o=options: piped(["invalid_penalty"], n, o),
        )
    for credit in CREDIT:
        note(
            f"module: {' + '.join(map(label, credit)) or 'outcome'}", lambda c=credit: piped(c, "discounted_return", {})
        )
    note(
        "project",
        lambda: (
            lambda: [
                project(e, a) for g, r in zip(groups, values.total, strict=True) for e, a in zip(g, r, strict=True)
            ]
        ),
    )
    return figures, skipped


def main() -> None:
    """Measure, print, and write the figures where ``--json`` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", default="", help="also write the figures here")
    parser.add_argument("--only", default="", help="only what has this word in its name")
    arguments = parser.parse_args()
    figures: dict[str, dict[str, float]] = {}
    skipped: dict[str, str] = {}
    for turns in (20, 50):
        found, missing = measure_all(turns, arguments.only)
        figures, skipped = figures | found, skipped | missing
    for name, found in figures.items():
        over = "  over the target" if name.endswith("x 20") and found["median_ms"] > TARGET_MS else ""
        print(f"{name:<76} {found['median_ms']:7.1f} ms  ({found['min_ms']:.1f} - {found['max_ms']:.1f}){over}")
    for name, reason in skipped.items():
        print(f"skipped {name}: {reason}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"target_ms": TARGET_MS, "figures": figures, "skipped": skipped}, file, indent=1)


if __name__ == "__main__":
    main()
