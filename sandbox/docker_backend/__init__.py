"""``docker``: commands in a hardened container, for real task images and for engines on other machines."""

from __future__ import annotations

from collections.abc import Callable

from agentgym.sandbox.docker_backend import box
from agentgym.sandbox.docker_backend.engine import check, describe, engine
from agentgym.sandbox.docker_backend.sandbox import DockerSandbox

__all__ = ["DockerSandbox", "check", "describe", "remove_leftovers"]


def remove_leftovers(dead: Callable[[str], bool]) -> list[str]:
    """Remove the containers and volumes of dead runs from the engine that the environment names. One line for each.

    Images stay: the skeleton is a cache of a few kilobytes, and all others are the user's. Raises SandboxError.
    """
    return box.remove_leftovers(engine(), dead)
