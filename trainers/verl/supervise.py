"""Watches a run from outside: ends it, with the cause, when a process dies or nothing moves any more.

verl waits without limits in many places; a run is therefore watched by the process that started it, which asks Ray for
dead actors and the board for the time since the last progress.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from agentgym.config.cluster import ClusterSection
from agentgym.errors import AgentGymError

GRACE = 6.0  # seconds that the trainer gets to say itself what broke, after a process died
LOOK = 1.0  # seconds between looks
GONE = "the run's board is gone"


class RunFailed(AgentGymError):
    """A distributed run ended before its time; the message names the cause."""


def watch(run: Any, board: Any, cluster: ClusterSection, show: Callable[[str], None], logs: str = "") -> None:
    """Wait for ``run`` (a Ray reference). Raises RunFailed, or the AgentGymError that the run itself raised."""
    import ray

    known = dict(dead_actors())  # of earlier runs on a cluster that stays
    died: tuple[float, str] | None = None
    hint = f" Logs of all processes: {logs}" if logs else ""
    while True:
        done, _ = ray.wait([run], timeout=LOOK)
        doing, step, idle, failure, lines = _look(board)
        show("".join(lines))
        where = f"while {doing} (training step {step})"
        # what broke first, also where the run has ended over it since the last look; the board may end with the run
        if failure and not (done and failure.startswith(GONE)):
            raise RunFailed(f"{failure}, {where}.{hint}")
        if done:
            return _result(run, died, hint)
        if died is None:
            fresh = {key: text for key, text in dead_actors().items() if key not in known}
            died = (time.monotonic(), next(iter(fresh.values()))) if fresh else None
        elif time.monotonic() - died[0] > GRACE:
            raise RunFailed(f"{died[1]}, {where}.{hint}")
        limit = cluster.start_deadline if doing.startswith("starting") else cluster.deadline
        if idle > limit:
            name = "start_deadline" if doing.startswith("starting") else "deadline"
            raise RunFailed(f"nothing moved for {idle:.0f} s {where}; cluster.{name} is {limit:g} s.{hint}")


def _look(board: Any) -> tuple[str, int, float, str, list[str]]:
    import ray

    try:
        found: tuple[str, int, float, str, list[str]] = ray.get(board.look.remote(), timeout=30)
        return found
    except ray.exceptions.RayError as error:
        return "running", 0, 0.0, f"{GONE} ({type(error).__name__})", []


def _result(run: Any, died: tuple[float, str] | None, hint: str) -> None:
    import ray

    try:
        ray.get(run)
    except ray.exceptions.RayTaskError as error:
        cause = innermost(error)
        if isinstance(cause, AgentGymError):
            raise type(cause)(str(cause)) from None
        if isinstance(cause, ray.exceptions.RayActorError) and died is not None:
            raise RunFailed(f"{died[1]}.{hint}") from error
        raise RunFailed(f"the trainer raised {type(cause).__name__}: {cause}.{hint}") from error
    except ray.exceptions.RayError as error:
        reason = died[1] if died is not None else f"the trainer's process ended: {error}"
        raise RunFailed(f"{reason}.{hint}") from error


def innermost(error: BaseException) -> BaseException:
    """The exception that a chain of Ray's task errors began with."""
    while (cause := getattr(error, "cause", None)) is not None and isinstance(cause, BaseException):
        error = cause
    return error


def dead_actors() -> dict[str, str]:
    """Actors whose process ended by itself: id -> what it was and how it ended. Those that Ray ended count not."""
    from ray._private import state  # the public interface needs the dashboard, which costs a process

    found = {}
    for key, info in (state.actors() or {}).items():
        if info.get("State") != "DEAD":
            continue
        cause = info.get("DeathCause")
        context = getattr(cause, "actor_died_error_context", None)
        text = str(getattr(context, "error_message", "") or cause or "")
        if "SYSTEM_ERROR" in text or "NODE" in text.upper().split("INTENDED")[0]:
            name = getattr(context, "class_name", "") or info.get("ActorClassName", "") or "a process"
            reason = " ".join(text.split())[:400]
            found[str(key)] = f"the process of {name} (pid {getattr(context, 'pid', '?')}) died: {reason}"
    return found
