"""Extension points of credit assignment and agent RL.

Every method is one small class behind one of these. They are structural: a class needs the methods, not the base.
A class may also carry

``traits``  words that :mod:`agentgym.credit.composition` checks
``weight``  of the component it adds, when rewards are summed (default 1)
``stage``   ``add`` (default), ``shape``, ``gate`` or ``group``: place of a TrajectoryRewarder in the pipeline
``plan``    ``plan(paid: dict[str, float]) -> dict[str, float]``, called once when the pipeline is built: from the
            components paid so far, with weights, to those paid after it. A gate or a shaper takes names out and puts
            its own in (``spa`` -> ``gated:spa``), since components are never overwritten. Default: adds ``name``

Stateful objects also have ``state_dict``/``load_state_dict``, and change nothing when ``mode="eval"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from agentgym.environment import Environment
from agentgym.policy import Message, Policy, Sampling
from agentgym.types import Episode, Group, Task

Array = npt.NDArray[np.float64]
Ragged = list[list[Array]]  # [group][episode][turn]


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """What a sampler asks to be rolled out."""

    task: Task
    n_rollouts: int
    sampling: Sampling
    start_state: Any = None
    stage: str = ""


@dataclass(frozen=True, slots=True)
class PromptPatch:
    """What an augmenter adds to a prompt; ``source`` names it, since groups must not mix sources unnoticed."""

    messages: tuple[Message, ...]
    source: str


@dataclass(slots=True)
class Services:
    """What a trainer offers to rewarders, by the words of their ``requires`` (``scorer``, ``judge``, ``model:spa``)."""

    offered: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Values:
    """What an estimator computes from, all ``[group][episode][turn]`` over the episodes that count.

    ``total``   the weighted sum of all paid components; ``dense`` the same without the outcome
    ``outcome`` per group and episode: the outcome component's sum, whether or not it is paid as such
    ``critic``  the critic's values at the turns' beginnings, where one exists
    """

    total: Ragged
    dense: Ragged
    outcome: list[Array]
    critic: Ragged | None = None


@runtime_checkable
class TurnRewarder(Protocol):
    """Scores one turn after its transition from the past alone; adds the component ``name``."""

    name: str

    def reset(self, task: Task) -> None: ...
    def score(self, record: Episode, turn: int) -> float: ...


@runtime_checkable
class TrajectoryRewarder(Protocol):
    """Works on whole groups after the rollout: adds named components, or says how they are paid."""

    requires: frozenset[str]

    async def apply(self, groups: list[Group], svc: Services, step: int) -> None: ...


@runtime_checkable
class AdvantageEstimator(Protocol):
    """Turns rewards into advantages ``A[group][episode][turn]``; the only result that a learner needs."""

    def compute(self, groups: list[Group], values: Values | None) -> Ragged: ...


class TaskSampler(Protocol):
    """Curriculum, temperature, start states."""

    def sample(self, step: int, n_groups: int) -> list[TaskSpec]: ...
    def feedback(self, groups: list[Group]) -> None: ...


class PromptAugmenter(Protocol):
    """Memory, demonstrations, instructions, guidance."""

    def augment(self, task: TaskSpec, slot: int, turn: int, record: Episode, mode: str) -> PromptPatch | None: ...
    def feedback(self, groups: list[Group]) -> None: ...


class RolloutStrategy(Protocol):
    """Linear, tree, second attempt, rewrite, relabel."""

    async def run(self, task: TaskSpec, env: Environment, policy: Policy, hooks: Any) -> list[Episode]: ...


class BatchComposer(Protocol):
    """Filters, reorders, replays; returns rows with weights."""

    def compose(self, groups: list[Group], step: int) -> Any: ...
    def state_dict(self) -> dict[str, Any]: ...


class PolicyScorer(Protocol):
    """Service of the trainer: teacher-forced log-probabilities and statistics of given token rows."""

    def logprobs(self, rows: Sequence[Any]) -> list[list[float]]: ...
    def stats(self, rows: Sequence[Any], what: set[str]) -> dict[str, Any]: ...


class LearnedModel(Protocol):
    """A model that is fitted between updates and frozen inside one."""

    def fit(self, groups: list[Group]) -> dict[str, float]: ...
    def predict(self, episodes: list[Episode]) -> list[list[float]]: ...
    def state_dict(self) -> dict[str, Any]: ...


class LossTerm(Protocol):
    """Policy-loss variants and auxiliary losses; the batch and the loss are the trainer's tensors."""

    def __call__(self, batch: Any) -> tuple[Any, dict[str, float]]: ...


class MemoryStore(Protocol):
    """A service that augmenters and rewarders share."""

    def add(self, entry: Any) -> str: ...
    def search(self, query: str, k: int, mode: str) -> list[Any]: ...
    def update(self, ids: Sequence[str], success: bool) -> None: ...
    def freeze(self) -> None: ...
