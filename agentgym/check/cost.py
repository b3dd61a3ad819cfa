"""Speed and memory, measured and reported; a warning where the spec promises more."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Final

from agentgym.check.probe import Probe

#: seconds of a step above which an environment is not cheap
CHEAP: Final = 0.002
#: growth of an episode, bytes
LEAK: Final = 64 * 1024
_EPISODES: Final = 400


def check_cost(probe: Probe) -> None:
    """Median times of constructor, reset and step; memory that stays after episodes."""
    measured = probe.report.measured
    begun = time.perf_counter()
    env = probe.make()
    measured["constructor, ms"] = round((time.perf_counter() - begun) * 1e3, 3)
    resets, steps = [], []
    deadline = time.monotonic() + probe.settings.seconds / 3
    rounds = 0
    while not rounds or (rounds < _EPISODES and time.monotonic() < deadline):
        script = probe.scripts[rounds % len(probe.scripts)]
        begun = time.perf_counter()
        probe.reset(env, script.task)
        resets.append(time.perf_counter() - begun)
        for turn, action in enumerate(script.actions, 1):
            begun = time.perf_counter()
            probe.step(env, action, script.task, turn)
            steps.append(time.perf_counter() - begun)
        rounds += 1
        if rounds == max(1, _EPISODES // 4):
            before = _resident()
            early = rounds
    probe.close(env)
    measured["reset, median us"] = round(statistics.median(resets) * 1e6, 1)
    if steps:
        measured["step, median us"] = round(statistics.median(steps) * 1e6, 1)
        _check_cheap(probe, statistics.median(steps))
    if rounds >= _EPISODES // 2:
        growth = (_resident() - before) / (rounds - early)
        measured["memory kept, bytes an episode"] = round(growth, 1)
        if growth > LEAK:
            probe.find(
                "warning",
                "memory",
                "many episodes",
                expected=f"at most {LEAK} bytes kept after an episode",
                seen=f"{growth:.0f} bytes an episode",
                mend="empty lists and caches in reset(), or bound them",
            )
    else:
        probe.cut = f"memory, which takes {_EPISODES // 2} episodes; there was time for {rounds}"


def _check_cheap(probe: Probe, seconds: float) -> None:
    if probe.spec.cheap and seconds > CHEAP:
        probe.find(
            "warning",
            "not_cheap",
            "step",
            expected=f"spec.cheap is True: a step takes less than {CHEAP * 1e3:g} ms",
            seen=f"{seconds * 1e3:.1f} ms",
            mend="set cheap=False: others wait while it is stepped inline",
        )


def _resident() -> int:
    """Bytes of memory in use."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):  # not Linux: nothing is measured
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
