"""Built-in rewarders: the outcome, the environment's step rewards, penalties for malformed and refused actions."""

from __future__ import annotations

from abc import ABC, abstractmethod

from agentgym.credit.protocols import Services
from agentgym.errors import ConfigError
from agentgym.types import Episode, Group, Task, Turn


class Outcome:
    """The episode's outcome on its last turn; what every recipe pays unless another component redistributes it.

    ``success_reward``: pay this for a success and 0 otherwise, in place of the environment's score
    (verl-agent and RetroAgent pay 10).
    """

    name = "outcome"
    traits = frozenset({"outcome"})

    def __init__(self, success_reward: float | None = None, weight: float = 1.0) -> None:
        self.success_reward, self.weight = success_reward, weight

    def reset(self, task: Task) -> None:
        """Nothing to forget."""

    def score(self, record: Episode, turn: int) -> float:
        """0 before the last turn."""
        if turn != len(record.turns) - 1:
            return 0.0
        return record.outcome if self.success_reward is None else self.success_reward * record.success

    def scores(self, record: Episode) -> list[float]:
        """All turns at once."""
        turns = len(record.turns)
        return [0.0] * (turns - 1) + [self.score(record, turns - 1)] if turns else []


class EnvironmentRewards:
    """Pays the environment's own reward of each step (the component ``env``, recorded in play) instead of the outcome.

    For environments whose steps pay: Sokoban's step costs, a search environment's judge rewards. Where steps pay
    nothing but the end does, it is the outcome again. Failed steps of the environment carry 0.
    """

    name = "env_rewards"
    requires: frozenset[str] = frozenset()
    traits = frozenset({"redistributes_outcome"})

    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight

    def plan(self, paid: dict[str, float]) -> dict[str, float]:
        """The component is there already; from now on it is paid."""
        return {**paid, "env": self.weight}

    async def apply(self, groups: list[Group], svc: Services, step: int) -> None:
        """Nothing to add."""


class _Penalty(ABC):
    """``-penalty`` on every turn that :meth:`due` names; ``cap`` bounds the sum over an episode (None: unbounded)."""

    name = ""
    traits: frozenset[str] = frozenset()

    def __init__(self, penalty: float = 0.1, cap: float | None = None, weight: float = 1.0) -> None:
        if penalty < 0 or (cap is not None and cap < 0):
            raise ConfigError(f"{self.name}: penalty and cap must be >= 0, got {penalty} and {cap}")
        self.penalty, self.cap, self.weight = penalty, cap, weight
        self._paid = 0.0

    def reset(self, task: Task) -> None:
        """A new episode begins."""
        self._paid = 0.0

    @abstractmethod
    def due(self, turn: Turn) -> bool:
        """Is this turn punished?"""

    def score(self, record: Episode, turn: int) -> float:
        """0 on all other turns."""
        if not self.due(record.turns[turn]):
            return 0.0
        amount = self.penalty if self.cap is None else min(self.penalty, self.cap - self._paid)
        self._paid += amount
        return -amount

    def scores(self, record: Episode) -> list[float]:
        """All turns of an episode at once, from its beginning."""
        out = [0.0] * len(record.turns)
        for turn in record.turns:
            if self.due(turn):
                out[turn.index] = self.score(record, turn.index)
        return out


class InvalidPenalty(_Penalty):
    """A penalty on every turn whose response had no well-formed action (``valid=False``).

    Never positive, so well-formed turns cannot be farmed. With a ``cap`` ending early is not the cheapest way out
    of penalties.
    """

    name = "invalid_penalty"

    def due(self, turn: Turn) -> bool:
        """The format was not kept."""
        return not turn.valid


class GroundingPenalty(_Penalty):
    """A penalty on every turn whose action the environment refused (``grounded=False``).

    The penalty form of SPA's grounding signal g_t (arXiv 2505.20732): a bonus for executed actions grows with the
    episode's length and pays for stalling, ``-penalty * (1 - g_t)`` does not.
    """

    name = "grounding_penalty"

    def due(self, turn: Turn) -> bool:
        """The environment did not execute the action."""
        return not turn.grounded
