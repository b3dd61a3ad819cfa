"""Episodes do not touch each other: interleaved in one thread, at once in several, or in worker processes."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Sequence
from typing import Any

from agentgym.check.finding import apart
from agentgym.check.probe import Probe, Script, difference, entry, place
from agentgym.errors import AgentGymError
from agentgym.registry import make
from agentgym.rollouts.process import class_reference

_THREADS = 4
_INDEPENDENT = "an episode does not hang on others that run beside it"
_MEND = "keep an episode's state in the instance (self), not in the class, in the module or in a shared default"


def check_interleaved(probe: Probe) -> None:
    """Several instances stepped in turn play the episodes they play alone."""
    scripts = [*probe.scripts, *reversed(probe.scripts)]
    envs = [probe.make() for _ in scripts]
    episodes = [probe.playing(env, script) for env, script in zip(envs, scripts, strict=True)]
    seen: list[list[Any]] = [[] for _ in scripts]
    going = set(range(len(scripts)))
    with probe.blaming("not_independent", expected=_INDEPENDENT, mend=_MEND):
        while going and not probe.late(f"the ends of {len(going)} of {len(scripts)} episodes"):
            for k in sorted(going):
                shown = next(episodes[k], None)
                if shown is None:
                    going.discard(k)
                else:
                    seen[k].append(shown)
    for script, entries in zip(scripts, seen, strict=True):
        whole = Script(script.task, script.actions, script.seen[: len(entries)]) if going else script
        if not probe.same(
            "not_independent",
            whole,
            entries,
            what="interleaved with another",
            expected=_INDEPENDENT,
            mend=_MEND,
        ):
            break
    for env in envs:
        probe.close(env)


def check_threads(probe: Probe) -> None:
    """A thread-safe environment plays the same in several threads; any other can go to a worker process."""
    if not probe.spec.thread_safe:
        _check_worker(probe)
        return
    scripts = probe.scripts
    problems: list[tuple[Script, Any]] = []
    barrier = threading.Barrier(_THREADS)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # provoke what a busy machine would show once a day
    try:
        threads = [
            threading.Thread(target=_thread, args=(probe, scripts, number, barrier, problems), daemon=True)
            for number in range(_THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    for script, problem in problems[:1]:
        turn, seen = problem
        probe.find(
            "error",
            "not_thread_safe",
            place(script.task, turn),
            expected=f"spec.thread_safe is True: instances in {_THREADS} threads play as they play alone",
            seen=seen,
            mend=f"set thread_safe=False (then it runs in worker processes), or {_MEND}",
        )


def _thread(probe: Probe, scripts: Sequence[Script], number: int, barrier: Any, problems: list[Any]) -> None:
    try:
        env = make(probe.name, **probe.settings.options)
    except BaseException as error:
        problems.append((scripts[0], (0, f"the constructor raised {type(error).__name__}: {error}")))
        barrier.abort()
        return
    try:
        barrier.wait(30)
    except threading.BrokenBarrierError:
        probe.cut = probe.cut or "all: the threads' constructors took more than 30 s"
        return
    rounds = 3 * len(scripts)
    for k in range(rounds):
        script = scripts[(k + number) % len(scripts)]
        turn = 0
        try:
            seen = [entry(env, env.reset(script.task))]
            for turn, action in enumerate(script.actions, 1):  # noqa: B007 - read where it raises
                step = env.step(action)
                seen.append(entry(env, step.observation, step))
        except BaseException as error:
            problems.append((script, (turn, f"{type(error).__name__}: {error}")))
            return
        if found := difference(script.seen, seen):
            turn, name, a, b = found
            problems.append((script, (turn, f"{name} alone was {apart(a, b)}, beside others {apart(b, a)}")))
            return
        if problems or (k + 1 < rounds and probe.late(f"{rounds - k - 1} of {rounds} episodes of a thread")):
            break
    env.close()


def _check_worker(probe: Probe) -> None:
    try:
        class_reference(probe.cls)
    except AgentGymError as error:
        probe.find(
            "error",
            "worker",
            "spec.thread_safe=False",
            expected="a class that a worker process can import",
            seen=str(error),
            mend="define the class at the top of a module",
        )
    for task in probe.panel:
        try:
            pickle.loads(pickle.dumps(task))
        except Exception as error:
            probe.find(
                "error",
                "worker",
                place(task, 0),
                expected="tasks that can travel to worker processes",
                seen=f"{type(error).__name__}: {error}",
                mend="keep plain values in Task.data",
            )
            return
