"""Speed of TextWorld here beside bare TextWorld: the same games, the same commands, in one run.

CPU time of one process; medians of several repetitions. ``bare`` is TextWorld's own environment with the text and the
score alone, ``listing`` the same with admissible commands, descriptions and inventory, which is what this environment
shows. Games are made first, if they are not in the cache. Needs the package textworld. Writes
``benchmarks/results/textworld_speed.json``.

    python benchmarks/textworld_speed.py
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from common import cpu_us, save

from agentgym import Task
from agentgym.environments.textworld import TextWorld
from agentgym.environments.textworld.library import module, version
from agentgym.seeding import python_rng

#: kind -> task options
GAMES: dict[str, dict[str, Any]] = {
    "coin_collector": {"level": 3},
    "simple": {"rewards": "dense"},
    "cooking": {"cook": True, "open": True},
}
INFOS = ("admissible_commands", "description", "inventory", "score", "moves", "won", "lost")


def script(env: TextWorld, task: Task, turns: int) -> list[str]:
    """Random admissible commands that do not end the game."""
    rng, observation, actions = python_rng("textworld speed", task.seed), env.reset(task), []
    for _ in range(turns):
        action = rng.choice(list(observation.admissible or ["look"]))
        step = env.step(action)
        if step.terminated:
            break
        actions.append(action)
        observation = step.observation
    return actions


def here(env: TextWorld, task: Task, actions: list[str]) -> Callable[[], int]:
    """Steps of this environment; the game is started outside of what is timed by the caller."""

    def run() -> int:
        for action in actions:
            env.step(action)
        return len(actions)

    env.reset(task)
    return run


def raw(game: Any, actions: list[str]) -> Callable[[], int]:
    """Steps of TextWorld's environment."""

    def run() -> int:
        for action in actions:
            game.step(action)
        return len(actions)

    game.reset()
    return run


def stepping(start: Callable[[], Callable[[], int]], repeats: int) -> float:
    """Steps a second of CPU time, the median; the reset before each repetition is not counted."""
    figures = sorted(cpu_us(start(), 1)["median"] for _ in range(repeats))
    return round(1e6 / figures[len(figures) // 2], 1)


def measure(repeats: int, turns: int) -> dict[str, Any]:
    """All figures."""
    textworld, figures = module(), {}
    for kind, options in GAMES.items():
        env = TextWorld()
        (task,) = env.tasks("valid", n=1, game=kind, **options)
        actions = script(env, task, turns)
        path = str(env._path(task))
        full = textworld.start(path, textworld.EnvInfos(**dict.fromkeys(INFOS, True)))
        bare = textworld.start(path, textworld.EnvInfos())
        figures[kind] = {
            "commands": len(actions),
            "steps_per_s": stepping(lambda e=env, t=task, a=actions: here(e, t, a), repeats),  # type: ignore[misc]
            "textworld_listing_steps_per_s": stepping(lambda g=full, a=actions: raw(g, a), repeats),  # type: ignore[misc]
            "textworld_bare_steps_per_s": stepping(lambda g=bare, a=actions: raw(g, a), repeats),  # type: ignore[misc]
            "reset_ms": round(cpu_us(lambda e=env, t=task: len(e.reset(t).text) and 1, repeats)["median"] / 1e3, 2),  # type: ignore[misc]
        }
        env.close()
    return figures


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--turns", type=int, default=40)
    options = parser.parse_args()
    figures = measure(options.repeats, options.turns)
    slower = max(f["textworld_listing_steps_per_s"] / f["steps_per_s"] for f in figures.values())
    save("textworld_speed", {"textworld": version(), "figures": figures, "slowdown": round(slower, 3)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
