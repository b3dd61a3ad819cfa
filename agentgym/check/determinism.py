"""The same task and actions give the same episode: again, elsewhere, whatever the global generators hold."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import numpy as np

from agentgym.check.probe import Probe, Script, place

_MEND: Final = (
    "draw all randomness in reset() and step() from a generator made of the task's seed: "
    "agentgym.seeding.python_rng(name, task.seed)"
)


def check_determinism(probe: Probe) -> None:
    """Replay on the same instance after another task, and on a new one."""
    scripts = probe.scripts
    env = probe.make()
    for number, script in enumerate(probe.in_time(scripts)):
        probe.replay(env, scripts[number - 1])  # whatever happened before
        same = probe.plays_same(
            "not_repeatable",
            env,
            script,
            what="after another task in the same instance",
            expected="the same task and actions give the same episode after any earlier state",
            mend=f"let reset() set every attribute anew; {_MEND}",
        )
        other = probe.make()
        same = same and probe.plays_same(
            "not_deterministic",
            other,
            script,
            what="in a new instance",
            expected="the same task and actions give the same episode in every instance",
            mend=_MEND,
        )
        probe.close(other)
        if not same:
            break
    probe.close(env)


def check_processes(probe: Probe, scripts: list[Script]) -> None:
    """Replay what another process, with another hash seed, has played."""
    ids = [task.id for task in probe.panel]
    for script in scripts:
        if script.task.id not in ids:
            probe.find(
                "error",
                "tasks_change",
                f"task {script.task.name!r}",
                expected="the same ids in every process",
                seen=f"not among the {len(ids)} first tasks of another process",
                mend="never let a task hang on hash(), the order of a set, the time or the process",
            )
            return
        env = probe.make()
        probe.plays_same(
            "process_dependent",
            env,
            script,
            what="in another process",
            expected="the same episode in every process",
            mend="sort what comes from sets; never use hash(), id(), the time or the process number",
        )
        probe.close(env)


def _states() -> dict[str, Callable[[], Any]]:
    """How to read the state of each process-wide generator that is loaded."""
    readers: dict[str, Callable[[], Any]] = {
        "random": random.getstate,
        "numpy.random": lambda: [part.tobytes() if isinstance(part, np.ndarray) else part for part in _numpy_state()],
    }
    if "torch" in sys.modules:
        readers["torch"] = lambda: sys.modules["torch"].get_rng_state().numpy().tobytes()
    return readers


def _numpy_state() -> Any:
    return np.random.get_state(legacy=True)  # noqa: NPY002 - the global generator is what is watched


def _reseed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the global generator is what is watched
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


@contextmanager
def _kept() -> Iterator[None]:
    """Put the global generators back as they were."""
    python, numeric = random.getstate(), _numpy_state()
    torch = sys.modules["torch"].get_rng_state() if "torch" in sys.modules else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numeric)  # noqa: NPY002
        if torch is not None:
            sys.modules["torch"].set_rng_state(torch)


def check_global_rng(probe: Probe) -> None:
    """No call draws from the process-wide generators, seeds them, or hangs on them."""
    with _kept():
        task = probe.panel[0]
        first = _watched(probe, "the constructor", probe.make)
        _watched(probe, "tasks", lambda: probe.tasks(first, task.split))
        probe.close(first)
        for script in probe.scripts:
            _reseed(1)
            if not _watch_episode(probe, script):
                break
            _reseed(2)
            env = probe.make()  # a new one: what is left of an earlier episode is another finding
            if not probe.plays_same(
                "global_rng",
                env,
                script,
                what="with the global generators seeded otherwise",
                expected="an episode that does not hang on the global generators",
                mend=_MEND,
            ):
                break
            probe.close(env)


def _watch_episode(probe: Probe, script: Script) -> bool:
    env, task = probe.make(), script.task
    fine = _clean(probe, f"reset: {place(task, 0)}", lambda: probe.reset(env, task))
    for turn, action in enumerate(script.actions, 1):
        if not fine:
            break
        fine = _clean(probe, f"expert: {place(task, turn)}", partial(probe.expert, env, task, turn))
        fine = fine and _clean(probe, f"step: {place(task, turn)}", partial(probe.step, env, action, task, turn))
    probe.close(env)
    return fine


def _clean(probe: Probe, where: str, call: Callable[[], Any]) -> bool:
    before = len(probe.report.findings)
    _watched(probe, where, call)
    return len(probe.report.findings) == before


def _watched(probe: Probe, where: str, call: Callable[[], Any]) -> Any:
    readers = _states()
    before = {name: read() for name, read in readers.items()}
    found = call()
    for name, read in readers.items():
        if read() != before[name]:
            probe.find(
                "error",
                "global_rng",
                where,
                expected=f"the global generator of {name} stays untouched",
                seen="its state changed",
                mend=_MEND,
            )
    return found
