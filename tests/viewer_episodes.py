"""Stores of episodes that attack the page, and a credit whose largest values are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from agentgym.store import EpisodeStore
from agentgym.tokens import TokenRow
from agentgym.types import Episode, Group, Task, Termination, Turn
from agentgym.viewer import Credit

#: markup, an end of every kind of block, terminal escapes, direction overrides, invisible and tag characters
ATTACK = (
    '<script>window.owned=1</script><img src=x onerror="window.owned=1"></script></pre><!-- ]]>'
    "<svg onload=window.owned=1>\x1b[2J\x1b]0;owned\x07 \u202egnp.exe\u202c\u2066x\u2069 zero\u200bwidth \u2028 "
    "\U000e0041 \ud800 ${`x`}"
)
#: a task's name can hold no lone surrogate
NAME = ATTACK.replace("\ud800", "")
KINDS = ("pick", "heat <b>", "")
TASKS, SIZE, TURNS = 3, 4, 5


def episode(task: int, index: int, turns: int = TURNS) -> Episode:
    """Solved where task + index is even; turn 2 attacks, turn 3 has no action."""
    solved = (task + index) % 2 == 0
    spans = [(4 + 6 * t, 7 + 6 * t) for t in range(turns)]
    length = 7 + 6 * turns
    mask, owner = np.zeros(length, bool), np.full(length, -1, np.int32)
    for t, (start, end) in enumerate(spans):
        mask[start:end], owner[start:end] = True, t
    logprobs = np.where(mask, -0.25, 0).astype(np.float32)
    row = TokenRow(np.arange(length, dtype=np.int32), mask, logprobs, owner)
    made = [
        Turn(
            t, f"you see door {t}" if t != 2 else ATTACK, f"<act>open {t}</act>" if t != 2 else ATTACK,
            f"open {t}" if t not in (2, 3) else (ATTACK if t == 2 else None), next_observation=f"you see door {t + 1}",
            valid=t != 3, grounded=t != 1, milestones=("seen",) if t >= 1 else (),
            rewards={"env": float(solved and t == turns - 1), ATTACK: 0.125}, row=0, start=spans[t][0], end=spans[t][1],
            prompt_tokens=4, sampled_tokens=3,
        )
        for t in range(turns)
    ]  # fmt: skip
    end = Termination.ENV_DONE if solved else (Termination.MAX_TURNS if index else Termination.ENV_ERROR)
    return Episode(
        Task("doors", f"task {task} {NAME if task == 1 else ''}", "test", task, KINDS[task]), index, 2**62 + 1, made,
        end, float(solved), solved, ("seen", ATTACK), [row], policy=ATTACK,
        error=ATTACK if end is Termination.ENV_ERROR else "",
    )  # fmt: skip


def write_store(path: Path, tasks: int = TASKS, size: int = SIZE, turns: int = TURNS) -> Path:
    with EpisodeStore(path) as store:
        for task in range(tasks):
            for index in range(size):
                store.append(episode(task % 3, index + size * (task // 3), turns))
    return path


def known_credit() -> Credit:
    """Small values but for two: +9 at task 2, episode 1, turn 4; -8 at task 0, episode 2, turn 0."""

    def assign(groups: list[Group]) -> list[list[list[float]]]:
        values = [[[0.1 * (t + 1) for t in range(len(e.turns))] for e in group] for group in groups]
        for group, per_episode in zip(groups, values, strict=True):
            for one, row in zip(group, per_episode, strict=True):
                if group.task.seed == 2 and one.index == 1:
                    row[4] = 9.0
                if group.task.seed == 0 and one.index == 2:
                    row[0] = -8.0
        return values

    return Credit(f"known {ATTACK}", assign, ("env",))
