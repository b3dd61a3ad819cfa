"""The process in which an environment is checked: a hang or a crash of it ends this one, not the check.

Reads its orders from a pickle file, writes one JSON line for each event to a pipe, and keeps the present place in a
mapped file, so that the parent knows where it was when it had to be killed.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import pickle
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

PLACE_SIZE = 1024


def place_writer(path: str) -> Callable[[str], None]:
    """A function that keeps its argument in the file ``path``; costs about a microsecond."""
    with open(path, "r+b") as file:
        shared = mmap.mmap(file.fileno(), PLACE_SIZE)

    def write(place: str) -> None:
        data = place.encode("utf-8", "replace")[: PLACE_SIZE - 1]
        shared[: len(data) + 1] = data + b"\0"

    return write


def read_place(path: str) -> str:
    """What was written last."""
    with open(path, "rb") as file:
        return file.read(PLACE_SIZE).split(b"\0")[0].decode("utf-8", "replace")


def main(fd: int, orders_path: str, place_path: str) -> None:
    """Check what the orders say."""
    from agentgym.check.families import run_family
    from agentgym.check.finding import Report
    from agentgym.check.probe import Probe
    from agentgym.errors import AgentGymError

    with open(orders_path, "rb") as file:
        orders: dict[str, Any] = pickle.load(file)
    with os.fdopen(fd, "w", buffering=1, encoding="utf-8") as pipe:

        def tell(**event: Any) -> None:
            pipe.write(json.dumps(event) + "\n")

        report = Report(orders["name"])
        try:
            probe = Probe(orders["name"], orders["settings"], report, place_writer(place_path))
            for family in orders["families"]:
                tell(begin=family)
                before, report.findings = report.findings, []
                if family == "processes":
                    _other_process(probe, orders["scripts"])
                else:
                    run_family(probe, family)
                for finding in report.findings:
                    tell(finding=asdict(finding))
                report.findings = before
                tell(end=family, measured=report.measured)
            if orders.get("keep_scripts"):
                _keep_scripts(probe, orders["keep_scripts"])
        except AgentGymError as error:
            tell(failed=type(error).__name__, message=str(error))


def _other_process(probe: Any, path: str) -> None:
    from agentgym.check.determinism import check_processes
    from agentgym.check.probe import Stop

    with open(path, "rb") as file:
        scripts = pickle.load(file)
    with contextlib.suppress(Stop):
        check_processes(probe, scripts)


def _keep_scripts(probe: Any, path: str) -> None:
    from agentgym.check.probe import Stop

    with contextlib.suppress(Stop):
        scripts = probe.scripts
        with open(path, "wb") as file:
            pickle.dump(scripts, file)
