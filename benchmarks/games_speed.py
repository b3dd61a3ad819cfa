"""Speed of the small games: steps, resets and generation, FrozenLake beside bare Gymnasium.

CPU time of one process; medians of several repetitions, so that other work on the machine counts little. Actions are
drawn beforehand: what is measured is the environment alone. Writes ``benchmarks/results/games_speed.json``.

    python benchmarks/games_speed.py
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from common import cpu_us, save

import agentgym
from agentgym import Environment, Task
from agentgym.environments.frozenlake import ACTIONS
from agentgym.environments.sokoban.generator import make_room
from agentgym.seeding import python_rng

TARGETS = {"steps_per_s": 20_000, "frozenlake_slowdown": 3.0, "sokoban_rooms_per_s": 500}
#: environment, constructor options, task options, share of the expert's actions
GAMES: tuple[tuple[str, str, dict[str, Any], dict[str, Any]], ...] = (
    ("frozenlake", "frozenlake", {}, {}),
    ("sokoban, RAGEN", "sokoban", {}, {}),
    ("sokoban, RetroAgent", "sokoban", {"variant": "retroagent"}, {}),
    ("sokoban, 8x8, 2 boxes", "sokoban", {}, {"size": 8, "boxes": 2, "max_steps": 40}),
    ("minesweeper", "minesweeper", {}, {}),
    ("bandit", "bandit", {}, {}),
    ("countdown", "countdown", {}, {}),
    ("24", "countdown", {}, {"game": "24"}),
)


def script(env: Environment, task: Task, turns: int = 30) -> list[str]:
    """The actions of one episode: half the expert's, half at random."""
    rng, observation, actions = python_rng("games speed", task.seed), env.reset(task), []
    for _ in range(turns):
        listed = observation.admissible
        actions.append(rng.choice(listed) if listed and rng.random() < 0.5 else env.expert() or "Up")
        step = env.step(actions[-1])
        observation = step.observation
        if step.terminated:
            break
    return actions


def stepping(env: Environment, jobs: list[tuple[Task, list[str]]], rounds: int) -> Callable[[], int]:
    """Play all jobs ``rounds`` times; counts steps. Resets are included: short games consist of them."""

    def run() -> int:
        count = 0
        for _ in range(rounds):
            for task, actions in jobs:
                env.reset(task)
                for action in actions:
                    env.step(action)
                count += len(actions)
        return count

    return run


def resetting(env: Environment, tasks: list[Task]) -> Callable[[], int]:
    """Resets alone."""

    def run() -> int:
        for task in tasks:
            env.reset(task)
        return len(tasks)

    return run


def bare(jobs: list[tuple[Task, list[str]]], rounds: int) -> Callable[[], int]:
    """The same FrozenLake episodes in Gymnasium's own environment."""
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

    numbered = [
        (FrozenLakeEnv(desc=task.data["desc"], success_rate=0.8), task.seed, [ACTIONS.index(a) for a in actions])
        for task, actions in jobs
    ]

    def run() -> int:
        count = 0
        for _ in range(rounds):
            for env, seed, actions in numbered:
                env.reset(seed=seed)
                for action in actions:
                    env.step(action)
                count += len(actions)
        return count

    return run


def per_second(microseconds: dict[str, float]) -> float:
    """Units per second from the median."""
    return round(1e6 / microseconds["median"])


def rooms(size: int, boxes: int) -> Callable[[], int]:
    """Generate 100 rooms; drawn ones that are refused count as time, not as rooms."""

    def run() -> int:
        rng, made = python_rng("games speed rooms", size, boxes), 0
        while made < 100:
            made += make_room(rng, size, boxes, 1, 100) is not None
        return made

    return run


def measure(repeats: int, rounds: int) -> dict[str, Any]:
    """All figures."""
    figures: dict[str, Any] = {}
    for label, name, options, knobs in GAMES:
        env = agentgym.make(name, **options)
        tasks = list(env.tasks("train", n=32, **knobs))
        jobs = [(task, script(env, task)) for task in tasks]
        figures[label] = {
            "steps_per_s": per_second(cpu_us(stepping(env, jobs, rounds), repeats)),
            "reset_us": round(cpu_us(resetting(env, tasks * 10), repeats)["median"], 1),
            "tasks_per_s": per_second(cpu_us(lambda e=env, k=knobs: len(e.tasks("train", n=64, **k)), 3)),  # type: ignore[misc]
        }
        if name == "frozenlake":
            figures[label]["gymnasium_steps_per_s"] = per_second(cpu_us(bare(jobs, rounds), repeats))
    for size, boxes in ((6, 1), (6, 2), (8, 2)):
        figures[f"sokoban rooms/s, {size}x{size}, boxes {boxes}"] = per_second(cpu_us(rooms(size, boxes), repeats))
    return figures


def main() -> int:
    """Measure, print, write; 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    figures = measure(options.repeats, options.rounds)
    lake = figures["frozenlake"]
    met = {
        "steps_per_s": all(figures[label]["steps_per_s"] >= TARGETS["steps_per_s"] for label, *_ in GAMES),
        "frozenlake_slowdown": lake["gymnasium_steps_per_s"] / lake["steps_per_s"] <= TARGETS["frozenlake_slowdown"],
        "sokoban_rooms_per_s": figures["sokoban rooms/s, 6x6, boxes 1"] >= TARGETS["sokoban_rooms_per_s"],
    }
    save("games_speed", {"figures": figures, "targets": TARGETS, "met": met})
    return 0 if all(met.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
