"""What a step of a slow environment does: 5 ms of waiting, or 5 ms of this thread's CPU time. Standard library only."""

from __future__ import annotations

import time

STEP_S = 0.005
#: environments at once, steps of each
ENVS, STEPS = 64, 10


def wait() -> None:
    """As a server that answers late."""
    time.sleep(STEP_S)


def spin() -> None:
    """As a simulator that computes in Python."""
    end = time.thread_time() + STEP_S
    while time.thread_time() < end:
        pass


#: by the name of the row
WORK = {"wait": wait, "spin": spin}
