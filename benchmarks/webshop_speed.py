"""How fast is the native WebShop, and how much memory does it hold?

    python benchmarks/webshop_speed.py

CPU time of one process, medians of 7 repetitions; loading and memory are measured in a fresh process. The 1,000
products of the original and its recorded episodes are used where ``AGENTGYM_DATA`` has them, else the generated
catalogue with the expert's and random actions. Prints a table and writes ``benchmarks/results/webshop_speed.json``;
the exit status is 1 if a target is missed. The figure that counts is taken cold: no query seen before, no page
prepared; *warm* is the same episodes again. The original makes about 65 steps per second (Flask and an HTML parser at
every step; measured on another machine, with Lucene replaced).
"""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from agentgym.environments.webshop import WebShop
from agentgym.environments.webshop.env import _SHELVES
from agentgym.errors import DataError
from agentgym.seeding import python_rng
from agentgym.types import Task

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common import save

REPETITIONS = 7
TARGETS = {"steps_per_s": 5000.0, "reset_ms": 1.0, "load_s": 2.0, "memory_mb": 150.0}
#: run in a fresh process: loads everything that a first search needs
LOADING = """
import json, os, sys, time
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
begin = time.process_time()
from agentgym.environments.webshop import WebShop
imported, before = time.process_time(), resident()
env = WebShop()
tasks = env.tasks(sys.argv[1])
listed = time.process_time()
env.reset(tasks[0])
env.step("search[red]")
ready = time.process_time()
print(json.dumps({"import_s": imported - begin, "tasks_s": listed - imported, "index_s": ready - listed,
                  "load_s": ready - imported, "memory_mb": resident() - before, "process_mb": resident()}))
"""


def loading(split: str) -> dict[str, float]:
    """Seconds and megabytes of getting ready, in a fresh process; the memory is what loading adds."""
    runs = []
    for _ in range(REPETITIONS):
        done = subprocess.run([sys.executable, "-c", LOADING, split], capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout))
    return {key: median(run[key] for run in runs) for key in runs[0]}


def recorded(env: WebShop) -> list[tuple[Task, list[str]]]:
    """The recorded episodes of the original, as tasks and actions."""
    root = os.environ.get("AGENTGYM_DATA", "")
    for folder in (Path(root) / "webshop", Path(root)):
        path = folder / "golden_episodes_seed42.jsonl.xz"
        if root and path.is_file():
            tasks = {task.name[:5]: task for split in ("test", "eval", "train") for task in env.tasks(split)}
            jobs = []
            with lzma.open(path, "rt", encoding="utf-8") as lines:
                for episode in map(json.loads, lines):
                    task = tasks.get(f"{episode['session']:05d}")
                    if task is not None:
                        jobs.append((task, [step["a"] for step in episode["steps"][1:]]))
            return jobs
    return []


def wandering(env: WebShop, split: str, episodes: int = 100, turns: int = 10) -> list[tuple[Task, list[str]]]:
    """The expert with every third action random."""
    jobs = []
    for task in env.tasks(split, n=episodes):
        rng = python_rng("webshop speed", task.id)
        observation, actions = env.reset(task), []
        for turn in range(turns):
            actions.append(rng.choice(list(observation.admissible or ())) if turn % 3 == 2 else env.expert() or "")
            step = env.step(actions[-1])
            if step.terminated:
                break
            observation = step.observation
        jobs.append((task, actions))
    return jobs


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def play(env: WebShop, jobs: list[tuple[Task, list[str]]]) -> tuple[float, int]:
    """CPU seconds of the steps alone and their number."""
    seconds, steps = 0.0, 0
    for task, actions in jobs:
        env.reset(task)
        begin = time.process_time()
        for action in actions:
            env.step(action)
        seconds += time.process_time() - begin
        steps += len(actions)
    return seconds, steps


def measure() -> dict[str, Any]:
    """All figures."""
    env = WebShop()
    try:
        split, jobs = "train", recorded(env)
        env.tasks("train")
    except DataError:
        split, jobs = "generated", []
    jobs = jobs or wandering(env, split)
    env.reset(jobs[0][0])
    catalogue = env._shop.catalogue if env._shop else None
    assert catalogue is not None
    queries = [action[7:-1].lower() for _, actions in jobs for action in actions if action.startswith("search[")]
    cold, warm, searches = [], [], []
    for _ in range(REPETITIONS):
        catalogue._searches.clear()
        _SHELVES._made.clear()
        env = WebShop()
        cold.append(play(env, jobs))
        warm.append(play(env, jobs))
        searches.append(timed(lambda: [catalogue.index.search(query) for query in queries]) / len(queries))
    reset = [timed(lambda: [env.reset(task) for task, _ in jobs]) / len(jobs) for _ in range(REPETITIONS)]
    return {
        "split": split,
        "products": len(catalogue),
        "episodes": len(jobs),
        "steps_per_s": median(steps / seconds for seconds, steps in cold),
        "steps_per_s_warm": median(steps / seconds for seconds, steps in warm),
        "reset_ms": 1e3 * median(reset),
        "search_ms": 1e3 * median(searches),
        **loading(split),
    }


def main() -> int:
    """Measure, print, write; 1 if a target is missed."""
    figures = measure()
    met = {
        name: figures[name] >= target if name == "steps_per_s" else figures[name] < target
        for name, target in TARGETS.items()
    }
    save("webshop_speed", {**figures, "targets": TARGETS, "met": met})
    return 0 if all(met.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
