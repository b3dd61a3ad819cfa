"""Mutation tasks out of two small packages of the index: how many, how fast, and are they all proved?

    python benchmarks/swe_tasks.py [--jobs 2] [--tasks 20] [PACKAGE==VERSION ...]

Fetches the source distributions by pip, makes ``--tasks`` tasks of each and proves every one with the fresh grader, in
the sandbox. Wall-clock and CPU seconds; target: 40 proved tasks within 300 seconds on two cores. The tasks are left in
``--out`` (default: a temporary folder that is removed); no third-party source is kept in the repository.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentgym.environments.swe.schema import SWETask
from agentgym.environments.swe.sources import campaign, subject, validate
from agentgym.environments.swe.sources.mutant import Rules
from agentgym.sandbox.grading import Grader

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common import save

PACKAGES = ["cachetools==6.2.0", "parse==1.20.2"]
TARGET = {"tasks": 40, "seconds": 300}


@contextlib.contextmanager
def measured(figures: dict[str, float], name: str) -> Iterator[None]:
    """Wall-clock and CPU seconds, those of the sandboxes' processes included."""
    start, cpu = time.monotonic(), _cpu()
    yield
    figures[f"{name}_seconds"] = figures.get(f"{name}_seconds", 0.0) + time.monotonic() - start
    figures[f"{name}_cpu_seconds"] = figures.get(f"{name}_cpu_seconds", 0.0) + _cpu() - cpu


def _cpu() -> float:
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


def make(package: str, n: int, jobs: int, seed: int, folder: Path, backend: str) -> dict[str, Any]:
    """Tasks of one package, and their proofs."""
    figures: dict[str, Any] = {"package": package}
    out = folder / f"{package.replace('==', '-')}.jsonl"
    with measured(figures, "prepare"):
        made = subject.prepare(package, seed, backend=backend)
    with measured(figures, "mutate"):
        done = campaign.run(made, Rules(subject.source_of(made, out)), out, n, jobs)
    with measured(figures, "validate"):
        proofs = validate.prove_all(done.tasks, out.parent, Grader(backend), jobs)
    figures |= {
        "tests": len(made.baseline.passing),
        "suite_cpu_seconds": made.baseline.cpu,
        "bugs": len(made.edits),
        "tried": sum(done.counts.values()),
        "verdicts": dict(sorted(done.counts.items())),
        "kinds": dict(sorted(Counter(_kind(made, task) for task in done.tasks).items())),
        "tasks": len(done.tasks),
        "valid": sum(proof.ok for proof in proofs),
        "problems": [f"{proof.task}: {problem}" for proof in proofs for problem in proof.problems],
        "f2p_median": sorted(len(task.FAIL_TO_PASS) for task in done.tasks)[len(done.tasks) // 2],
    }
    return figures


def _kind(made: subject.Subject, task: SWETask) -> str:
    """The kind of bug, looked up by the diff."""
    from agentgym.environments.swe.sources.mutant import instance_id

    return next(edit.kind for edit in made.edits if instance_id(made, edit) == task.instance_id)


def main() -> None:
    """Measure and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", default=PACKAGES)
    parser.add_argument("--tasks", type=int, default=20, help="of each package")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sandbox", default="auto")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--name", default="swe_tasks", help="of the result file")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    start, cpu = time.monotonic(), _cpu()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        rows = [make(p, options.tasks, options.jobs, options.seed, folder, options.sandbox) for p in options.packages]
    seconds = time.monotonic() - start
    valid = sum(row["valid"] for row in rows)
    tasks = sum(row["tasks"] for row in rows)
    figures = {
        "target": TARGET,
        "jobs": options.jobs,
        "load_before": load,
        "packages": rows,
        "tasks": tasks,
        "valid": valid,
        "seconds": seconds,
        "cpu_seconds": _cpu() - cpu,
        "valid_per_minute": valid / seconds * 60,
        "met": valid >= TARGET["tasks"] and seconds <= TARGET["seconds"],
    }
    save(options.name, figures)
    if valid < tasks:
        sys.exit("a task was made that could not be proved: see 'problems'")


if __name__ == "__main__":
    main()
