"""What a sandboxed command costs: over a bare subprocess, with four threads, and in memory over much output.

Wall time is shown as minimum (a quiet machine) and median; CPU time is that of everything involved, this process,
the keeper, the runner, bubblewrap and the command, so it holds on a busy machine too.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import save

from agentgym.sandbox import Sandbox, make
from agentgym.sandbox.bubblewrap import describe
from agentgym.sandbox.keeper import children
from agentgym.sandbox.pool import pool

_TICK = os.sysconf("SC_CLK_TCK")


def own_cpu() -> float:
    """CPU seconds of this process and of its children that have been waited for."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def pool_cpu() -> float:
    """CPU seconds of the keeper and the runners, and of all that they have reaped."""
    keeper = pool()._process.pid
    total = 0.0
    for pid in (keeper, *children(keeper)):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += sum(map(int, fields[11:15])) / _TICK
    return total


def measure(run: Callable[[], object], cpu: Callable[[], float], count: int) -> dict[str, float]:
    """Milliseconds of one call: wall minimum and median, CPU mean."""
    run()
    walls, before = [], cpu()
    for _ in range(count):
        begun = time.perf_counter()
        run()
        walls.append((time.perf_counter() - begun) * 1e3)
    return {
        "wall_min_ms": min(walls),
        "wall_median_ms": statistics.median(walls),
        "cpu_ms": (cpu() - before) / count * 1e3,
    }


def bare(command: str) -> object:
    """The same without a sandbox."""
    return subprocess.run(
        ["/bin/bash", "-c", command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={"PATH": "/usr/bin"},
        check=False,
    )


def threads(sandbox: Sandbox, count: int) -> dict[str, float]:
    """Commands a second from four threads, by the clock and by CPU time on two cores."""
    with ThreadPoolExecutor(4) as workers:
        list(workers.map(lambda _: sandbox.run("true"), range(8)))
        begun, before = time.perf_counter(), own_cpu() + pool_cpu()
        list(workers.map(lambda _: sandbox.run("true"), range(count)))
        seconds, cpu = time.perf_counter() - begun, own_cpu() + pool_cpu() - before
    return {"per_second": count / seconds, "per_second_of_two_cores_by_cpu": 2 * count / cpu}


def memory(sandbox: Sandbox, count: int) -> dict[str, float]:
    """Growth of this process over ``count`` commands with 1 MB of output each."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    command = "printf '%1000000s' x"
    for _ in range(20):
        sandbox.run(command)
    before, begun = resident(), time.perf_counter()
    for _ in range(count):
        assert sandbox.run(command).output_bytes == 1_000_000
    return {
        "commands": count,
        "growth_bytes": resident() - before,
        "ms_per_command": (time.perf_counter() - begun) / count * 1e3,
    }


def favour() -> None:
    """Give this process and the sandboxes' cgroups (v1) priority, so that other load on the machine weighs less."""
    os.setpriority(os.PRIO_PROCESS, 0, -15)
    for runner in pool()._all:
        for folder, base in runner.group.folders.items():
            if "cpu" in base.controllers and base.version == 1:
                Path(folder, "cpu.shares").write_text("262144")


def main() -> None:
    """Measure all, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="commands per figure")
    parser.add_argument("--outputs", type=int, default=1000, help="commands with 1 MB of output")
    parser.add_argument("--favour", action="store_true", help="take priority over other load (root, cgroup v1)")
    options = parser.parse_args()
    with make("bubblewrap") as sandbox:
        with ThreadPoolExecutor(4) as workers:
            list(workers.map(lambda _: sandbox.run("sleep 0.3"), range(4)))
        if options.favour:
            favour()
        figures = {
            "backend": describe(),
            "load": os.getloadavg()[0],
            "favoured": options.favour,
            "bare_true": measure(lambda: bare("true"), own_cpu, options.count),
            "sandboxed_true": measure(lambda: sandbox.run("true"), lambda: own_cpu() + pool_cpu(), options.count),
            "bare_python": measure(lambda: bare("python3 -c pass"), own_cpu, options.count // 4),
            "sandboxed_python": measure(
                lambda: sandbox.run("python3 -c pass"), lambda: own_cpu() + pool_cpu(), options.count // 4
            ),
            "four_threads": threads(sandbox, 2 * options.count),
            "outputs_of_1_MB": memory(sandbox, options.outputs),
        }
    added = {key: figures["sandboxed_true"][key] - figures["bare_true"][key] for key in figures["bare_true"]}  # type: ignore[index]
    begun = time.perf_counter()
    for _ in range(20):
        with make("bubblewrap") as sandbox:
            sandbox.write("x", b"x")
    per_sandbox = (time.perf_counter() - begun) / 20 * 1e3
    save("sandbox_speed", {**figures, "added_by_the_sandbox": added, "sandbox_start_and_close_ms": per_sandbox})


if __name__ == "__main__":
    main()
