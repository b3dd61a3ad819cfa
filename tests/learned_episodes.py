"""Hand-made episodes for tests of learned credit: a chain of deeds among idle moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.types import Episode, Group, Task, Termination, Turn


def make(
    actions: Sequence[str],
    *,
    task: str = "t",
    index: int = 0,
    success: bool = False,
    outcome: float | None = None,
    refused: Sequence[int] = (),
    milestones: Sequence[tuple[str, ...]] = (),
    names: tuple[str, ...] = (),
    observations: Sequence[str] = (),
    termination: Termination | None = None,
) -> Episode:
    """One episode; turn t acts in ``observations[t]`` (default: a counter, so that no turn repeats)."""
    seen = list(observations) or [f"room {t}" for t in range(len(actions) + 1)]
    turns = [
        Turn(
            t, seen[t], action, action, seen[min(t + 1, len(seen) - 1)], seen[t],
            grounded=t not in refused, milestones=milestones[t] if milestones else (),
        )
        for t, action in enumerate(actions)
    ]  # fmt: skip
    ended = termination or (Termination.ENV_DONE if success else Termination.MAX_TURNS)
    score = float(success) if outcome is None else outcome
    return Episode(Task("fake", task), index, index, turns, ended, score, success, milestone_names=names)


def only_turn_matters(key: int, turns: int, tasks: int, per_task: int = 4, seed: int = 0) -> list[Group]:
    """Success if and only if turn ``key`` pulls the lever; all other turns, the last one too, say nothing."""
    rng = np.random.default_rng(seed)
    groups = []
    for n in range(tasks):
        episodes = []
        for i in range(per_task):
            win = bool(rng.integers(2))
            actions = [f"walk {rng.integers(4)}" for _ in range(turns)]
            actions[key] = "pull lever" if win else "push lever"
            ended = Termination.ENV_DONE
            episodes.append(make(actions, task=f"lever {n}", index=i, success=win, termination=ended))
        groups.append(Group(episodes[0].task, episodes))
    return groups


DEEDS = ("take key", "open chest", "take gem", "place gem")


def chain(tasks: int, per_task: int = 4, seed: int = 0, go_on: float = 0.85) -> list[Group]:
    """Four deeds in order among idle moves; after each, the attempt may stall. The last deed ends in success."""
    rng = np.random.default_rng(seed)
    groups = []
    for n in range(tasks):
        episodes = []
        for i in range(per_task):
            reached = 0
            while reached < len(DEEDS) and rng.random() < go_on:
                reached += 1
            won = reached == len(DEEDS)
            actions = [a for deed in DEEDS[:reached] for a in (f"go {rng.integers(4)}", deed)]
            actions += [f"go {rng.integers(4)}" for _ in range(0 if won else rng.integers(1, 4))]
            rooms = [f"room {rng.integers(30)}" for _ in range(len(actions) + 1)]  # say nothing about the time
            episodes.append(make(actions, task=f"chain {n}", index=i, success=won, observations=rooms))
        groups.append(Group(episodes[0].task, episodes))
    return groups
