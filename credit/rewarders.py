"""Built-in turn rewarders: the outcome, and a penalty for responses without a well-formed action."""

from __future__ import annotations

from agentgym.errors import ConfigError
from agentgym.types import Episode, Task


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


class InvalidPenalty:
    """``-penalty`` on every turn whose response had no well-formed action (``valid=False``).

    Never positive, so well-formed turns cannot be farmed (credit-methods.md section 3, 28). ``cap`` bounds the sum
    over an episode, so that ending early is not the cheapest way out of penalties (30); None: unbounded.
    """

    name = "invalid_penalty"

    def __init__(self, penalty: float = 0.1, cap: float | None = None, weight: float = 1.0) -> None:
        if penalty < 0 or (cap is not None and cap < 0):
            raise ConfigError(f"invalid_penalty: penalty and cap must be >= 0, got {penalty} and {cap}")
        self.penalty, self.cap, self.weight = penalty, cap, weight
        self._paid = 0.0

    def reset(self, task: Task) -> None:
        """A new episode begins."""
        self._paid = 0.0

    def score(self, record: Episode, turn: int) -> float:
        """0 on valid turns."""
        if record.turns[turn].valid:
            return 0.0
        due = self.penalty if self.cap is None else min(self.penalty, self.cap - self._paid)
        self._paid += due
        return -due
