"""How fast is the native ALFWorld engine, and how fast the real one, on the same games and the same commands?

    python benchmarks/alfworld_speed.py --reference-python /path/to/a/python/with/alfworld

Everything is CPU time of one process, the median of 7 repetitions; the real engine runs in the other Python within the
same run. Prints a table and writes ``benchmarks/results/alfworld_speed.json``. Without ``--reference-python`` only the
native side is measured. Official games are used where ``AGENTGYM_DATA`` is set, else generated ones.

*cold*: the first episode of a freshly loaded game, when no list of commands has been built yet; *warm*: a later episode
of the same game. The ratios use the cold figure. Both engines make the sorted admissible list at every step.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from agentgym.environments.alfworld.data import data_problem, data_tasks
from agentgym.environments.alfworld.engine import Game
from agentgym.environments.alfworld.env import ALFWorld
from agentgym.environments.alfworld.generated import generated_problem, generated_tasks, is_generated
from agentgym.environments.alfworld.generator import generate
from agentgym.environments.alfworld.pddl import problem_text
from agentgym.environments.alfworld.planner import Planner
from agentgym.environments.alfworld.problem import Problem, parse_problem
from agentgym.environments.alfworld.replay import replay, sample_actions
from agentgym.environments.alfworld.world import World
from agentgym.errors import AgentGymError, DataError
from agentgym.seeding import python_rng
from agentgym.types import Task

REPETITIONS = 7
RESULT = Path(__file__).resolve().parent / "results" / "alfworld_speed.json"
#: what the project promises; the first two are ratios to the real engine
TARGETS = {
    "step_ratio": 300.0,
    "reset_ratio": 1000.0,
    "steps_per_s": 6000.0,
    "generated_games_per_s": 200.0,
    "plan_ms": 20.0,
}


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def choose(games: int) -> tuple[str, list[Task]]:
    """The split and a seeded sample of its tasks: official where there are any."""
    try:
        tasks = list(data_tasks("valid_seen", None))
        return "valid_seen", python_rng("alfworld speed").sample(tasks, games)
    except DataError:
        return "generated", list(generated_tasks("generated", games, preset="full"))


def problem_of(task: Task) -> Problem:
    """The game of a task."""
    return generated_problem(task) if is_generated(task) else data_problem(task, None)


def play(env: ALFWorld, task: Task, actions: Sequence[str]) -> tuple[float, int]:
    """CPU seconds of the steps alone and their number; the episode ends where the game is won."""
    env.reset(task)
    begin = time.process_time()
    for number, action in enumerate(actions, 1):
        if env.step(action).terminated:
            return time.process_time() - begin, number
    return time.process_time() - begin, len(actions)


def until_won(game: Game, actions: list[str]) -> list[str]:
    """The commands up to the one that wins."""
    game.reset()
    for number, action in enumerate(actions, 1):
        game.step(action)
        if game.won:
            return actions[:number]
    return actions


def native(tasks: Sequence[Task], jobs: Sequence[tuple[Task, list[str]]]) -> dict[str, float]:
    """Load, reset and step of our engine."""
    problems = [problem_of(task) for task in tasks]
    texts = [problem_text(problem) for problem in problems]
    env = ALFWorld()
    load, reset, cold, warm = [], [], [], []
    for _ in range(REPETITIONS):
        load.append(
            timed(lambda: [World(parse_problem(t, p.task)) for t, p in zip(texts, problems, strict=True)]) / len(tasks)
        )
        fresh = [Game(World(problem)) for problem in problems]
        seconds = timed(
            lambda fresh=fresh: [  # type: ignore[misc]
                (game.step(action), game.admissible)
                for game, (_, actions) in zip(fresh, jobs, strict=True)
                for action in actions
            ]
        )
        cold.append(sum(len(actions) for _, actions in jobs) / seconds)
        for task in tasks:
            env.reset(task)
        reset.append(timed(lambda: [env.reset(task) for task in tasks for _ in range(50)]) / (50 * len(tasks)))
        runs = [play(env, task, actions) for task, actions in jobs for _ in range(4)]
        warm.append(sum(count for _, count in runs) / sum(seconds for seconds, _ in runs))
    return {
        "load_ms": 1e3 * median(load),
        "reset_ms": 1e3 * median(reset),
        "steps_per_s_cold": median(cold),
        "steps_per_s_warm_environment": median(warm),
    }


def reference(python: str, jobs: Sequence[tuple[Task, list[str]]]) -> dict[str, Any]:
    """The same of the real engine."""
    results = replay(list(jobs) * REPETITIONS, python, timeout_s=3600.0)
    size = len(jobs)
    rounds = [results[k * size : (k + 1) * size] for k in range(REPETITIONS)]
    count = sum(len(actions) for _, actions in jobs)
    version = "from importlib.metadata import version as v; print(v('textworld'), v('alfworld'))"
    shown = subprocess.run([python, "-c", version], capture_output=True, text=True, check=False).stdout.split()
    return {
        "load_ms": 1e3 * median(sum(r["load_s"] for r in part) / size for part in rounds),
        "reset_ms": 1e3 * median(sum(r["reset_s"] for r in part) / size for part in rounds),
        "steps_per_s": median(count / sum(r["step_s"] for r in part) for part in rounds),
        "versions": dict(zip(("textworld", "alfworld"), shown, strict=False)),
    }


def generator_and_planner(tasks: Sequence[Task]) -> dict[str, Any]:
    """Games per second by preset; milliseconds of a plan from the start and from the middle of random play."""
    speeds = {}
    for preset in ("tiny", "small", "full"):
        seconds = [
            timed(lambda preset=preset, r=r: [generate(1000 * r + k, preset) for k in range(100)])  # type: ignore[misc]
            for r in range(REPETITIONS)
        ]
        speeds[preset] = 100 / median(seconds)
    plans = []
    for task in tasks:
        game = Game(World(problem_of(task)))
        plans.append(timed(Planner(game).plan))
        for action in sample_actions(game, python_rng("alfworld speed", task.id), 40)[:20]:
            game.step(action)
            plans.append(timed(Planner(game).plan))
    return {
        "generated_games_per_s": speeds,
        "plan_ms": {"median": 1e3 * median(plans), "maximum": 1e3 * max(plans), "plans": len(plans)},
    }


def measure(python: str, games: int, steps: int) -> dict[str, Any]:
    """All figures of one run."""
    split, tasks = choose(games)
    jobs = []
    for task in tasks:
        game = Game(World(problem_of(task)))
        jobs.append((task, until_won(game, sample_actions(game, python_rng("alfworld speed", task.id), steps))))
    result: dict[str, Any] = {
        "what": "ALFWorld, native engine against TextWorld; CPU time of one process, medians of 7 repetitions",
        "python": platform.python_version(),
        "split": split,
        "games": games,
        "steps": sum(len(actions) for _, actions in jobs),
        "native": native(tasks, jobs),
        **generator_and_planner(tasks),
    }
    if python:
        real = result["reference"] = reference(python, jobs)
        ours = result["native"]
        result["ratio"] = {
            "load": real["load_ms"] / ours["load_ms"],
            "reset": real["reset_ms"] / ours["reset_ms"],
            "step": ours["steps_per_s_cold"] / real["steps_per_s"],
        }
    return result


def verdicts(result: dict[str, Any]) -> dict[str, bool]:
    """Which targets are met."""
    met = {
        "steps_per_s": result["native"]["steps_per_s_cold"] >= TARGETS["steps_per_s"],
        "generated_games_per_s": min(result["generated_games_per_s"].values()) >= TARGETS["generated_games_per_s"],
        "plan_ms": result["plan_ms"]["median"] < TARGETS["plan_ms"],
    }
    if "ratio" in result:
        met["step_ratio"] = result["ratio"]["step"] >= TARGETS["step_ratio"]
        met["reset_ratio"] = result["ratio"]["reset"] >= TARGETS["reset_ratio"]
    return met


def rounded(value: Any) -> Any:
    """Four significant digits."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--reference-python", default="", help="a Python with alfworld and textworld[pddl]")
    parser.add_argument("--games", type=int, default=4)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args(arguments)
    try:
        result = rounded(measure(options.reference_python, options.games, options.steps))
    except AgentGymError as error:
        print(error, file=sys.stderr)
        return 2
    result["targets"] = TARGETS
    result["met"] = verdicts(result)
    text = json.dumps(result, indent=2)
    print(text)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text + "\n", encoding="utf-8")
    return 0 if all(result["met"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
