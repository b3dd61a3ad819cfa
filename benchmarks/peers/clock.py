"""The clock of every side of the comparison, standard library only: it runs in each peer's own virtual environment.

A work script registers functions that do some units of work and return how many; :func:`main` runs the one asked for
on one core and prints one JSON line. CPU time counts this process with its threads and the children it has waited for.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

#: one repetition lasts at least this many seconds, so that the clock's grain does not show
LEAST_S = 0.2
#: a work: the command line in, figures out
Work = Callable[[argparse.Namespace], dict[str, Any]]


class Missing(Exception):
    """This side cannot do the work; the text says why."""


def cpu_seconds() -> float:
    """CPU seconds, user and system, of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def spread(figures: list[float]) -> dict[str, float]:
    """Median, minimum and maximum."""
    return {"median": statistics.median(figures), "min": min(figures), "max": max(figures)}


def measure(
    function: Callable[[], int],
    repeats: int = 7,
    least_s: float = LEAST_S,
    prepare: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """Microseconds of CPU and of wall time per unit over ``repeats``, after two unmeasured calls.

    ``function`` does the same units of work at each call and returns how many; it is called as often per repetition as
    ``least_s`` asks for. ``prepare`` runs before each call, off the clock.
    """
    _once(function, prepare)
    calls = max(1, round(least_s / max(_once(function, prepare)[1], 1e-6)))
    cpu, wall, units = [], [], 0
    for _ in range(repeats):
        rounds = [_once(function, prepare) for _ in range(calls)]
        units = sum(row[2] for row in rounds)
        cpu.append(sum(row[0] for row in rounds) / units * 1e6)
        wall.append(sum(row[1] for row in rounds) / units * 1e6)
    return {"cpu_us": spread(cpu), "wall_us": spread(wall), "repeats": repeats, "units": units}


def _once(function: Callable[[], int], prepare: Callable[[], object]) -> tuple[float, float, int]:
    """CPU seconds, wall seconds and units of one call."""
    prepare()
    wall, cpu = time.perf_counter(), cpu_seconds()
    units = function()
    return cpu_seconds() - cpu, time.perf_counter() - wall, units


def timed(
    function: Callable[[], int],
    options: argparse.Namespace,
    note: str = "",
    prepare: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """:func:`measure` with the command line's numbers, and what must be known to compare the figure."""
    figures = measure(function, options.repeats, options.least, prepare)
    return {**figures, "note": note} if note else figures


def imports(module: str) -> Work:
    """A work: import ``module`` in a fresh interpreter."""

    def work(options: argparse.Namespace) -> dict[str, Any]:
        def run() -> int:
            subprocess.run([sys.executable, "-c", f"import {module}"], check=True, stdout=subprocess.DEVNULL)
            return 1

        return timed(run, options, f"import {module}")

    return work


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """What is installed of ``packages``, and Python."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def run(works: dict[str, Work], options: argparse.Namespace, missing: dict[str, str]) -> dict[str, Any]:
    """The figures of a work, or why there are none: ``missing`` where it cannot be done, ``failed`` where it broke."""
    if options.work not in works:
        return {"missing": missing.get(options.work, "has no such environment or loop")}
    try:
        return works[options.work](options)
    except Missing as reason:
        return {"missing": str(reason)}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()[-2000:]}


def main(works: dict[str, Work], packages: tuple[str, ...] = (), missing: dict[str, str] | None = None) -> None:
    """Read the command line, keep to one core, run, print one JSON line. ``missing``: why a work cannot be done."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work")
    parser.add_argument("--core", type=int)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--least", type=float, default=LEAST_S)
    parser.add_argument("--small", action="store_true", help="fewer episodes, where they are slow")
    parser.add_argument("--url", default="", help="of an OpenAI-compatible server")
    options = parser.parse_args()
    if options.core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {options.core})
    result = run(works, options, missing or {})
    print("\n" + json.dumps({**result, "versions": versions(packages)}), flush=True)
