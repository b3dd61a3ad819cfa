"""Limits of a whole evaluation: tokens, money, seconds. Counted call by call, so that they hold within an episode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentgym.errors import ConfigError
from agentgym.policy import BatchPolicy, Policy, PolicyRequest, SampledTurn
from agentgym.tally import Outcome


@dataclass(frozen=True, slots=True)
class Budget:
    """``tokens`` (prompt and sampled) and ``money`` of the whole evaluation, what an earlier start of it spent
    included; ``seconds`` of wall clock since this start. None: no limit.

    Calls under way when a limit is reached still cost: at most one for each episode in flight.
    """

    tokens: int | None = None
    money: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("tokens", "money", "seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"the limit of {name} must be > 0, got {value}")

    def exceeded(self, tokens: int, money: float) -> str:
        """Which limit these amounts have reached; empty: none."""
        if self.tokens is not None and tokens >= self.tokens:
            return f"{tokens} of at most {self.tokens} tokens are used"
        if self.money is not None and money >= self.money:
            return f"{money:.4f} of at most {self.money:g} is spent"
        return ""


class Meter:
    """Counts what calls take and says ``stop(reason)`` once, when the budget is used up."""

    def __init__(self, budget: Budget, tokens: int, money: float, stop: Callable[[str], None]) -> None:
        self.budget, self.tokens, self.money, self._stop = budget, tokens, money, stop
        self._said = False

    def count(self, turn: SampledTurn) -> None:
        """One answer came."""
        tokens = (len(turn.prompt_ids) or turn.prompt_tokens) + (len(turn.token_ids) or turn.completion_tokens)
        self._add(tokens, turn.cost)

    def account(self, outcome: Outcome) -> None:
        """One whole episode came, played where calls cannot be counted one by one."""
        self._add(outcome.prompt_tokens + outcome.sampled_tokens, outcome.money)

    def _add(self, tokens: int, money: float) -> None:
        self.tokens += tokens
        self.money += money
        reason = "" if self._said else self.budget.exceeded(self.tokens, self.money)
        if reason:
            self._said = True
            self._stop(reason)


class _Metered(Policy):
    def __init__(self, policy: Policy, meter: Meter) -> None:
        self.name, self.needs_expert = policy.name, policy.needs_expert
        self._policy, self._meter = policy, meter

    async def act(self, request: PolicyRequest) -> SampledTurn:
        """The policy's answer, counted."""
        turn = await self._policy.act(request)
        self._meter.count(turn)
        return turn

    def release(self, session: str) -> None:
        """Passed on."""
        self._policy.release(session)


class _MeteredBatch(BatchPolicy):
    def __init__(self, policy: BatchPolicy, meter: Meter) -> None:
        self.name, self.needs_expert, self.max_batch = policy.name, policy.needs_expert, policy.max_batch
        self._policy, self._meter = policy, meter

    def act_batch(self, requests: Sequence[PolicyRequest]) -> list[SampledTurn | Exception]:
        """The policy's answers, counted."""
        answers = self._policy.act_batch(requests)
        for answer in answers:
            if isinstance(answer, SampledTurn):
                self._meter.count(answer)
        return answers

    def release(self, session: str) -> None:
        """Passed on."""
        self._policy.release(session)


def metered(policy: Policy, meter: Meter) -> Policy:
    """``policy`` with every answer counted; the policy itself where tokens and money have no limit."""
    if meter.budget.tokens is None and meter.budget.money is None:
        return policy
    return _MeteredBatch(policy, meter) if isinstance(policy, BatchPolicy) else _Metered(policy, meter)
