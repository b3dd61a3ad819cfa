"""Does the native ALFWorld engine show exactly what the real one shows? One command, exit code 1 if not.

    python benchmarks/alfworld_parity.py --python /path/to/a/python/with/alfworld

Plays random commands (3 in 4 of them change something, 1 in 20 is nonsense) in both engines and compares every
observation, every admissible list and the won flag. Games are generated ones of all presets, or official ones with
``--split valid_unseen`` and ``AGENTGYM_DATA`` set.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from agentgym.environments.alfworld.data import data_problem, data_tasks
from agentgym.environments.alfworld.engine import Game
from agentgym.environments.alfworld.generated import GENERATED_SPLITS, generated_problem, generated_tasks, is_generated
from agentgym.environments.alfworld.replay import first_difference, replay, sample_actions, transcript
from agentgym.environments.alfworld.world import World
from agentgym.errors import AgentGymError
from agentgym.seeding import python_rng
from agentgym.types import Task

PRESETS = ("tiny", "small", "full")


def choose(split: str, games: int, seed: int) -> list[Task]:
    """The tasks to compare: generated ones from all presets in turn, or a seeded sample of an official split."""
    if split in GENERATED_SPLITS:
        shares = [games // 3 + (k < games % 3) for k in range(3)]
        return [
            task
            for preset, n in zip(PRESETS, shares, strict=True)
            if n
            for task in generated_tasks(split, n, seed=seed, preset=preset)
        ]
    tasks = list(data_tasks(split, None))
    return python_rng("alfworld parity", split, seed).sample(tasks, min(games, len(tasks)))


def compare(tasks: Sequence[Task], python: str, steps: int, seed: int, timeout_s: float) -> list[str]:
    """One line per game that differs."""
    native: list[Game] = []
    jobs = []
    for task in tasks:
        game = Game(World(generated_problem(task) if is_generated(task) else data_problem(task, None)))
        native.append(game)
        jobs.append((task, sample_actions(game, python_rng("alfworld parity", task.id, seed), steps)))
    results = replay(jobs, python, timeout_s)
    differences = []
    for game, (task, actions), result in zip(native, jobs, results, strict=True):
        difference = first_difference(transcript(game, actions), result["rows"])
        if difference:
            differences.append(f"{task.split} {task.name}: {difference}")
    return differences


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; 0 if all games agree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--python", required=True, help="a Python with alfworld and textworld[pddl]")
    parser.add_argument("--split", default="generated", help="generated, or an official split")
    parser.add_argument("--games", type=int, default=20)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds for the real engine")
    options = parser.parse_args(arguments)
    try:
        tasks = choose(options.split, options.games, options.seed)
        differences = compare(tasks, options.python, options.steps, options.seed, options.timeout)
    except AgentGymError as error:
        print(error, file=sys.stderr)
        return 2
    for line in differences:
        print(line)
    print(
        f"{len(tasks) - len(differences)} of {len(tasks)} games agree over {options.steps} random steps each "
        f"(split {options.split}): observation, admissible commands, won"
    )
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
