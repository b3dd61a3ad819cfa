"""The words of the project as types: Task, TaskSet, Observation, Step, Turn, Episode, Group, Termination.

Everything is validated when it is built, holds its fields in slots, and keeps tokens in NumPy arrays.
See ``docs/architecture.md`` for how they fit together.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, overload

from agentgym import _plain
from agentgym.errors import unknown
from agentgym.tokens import TokenRow


class Termination(enum.StrEnum):
    """Why an episode ended. Terminated, truncated and failed stay apart from here down to the loss."""

    ENV_DONE = "env_done"  # the environment said so
    AGENT_STOP = "agent_stop"  # the policy declared itself finished
    MAX_TURNS = "max_turns"  # the turn limit; never a success by itself
    CONTEXT_LIMIT = "context_limit"  # prompt + requested tokens would exceed the window or the episode's limit
    RESPONSE_TRUNCATED = "response_truncated"  # a response hit the per-turn token limit
    PARSE_FAILURE = "parse_failure"  # no action found, and the recipe ends the episode then
    ENV_ERROR = "env_error"  # the environment or its worker failed; says nothing about the policy
    ABORTED = "aborted"  # the run was stopped, or the policy itself failed

    @property
    def is_failure(self) -> bool:
        """True where the infrastructure, not the policy, ended the episode. Such episodes train nothing."""
        return self in (Termination.ENV_ERROR, Termination.ABORTED)

    @property
    def is_truncation(self) -> bool:
        """True where a limit cut the episode, so that its last state is not terminal."""
        return self in (Termination.MAX_TURNS, Termination.CONTEXT_LIMIT, Termination.RESPONSE_TRUNCATED)


def _canonical(data: Any) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def content_hash(data: Any) -> str:
    """16 hex digits of BLAKE2b over the canonical JSON of ``data``; the same on every machine."""
    return hashlib.blake2b(_canonical(data).encode(), digest_size=8).hexdigest()


def _check_unicode(task: Task) -> None:
    for name in ("env", "name", "split", "kind"):
        try:
            getattr(task, name).encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"Task.{name} {getattr(task, name)!r} holds a lone surrogate: {error.reason}") from error


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be solved.

    ``env``   registry name of the environment
    ``name``  the source's own durable name (for ALFWorld the task and trial folder)
    ``split`` the split it belongs to
    ``seed``  all randomness of the episode's environment comes from it
    ``kind``  task type for breakdowns; empty if the environment has one type only
    ``data``  what the environment needs to start it: JSON-compatible, or a reference that it can resolve
    ``id``    content hash of env, name, seed and data, unless one is given: equal on every machine
    """

    env: str
    name: str
    split: str = ""
    seed: int = 0
    kind: str = ""
    data: Any = None
    id: str = ""

    def __post_init__(self) -> None:
        if not self.env or not self.name:
            raise ValueError(f"a Task needs env and name; got env={self.env!r}, name={self.name!r}")
        if not f"{self.env}{self.name}{self.split}{self.kind}".isascii():
            _check_unicode(self)
        if not isinstance(self.seed, int) or isinstance(self.seed, bool) or self.seed < 0:
            raise ValueError(f"task {self.name!r}: seed must be an integer >= 0, got {self.seed!r}")
        if not self.id:
            object.__setattr__(self, "id", content_hash([self.env, self.name, self.seed, self.data]))


class TaskSet(Sequence[Task]):
    """An ordered list of tasks with unique ids. Slicing gives a TaskSet; ``hash`` identifies the panel."""

    __slots__ = ("_tasks", "name")

    def __init__(self, tasks: Iterable[Task], name: str = "") -> None:
        self._tasks = tuple(tasks)
        self.name = name
        seen: dict[str, Task] = {}
        for task in self._tasks:
            if task.id in seen:
                other = seen[task.id]
                raise ValueError(f"task set {name!r} holds id {task.id} twice: {other.name!r} and {task.name!r}")
            seen[task.id] = task

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks)

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> TaskSet: ...
    def __getitem__(self, index: int | slice) -> Task | TaskSet:
        if isinstance(index, slice):
            return TaskSet(self._tasks[index], self.name)
        return self._tasks[index]

    def __repr__(self) -> str:
        return f"TaskSet({self.name!r}, {len(self)} tasks, hash {self.hash})"

    @property
    def hash(self) -> str:
        """Content hash over the ordered ids."""
        return content_hash([task.id for task in self._tasks])

    def find(self, key: str) -> Task:
        """The task whose id or name is ``key``; raises :class:`~agentgym.errors.UnknownNameError`."""
        for task in self._tasks:
            if key in (task.id, task.name):
                return task
        raise unknown(f"task in {self.name or 'this task set'}", key, (t.name for t in self._tasks))


@dataclass(slots=True)
class Observation:
    """What the environment shows. ``state_key`` is the raw observation without counters (default: ``text``)."""

    text: str
    admissible: Sequence[str] | None = None
    state_key: str | None = None

    def __post_init__(self) -> None:
        if self.text.__class__ is not str:
            raise TypeError(f"Observation.text must be str, got {type(self.text).__name__}")
        if self.state_key is None:
            self.state_key = self.text
        if self.state_key.__class__ is not str or self.admissible.__class__ is not list:
            _plain.check_observation(self)


@dataclass(slots=True)
class Step:
    """What one action did.

    ``reward``      the environment's own reward of this step
    ``terminated``  the environment has ended; a turn limit is not the environment's business
    ``success``     solved, as the environment defines it
    ``grounded``    the environment executed the action (a refused action is not grounded)
    ``milestones``  names of all subgoals reached so far; never shrinks within an episode
    ``score``       the environment's score so far if it differs from the sum of rewards, else None
    ``info``        anything else, JSON-compatible
    """

    observation: Observation
    reward: float = 0.0
    terminated: bool = False
    success: bool = False
    grounded: bool = True
    milestones: tuple[str, ...] = ()
    score: float | None = None
    info: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if (  # one look at the usual types; all else takes the longer way
            self.reward.__class__ is not float
            or not isfinite(self.reward)
            or self.observation.__class__ is not Observation
            or self.terminated.__class__ is not bool
            or self.success.__class__ is not bool
            or self.grounded.__class__ is not bool
            or self.milestones.__class__ is not tuple
            or self.score is not None
            or self.info is not None
        ):
            _plain.settle(self, Observation)
        if self.success and not self.terminated:
            raise ValueError("Step.success without Step.terminated: a solved task must end the episode")


@dataclass(slots=True)
class Turn:
    """One observation, one sampled response, one parsed action, one transition.

    ``observation``  the text the policy acted on; ``next_observation`` what the environment answered
    ``state_key``    the raw observation acted on, without counters (anchor of GiGPO)
    ``response``     the sampled text; ``action`` what was parsed out of it (None: nothing found)
    ``valid``        the response had the demanded format
    ``row, start, end``  where its sampled tokens lie: ``episode.rows[row].ids[start:end]``; row -1: no tokens
    ``rewards``      named components, never overwritten; ``env`` is the environment's own reward
    """

    index: int
    observation: str
    response: str
    action: str | None
    next_observation: str = ""
    state_key: str = ""
    admissible: tuple[str, ...] | None = None
    valid: bool = True
    grounded: bool = True
    terminated: bool = False
    milestones: tuple[str, ...] = ()
    rewards: dict[str, float] = field(default_factory=dict)
    row: int = -1
    start: int = 0
    end: int = 0
    finish_reason: str = "stop"
    prompt_tokens: int = 0
    sampled_tokens: int = 0
    info: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.index < 0:
            raise ValueError(f"Turn.index must be >= 0, got {self.index}")
        if self.start < 0 or self.end < self.start:
            raise ValueError(f"turn {self.index}: span [{self.start}, {self.end}) is not a span")


@dataclass(slots=True)
class Episode:
    """The turns of one attempt, plus outcome, success, termination.

    ``outcome`` is the environment's final score, ``success`` its separate yes/no; both belong to this
    episode's own environment at its own end. ``rows`` hold every token once (see :class:`TokenRow`).
    ``error`` says what failed where ``termination`` is ``env_error`` or ``aborted``.
    """

    task: Task
    index: int
    seed: int
    turns: list[Turn]
    termination: Termination
    outcome: float = 0.0
    success: bool = False
    milestone_names: tuple[str, ...] = ()
    rows: list[TokenRow] = field(default_factory=list)
    policy: str = ""
    error: str = ""
    info: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.termination = Termination(self.termination)
        if self.outcome != self.outcome:
            raise ValueError(f"{self.where}: outcome is NaN")
        if self.success and self.termination is not Termination.ENV_DONE:
            raise ValueError(f"{self.where}: success needs termination env_done, got {self.termination.value}")
        for expected, turn in enumerate(self.turns):
            if turn.index != expected:
                raise ValueError(f"{self.where}: turn {expected} carries index {turn.index}")
            if turn.row >= len(self.rows):
                raise ValueError(f"{self.where}, turn {expected}: row {turn.row} of {len(self.rows)} rows")
            if turn.row >= 0 and turn.end > len(self.rows[turn.row].ids):
                raise ValueError(
                    f"{self.where}, turn {expected}: span [{turn.start}, {turn.end}) "
                    f"exceeds row {turn.row} of {len(self.rows[turn.row].ids)} tokens"
                )

    @property
    def where(self) -> str:
        """Environment, task and attempt, for error messages."""
        return f"{self.task.env} task {self.task.name!r} episode {self.index}"

    @property
    def sampled_tokens(self) -> int:
        """Number of tokens that the sampler drew: the sum of all row masks."""
        return sum(int(row.mask.sum()) for row in self.rows)

    @property
    def invalid_actions(self) -> int:
        """Turns whose response had no well-formed action."""
        return sum(not turn.valid for turn in self.turns)


@dataclass(slots=True)
class Group:
    """The episodes of one task sampled from the same start; advantages are relative to it."""

    task: Task
    episodes: list[Episode]

    def __post_init__(self) -> None:
        for episode in self.episodes:
            if episode.task.id != self.task.id:
                raise ValueError(f"group of task {self.task.id} holds an episode of task {episode.task.id}")

    @property
    def key(self) -> str:
        """Group identity: task id (which includes seed and content)."""
        return self.task.id

    def __len__(self) -> int:
        return len(self.episodes)

    def __iter__(self) -> Iterator[Episode]:
        return iter(self.episodes)
