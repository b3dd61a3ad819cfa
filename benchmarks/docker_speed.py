"""What the Docker sandbox costs: starting one, a command in it, and memory over much output.

Needs an engine: ``scripts/dockerd run -- python benchmarks/docker_speed.py``. Wall time, as most of the work is the
engine's; the minimum is that of a quiet machine, and ``load`` says how quiet this one was.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import save

from agentgym.sandbox import Sandbox, make
from agentgym.sandbox.docker_backend import describe
from agentgym.sandbox.docker_backend.engine import engine


def timed(run: Callable[[], object], count: int) -> dict[str, float]:
    """Milliseconds of one call: minimum, median, 95th percentile."""
    run()
    walls = []
    for _ in range(count):
        begun = time.perf_counter()
        run()
        walls.append((time.perf_counter() - begun) * 1e3)
    walls.sort()
    return {"min_ms": walls[0], "median_ms": statistics.median(walls), "p95_ms": walls[int(0.95 * (count - 1))]}


def bare_exec(container: str) -> object:
    """The engine's own floor for a command: create, start and wait, by the SDK, with neither deadline nor limits."""
    api = engine().api
    made = api.exec_create(container, ["/bin/true"], user="1000:1000")
    api.exec_start(made["Id"])
    return api.exec_inspect(made["Id"])["ExitCode"]


def whole() -> None:
    """A sandbox from nothing to nothing, one command in between."""
    with make("docker") as sandbox:
        assert sandbox.run("echo hi").output == "hi\n"


def starts(count: int) -> dict[str, float]:
    """Making sandboxes, one after the other and with four threads."""
    made = []

    def start() -> None:
        made.append(make("docker"))
        made[-1].start()

    figures = timed(start, count)
    for sandbox in made:
        sandbox.close()
    begun = time.perf_counter()
    with ThreadPoolExecutor(4) as workers:
        list(workers.map(lambda _: whole(), range(count)))
    return {**figures, "whole_lives_per_second_four_threads": count / (time.perf_counter() - begun)}


def memory(sandbox: Sandbox, count: int) -> dict[str, float]:
    """Growth of this process over ``count`` commands with 1 MB of output each."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    command = "printf '%1000000s' x"
    for _ in range(50):
        sandbox.run(command)
    before = resident()
    for _ in range(count):
        assert sandbox.run(command).output_bytes == 1_000_000
    return {"commands": count, "growth_bytes": resident() - before}


def main() -> None:
    """Measure all, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="commands per figure")
    parser.add_argument("--outputs", type=int, default=1000, help="commands with 1 MB of output")
    options = parser.parse_args()
    figures: dict[str, object] = {
        "backend": describe().replace(engine().host, "its socket"),
        "load": os.getloadavg()[0],
    }
    figures["start"] = starts(max(4, options.count // 10))
    with make("docker") as sandbox:
        container = sandbox._box.id  # type: ignore[attr-defined]
        figures["bare_exec_by_the_sdk"] = timed(lambda: bare_exec(container), options.count)
        figures["run_true"] = timed(lambda: sandbox.run("true"), options.count)
        figures["run_python"] = timed(lambda: sandbox.run("python3 -c pass"), options.count // 2)
        figures["write"] = timed(lambda: sandbox.write("a/b", b"x" * 1000), options.count // 2)
        figures["read"] = timed(lambda: sandbox.read("a/b"), options.count // 2)
        figures["killed_at_deadline"] = timed(lambda: sandbox.run("sleep 9", 0.1), max(5, options.count // 10))
        figures["outputs_of_1_MB"] = memory(sandbox, options.outputs)
    save("docker_speed", figures)


if __name__ == "__main__":
    main()
