"""The families of checks, in the order in which they run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Final

from agentgym.check.cost import check_cost
from agentgym.check.determinism import check_determinism, check_global_rng
from agentgym.check.finding import Report
from agentgym.check.hostile import check_hostile
from agentgym.check.isolation import check_interleaved, check_threads
from agentgym.check.outcomes import check_endings, check_expert
from agentgym.check.panels import check_tasks
from agentgym.check.probe import Probe, Settings, Stop
from agentgym.check.shape import check_episodes, check_spec
from agentgym.check.snapshots import check_snapshots

FAMILIES: Final[dict[str, Callable[[Probe], None]]] = {
    "spec": check_spec,
    "tasks": check_tasks,
    "episodes": check_episodes,
    "global generators": check_global_rng,
    "determinism": check_determinism,
    "independence": check_interleaved,
    "threads": check_threads,
    "snapshots": check_snapshots,
    "hostile actions": check_hostile,
    "expert": check_expert,
    "endings": check_endings,
    "cost": check_cost,
}


def run_family(probe: Probe, name: str) -> None:
    """One family. What stops it is in the report."""
    probe.begin()
    with contextlib.suppress(Stop):
        FAMILIES[name](probe)
    if probe.cut:
        _tell_cut(probe, name)
    probe.report.ran.append(name)


def _tell_cut(probe: Probe, name: str) -> None:
    """What was not looked at must not pass for what was found right."""
    probe.find(
        "note",
        "time_up",
        name,
        expected=f"{name}: checked to its end within {probe.settings.seconds:g} s",
        seen=f"time was up; left out: {probe.cut}",
        mend="give it more time (--deadline: a family begins nothing new after a quarter of it)",
    )


def check_here(name: str, settings: Settings | None = None, families: Iterable[str] = FAMILIES) -> Report:
    """All families in this process: no deadline, no second process. For tests of environments known to be harmless."""
    report = Report(name)
    probe = Probe(name, settings or Settings(), report)
    begun = time.monotonic()
    for family in families:
        run_family(probe, family)
    report.seconds = time.monotonic() - begun
    return report
