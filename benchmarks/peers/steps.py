"""One step of the comparison: a side's script in its own process, within a deadline; and the server that some need."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from plan import Side, Work

HERE = Path(__file__).resolve().parent
#: one thread each: libraries must not use the cores that they are not given
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def cores() -> tuple[int | None, int | None]:
    """(core of the measured process, core of the server); None where cores cannot be chosen."""
    if not hasattr(os, "sched_getaffinity"):
        return None, None
    usable = sorted(os.sched_getaffinity(0))
    return usable[-1], usable[0]


def environment(tree: bool) -> dict[str, str]:
    """What a side's process sees: our few modules, and our package only where it is asked for."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "AGENTGYM_"))}
    paths = [str(HERE), *([str(HERE.parents[1])] if tree else [])]
    return {**kept, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0"}


def measured(side: Side, work: Work, python: Path, repeats: int, least: float, url: str) -> dict[str, Any]:
    """The figures of one cell, ``{missing: reason}`` or ``{failed: what happened}``. Never raises for a side."""
    command = [
        str(python),
        str(HERE / "work" / side.script),
        work.key,
        "--repeats",
        str(repeats),
        "--least",
        str(least),
    ]
    core, _ = cores()
    command += [] if core is None or work.wall else ["--core", str(core)]
    command += ["--url", url] if work.server else []
    command += ["--small"] if repeats < 3 else []
    return answer(command, work.deadline, environment(side.tree))


def answer(command: Sequence[str], deadline: float, env: dict[str, str]) -> dict[str, Any]:
    """The last line that is JSON; the whole group of processes is killed at the deadline."""
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, start_new_session=True
        )
    except OSError as error:
        return {"failed": str(error)}
    try:
        out, err = process.communicate(timeout=deadline)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return {"failed": f"not done within {deadline:.0f} s"}
    for line in reversed(out.splitlines()):
        if line.startswith("{"):
            try:
                return dict(json.loads(line))
            except ValueError:
                break
    return {"failed": f"ended with code {process.returncode} and no figures: {(err or out).strip()[-1500:]}"}


@contextmanager
def endpoint(wanted: bool, deadline: float = 60.0) -> Iterator[str]:
    """The URL of the instant server, on a core of its own; "" if not ``wanted``. It ends with us: its input does."""
    if not wanted:
        yield ""
        return
    process = subprocess.Popen(
        [sys.executable, str(HERE / "endpoint.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            if not ready.select(deadline):
                raise SystemExit(f"bench-peers: the server of endpoint.py did not start within {deadline:.0f} s")
        url = process.stdout.readline().strip()
        _, core = cores()
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        yield url
        process.stdin.close()
        process.wait(10)
    finally:
        process.kill()
        process.wait()


def clean(text: str, folders: Sequence[Path]) -> str:
    """``text`` without this machine's paths: errors quote them."""
    for folder in (*folders, Path(sys.prefix), Path(sys.base_prefix), Path.home()):
        if len(str(folder)) > 1:
            text = text.replace(str(folder), f"<{folder.name}>")
    return text
