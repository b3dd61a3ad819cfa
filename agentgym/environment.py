"""The contract of an environment: one plain synchronous class.

Anything else (concurrency, worker processes, deadlines, records) is built around it by the library.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from agentgym.errors import AgentGymError
from agentgym.types import Observation, Step, Task, TaskSet


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """What the library needs to know about an environment before it makes one.

    ``name``         registry name
    ``max_turns``    default turn limit (>= 1); the library applies it, not the environment
    ``thread_safe``  instances may run in several threads of one process; False: worker processes
    ``cheap``        a step takes well under a millisecond: stepped inline, no thread or process hop
    ``snapshots``    ``snapshot`` and ``restore`` work
    ``splits``       the names ``tasks`` accepts
    ``action_help``  one paragraph that tells a policy which actions exist
    ``kinds``        task types, in the order tables show them
    ``expert_success``  share of the tasks that the expert is known to solve, 0 to 1; ``agentgym check`` holds it to
                     that
    ``recipe``       sections of a recipe (``format``, ``limits``, ``prompt``) that an evaluation without a recipe takes
                     in place of the general defaults, for environments whose actions are longer than a line
    ``tools``        typed tools, in OpenAI's form (:mod:`agentgym.tools`); an action is then one call as JSON
    """

    name: str
    max_turns: int = 50
    thread_safe: bool = True
    cheap: bool = True
    snapshots: bool = False
    splits: tuple[str, ...] = ("train",)
    action_help: str = ""
    kinds: tuple[str, ...] = ()
    description: str = ""
    expert_success: float = 1.0
    recipe: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    tools: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("EnvironmentSpec.name must not be empty")
        if self.max_turns < 1:
            raise ValueError(f"EnvironmentSpec {self.name!r}: max_turns must be >= 1, got {self.max_turns}")
        if not 0 <= self.expert_success <= 1:
            raise ValueError(
                f"EnvironmentSpec {self.name!r}: expert_success must be from 0 to 1, got {self.expert_success}"
            )


class Environment(ABC):
    """One running world. Construct it with options, then ``reset(task)`` and ``step(action)``.

    Randomness comes from ``task.seed`` only. ``step`` never raises for a bad action: it answers as the world
    would, with ``grounded=False``. An exception from ``reset`` or ``step`` is a failure of the environment and
    ends the episode as ``env_error``.
    """

    #: an adapter's instance may have one of its own, with the same ``thread_safe`` and ``cheap``
    spec: ClassVar[EnvironmentSpec]

    #: names of the current task's milestones in order; set by ``reset``; empty: the task has none
    milestone_names: tuple[str, ...] = ()

    @abstractmethod
    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        """The tasks of a split, in a fixed order. Raises UnknownNameError (split) or DataError (bad data)."""

    @abstractmethod
    def reset(self, task: Task) -> Observation:
        """Start ``task`` from its beginning, whatever happened before."""

    @abstractmethod
    def step(self, action: str) -> Step:
        """Execute one action."""

    @classmethod
    def data_files(cls, tasks: Sequence[Task], **options: Any) -> Sequence[Path]:
        """Files and folders on disk that ``tasks`` (at least one, all of this environment) are read from.

        ``options`` are the constructor's. Results keep the hashes. No file (the default): all is generated, or comes
        with the code.
        """
        return ()

    def expert(self) -> str | None:
        """The next action of a known good solution from the present state, or None."""
        return None

    def snapshot(self) -> Any:
        """The present state; ``restore`` brings it back exactly. Needed for branching and exact credit."""
        raise AgentGymError(f"environment {self.spec.name!r} has no snapshots (spec.snapshots is False)")

    def restore(self, state: Any) -> Observation:
        """Go back to a snapshot; returns the observation that was current then."""
        raise AgentGymError(f"environment {self.spec.name!r} has no snapshots (spec.snapshots is False)")

    def comparable(self, text: str) -> str:
        """What of an observation must be the same when the same actions are played again: all of it.

        Environments whose answers hold the time that something took override this, and put a mark in its place.
        """
        return text

    def close(self) -> None:  # noqa: B027 - most environments hold nothing
        """Free what the environment holds. Called once; safe to call after a failed ``reset``."""
