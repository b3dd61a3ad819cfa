"""Sandboxes of the software engineering tests. AGENTGYM_REQUIRE_SANDBOX=1 (CI) makes a missing one a failure."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agentgym.environments.swe import SWE
from agentgym.environments.swe.actions import write
from agentgym.sandbox import bubblewrap
from agentgym.types import Step


@pytest.fixture(scope="session")
def sandboxed() -> None:
    if why := bubblewrap.check():
        if os.environ.get("AGENTGYM_REQUIRE_SANDBOX") == "1":
            pytest.fail(f"required: {why}")
        pytest.skip(why)


@pytest.fixture
def make_env(sandboxed: None) -> Iterator[Callable[..., SWE]]:
    """Makes environments, reset to an embedded task, and closes them."""
    made: list[SWE] = []

    def make(task: str = "pocket-slug-limit", **options: Any) -> SWE:
        env = SWE(**{"backend": "bubblewrap", **options})
        made.append(env)
        split = "train" if any(t.name == task for t in env.tasks("train")) else "test"
        env.reset(env.tasks(split).find(task))
        return env

    yield make
    for env in made:
        env.close()


def bash(env: SWE, command: str) -> Step:
    """One shell command."""
    return env.step(write("bash", command=command))


def fix(env: SWE) -> Step:
    """The fix of pocket-slug-limit, by the edit tool."""
    old, new = "if len(longer) >= limit:", "if len(longer) > limit:"
    return env.step(write("edit", command="str_replace", path="pocket/texts.py", old_str=old, new_str=new))


def named(step: Step) -> dict[str, float]:
    """The rewards of a step that are not 0."""
    assert step.info is not None
    return {name: value for name, value in step.info["rewards"].items() if value}
