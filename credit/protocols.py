"""Extension points of credit assignment and agent RL.

Every method is one small class behind one of these. They are structural: a class needs the methods, not the base.
A class may also carry

``traits``  words that :mod:`agentgym.credit.composition` checks
``weight``  of the component it adds, when rewards are summed (default 1)
``stage``   ``add`` (default), ``shape``, ``gate`` or ``group``: place of a TrajectoryRewarder in the pipeline
``plan``    ``plan(paid: dict[str, float]) -> dict[str, float]``, called once when the pipeline is built: from the
            components paid so far, with weights, to those paid after it. A gate or a shaper takes names out and puts
            its own in (``spa`` -> ``gated:spa``), since components are never overwritten. Default: adds ``name``

and these methods, each optional, called by :class:`agentgym.credit.CreditPipeline`:

``report()``                     numbers about the last ``apply``/``compute``; logged as ``credit/<name>/<key>``
``feedback(groups, svc, step)``  after the policy update of a training step, with the episodes that counted: the only
                                 place where a part may change what it keeps (refit, memory, best rates). Returns
                                 metrics, logged likewise
``warm_up(groups, svc)``         once before the first update, with ``warmup_episodes`` (an attribute; 0: never)
                                 episodes of the starting policy. Returns metrics. With ``rl.warmup_from:
                                 demonstrations`` they are the expert's; a part with the attribute ``on_policy`` True,
                                 which estimates what the policy itself will reach, is then left out
``augment(context)``             makes the part a PromptAugmenter
``bind(services)``               once, when the pipeline is built: the services, for parts that ask them in ``augment``,
                                 which is given none. To be kept, not used: some are not ready yet
``split(episode)``               a word; episodes of a group with different words get separate statistics
``close()``                      at the end of a run
``state_dict()``/``load_state_dict()``  nested dicts and lists of plain values and NumPy arrays

Nothing of this is called in evaluation except ``augment`` with ``mode="eval"``, which must change nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from agentgym.augment import PromptContext, PromptPatch
from agentgym.environment import Environment
from agentgym.policy import Message, Policy, Sampling
from agentgym.tokens import FloatArray, IntArray
from agentgym.types import Episode, Group, Task

Array = npt.NDArray[np.float64]
Ragged = list[list[Array]]  # [group][episode][turn]
TokenRagged = list[list[list[Array]]]  # [group][episode][turn][token]


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """What a sampler asks to be rolled out."""

    task: Task
    n_rollouts: int
    sampling: Sampling
    start_state: Any = None
    stage: str = ""


@dataclass(slots=True)
class Services:
    """What a trainer offers to credit parts, by the words of their ``requires``.

    ``scorer``    a :class:`PolicyScorer`: teacher-forced log-probabilities under the rollout's weights
    ``features``  a :class:`FeatureExtractor`: hidden states of the policy at each turn's last token
    ``policy``    a :class:`TextGenerator`: the policy itself, answering a free prompt
    ``judge``     a :class:`TextGenerator`: a model behind an endpoint (:mod:`agentgym.judge`)
    ``critic``    a :class:`Critic`: values of the trainer's value model
    ``trunk``     an object with ``clone_for_training(rank, seed)``: copies of the starting policy with adapters, for
                  estimators that are fitted on top (see :mod:`agentgym.credit.learned.lora`)
    """

    offered: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Values:
    """What an estimator computes from, all ``[group][episode][turn]`` over the episodes that count.

    ``total``   the weighted sum of all paid components; ``dense`` the same without the outcome
    ``outcome`` per group and episode: the outcome component's sum, whether or not it is paid as such
    ``critic``  the critic's values at the turns' beginnings, where one exists
    ``tokens``  the critic's values before each sampled token of a turn, ``[group][episode][turn][token]``
    """

    total: Ragged
    dense: Ragged
    outcome: list[Array]
    critic: Ragged | None = None
    tokens: TokenRagged | None = None


@runtime_checkable
class TurnRewarder(Protocol):
    """Scores one turn after its transition from the past alone; adds the component ``name``.

    ``scores(episode)``, optional, gives all turns at once where that is cheaper; it must give the same numbers.
    """

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


@runtime_checkable
class PromptAugmenter(Protocol):
    """Memory, demonstrations, instructions, guidance: asked for a patch before every turn (see agentgym.augment)."""

    def augment(self, context: PromptContext) -> PromptPatch | Awaitable[PromptPatch | None] | None: ...


class RolloutStrategy(Protocol):
    """Linear, tree, second attempt, rewrite, relabel."""

    async def run(self, task: TaskSpec, env: Environment, policy: Policy, hooks: Any) -> list[Episode]: ...


class BatchComposer(Protocol):
    """Filters, reorders, replays; returns rows with weights."""

    def compose(self, groups: list[Group], step: int) -> Any: ...
    def state_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """A token row [L] and blocks to score behind prefixes of it: block ``(cut, ids)`` is read after ``row[:cut]``.

    The ids are those recorded at generation; ``1 <= cut <= L``. What lies behind the last cut plays no part.
    """

    row: IntArray
    blocks: tuple[tuple[int, IntArray], ...]


class PolicyScorer(Protocol):
    """Service of the trainer: teacher-forced log-probabilities at temperature 1, sharing prefixes.

    ``encode(text)``    ids of a text alone, no special token added
    ``logprobs(rows)``  per row and block one float32 log-probability a token of the block; all NaN for a block that
                        does not fit in the model window behind its prefix
    """

    def encode(self, text: str) -> IntArray: ...
    def logprobs(self, rows: Sequence[ScoredRow]) -> list[list[FloatArray]]: ...


class FeatureExtractor(Protocol):
    """Service of the trainer: per episode ``[turns, width]`` float32, the policy's last hidden state at the last
    sampled token of each turn (zeros for a turn without tokens)."""

    width: int

    def hidden(self, episodes: Sequence[Episode]) -> list[npt.NDArray[np.float32]]: ...


class TextGenerator(Protocol):
    """A model that answers a conversation. Raises JudgeError where it cannot (endpoint down, deadline, budget)."""

    async def complete(self, messages: list[Message], *, max_tokens: int = 512, seed: int = 0) -> str: ...


class Critic(Protocol):
    """Service of the trainer: the value model. NaN where a target does not exist."""

    def values(self, groups: Sequence[Group]) -> TokenRagged: ...
    def fit(self, groups: Sequence[Group], targets: TokenRagged) -> dict[str, float]: ...


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
