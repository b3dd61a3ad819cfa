"""Checking in processes of their own, with deadlines: an environment that hangs or dies is a finding."""

from __future__ import annotations

import json
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym import errors
from agentgym.check.families import FAMILIES
from agentgym.check.finding import Finding, Report
from agentgym.check.probe import Settings
from agentgym.check.worker import PLACE_SIZE, read_place
from agentgym.errors import AgentGymError

_BOOT = "import sys; sys.path[:] = {path!r}; from agentgym.check.worker import main; main({fd}, {orders!r}, {place!r})"
#: hangs and crashes after which the rest is left unchecked
_MOST_LOST = 2
#: seconds that the interpreter and the imports of the environment may take
_START = 60.0
#: a family of its own, run in a second process with another hash seed
PROCESSES = "processes"


def check(
    name: str, settings: Settings | None = None, deadline: float = 60.0, tell: Callable[[str], None] = lambda _: None
) -> Report:
    """Check the environment ``name`` (registry name or ``module:Class``).

    ``deadline``: seconds that one family may take; ``tell`` hears the name of each family as it begins. Raises
    AgentGymError where the environment cannot be made at all (unknown name, missing package, constructor).
    """
    settings = settings or Settings(seconds=deadline / 4)
    report = Report(name)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="agentgym-check-") as folder:
        scripts = os.path.join(folder, "scripts")
        todo, lost = list(FAMILIES), 0
        while todo:
            run = _Run(Path(folder), name, settings, deadline, report, tell)
            if run.go(todo, "0", keep_scripts=scripts):
                break
            lost += 1
            todo = todo[todo.index(run.family) + 1 :]
            if lost >= _MOST_LOST and todo:
                report.add(_unchecked(todo))
                break
        if os.path.exists(scripts):
            _Run(Path(folder), name, settings, deadline, report, tell).go([PROCESSES], "4711", scripts=scripts)
    report.seconds = time.monotonic() - begun
    return report


def _unchecked(families: list[str]) -> Finding:
    return Finding(
        "note",
        "unchecked",
        "the rest",
        "all families are checked",
        f"not checked: {', '.join(families)}",
        "mend the above and check again",
    )


@dataclass(slots=True)
class _Run:
    """One worker process. ``family``: the one that it is at."""

    folder: Path
    name: str
    settings: Settings
    deadline: float
    report: Report
    tell: Callable[[str], None]
    family: str = ""

    def go(self, families: list[str], hash_seed: str, **orders: Any) -> bool:
        """Run families; False where the process hung or died in ``self.family``."""
        orders_path, place = self.folder / "orders", self.folder / "place"
        place.write_bytes(bytes(PLACE_SIZE))
        orders |= {"name": self.name, "settings": self.settings, "families": families}
        orders_path.write_bytes(pickle.dumps(orders))
        self.family = families[0]
        ours, theirs = os.pipe()
        path = [os.path.abspath(entry) for entry in sys.path]
        boot = _BOOT.format(path=path, fd=theirs, orders=str(orders_path), place=str(place))
        environ = {**os.environ, "PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": "1"}
        with (self.folder / "log").open("w+b") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", boot],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs,),
                env=environ,
                start_new_session=True,
            )
            os.close(theirs)
            try:
                end = self._listen(ours)
                if end == "closed":
                    code = process.wait(10)
                    if code == 0:
                        return True
                    self._lost("dies", f"exit code {code}. {_tail(log)}", str(place))
                else:
                    self._lost("hangs", f"no end after {self.deadline:g} s", str(place))
                return False
            finally:
                os.close(ours)
                _kill(process)

    def _listen(self, pipe: int) -> str:
        """Take events until the pipe closes ("closed") or a family passes its deadline ("late")."""
        data, until = b"", time.monotonic() + max(self.deadline, _START)
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return "late"
            chunk = os.read(pipe, 1 << 16)
            if not chunk:
                return "closed"
            data += chunk
            *lines, data = data.split(b"\n")
            for line in lines:
                event = json.loads(line)
                if "begin" in event:
                    self.family, until = event["begin"], time.monotonic() + self.deadline
                    self.tell(self.family)
                self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        if "failed" in event:
            kind = getattr(errors, event["failed"], AgentGymError)
            kind = kind if isinstance(kind, type) and issubclass(kind, AgentGymError) else AgentGymError
            raise kind(event["message"])
        if "finding" in event:
            self.report.add(Finding(**event["finding"]))
        if "end" in event:
            self.report.ran.append(event["end"])
            self.report.measured.update(event["measured"])

    def _lost(self, code: str, seen: str, place: str) -> None:
        where = read_place(place) or "before the first call"
        mend = (
            "give every loop and every wait an end"
            if code == "hangs"
            else "no call may end the process: raise an exception instead, and mend native code that crashes"
        )
        self.report.add(
            Finding(
                "error",
                code,
                f"{self.family}: {where}",
                f"every call returns within {self.deadline:g} s" if code == "hangs" else "the process lives on",
                seen,
                mend,
            )
        )


def _tail(log: Any) -> str:
    log.flush()
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - 600))
    text = log.read().decode("utf-8", "replace").strip()
    return f"Its last words: {text}" if text else "It said nothing."


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it started along."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait(10)
