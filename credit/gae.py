"""GAE: generalised advantage estimation for PPO, over turns, tokens or both (Schulman et al., arXiv 1506.02438)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agentgym.credit.numerics import choice, fraction, returns_to_go, z_score
from agentgym.credit.protocols import Array, Ragged, TokenRagged, Values
from agentgym.credit.steps import Steps
from agentgym.credit.streams import Index
from agentgym.types import Group


class GAE:
    """``delta_t = r_t + gamma V_{t+1} - V_t``; ``A_t = delta_t + gamma lam A_{t+1}``; the critic's target is A + V.

    ``level``      ``turn``: a step is a turn, V at its beginning; uses gamma and lam.
                   ``token``: a step is a sampled token, V before it, a turn's reward on its last token; uses
                   gamma_token and lam_token. Observations are skipped, never steps without reward.
                   ``bilevel`` (RAGEN, arXiv 2504.20073): gamma and lam over turns on V before each turn's last token;
                   that turn advantage is the last token's, and gamma_token and lam_token run back inside the turn
    ``bootstrap``  V after the last turn of an episode that a limit cut (``Termination.is_truncation``): ``none``: 0,
                   as in one that ended, so that running out of turns costs; ``last``: V at the last turn's
                   beginning, the nearest state that the critic saw
    ``normalise``  ``batch``: whitened over the batch, each turn weighted by its sampled tokens; ``none``

    A turn that drew no token is no step: its reward moves to the turn before it, or after it where it is the first,
    and its advantage is 0. In an episode without token rows every turn counts as a step of one token at level
    ``turn``, and none does at the others. Needs ``values.critic`` (level turn) or ``values.tokens``.
    """

    requires_critic = True

    def __init__(
        self,
        level: Literal["turn", "token", "bilevel"] = "turn",
        gamma: float = 0.99,
        lam: float = 0.95,
        gamma_token: float = 1.0,
        lam_token: float = 1.0,
        bootstrap: Literal["none", "last"] = "none",
        normalise: Literal["none", "batch"] = "batch",
    ) -> None:
        choice("gae", "level", level, ("turn", "token", "bilevel"))
        choice("gae", "bootstrap", bootstrap, ("none", "last"))
        choice("gae", "normalise", normalise, ("none", "batch"))
        fraction("gae", gamma=gamma, lam=lam, gamma_token=gamma_token, lam_token=lam_token)
        self.level, self.bootstrap, self.normalise = level, bootstrap, normalise
        self.per_token = level != "turn"
        self._solved: tuple[list[Group], Values | None, Steps, Array] | None = None
        self.over_turns, self.over_tokens = (gamma, lam), (gamma_token, lam_token)
        self.traits = frozenset({"normalises"} if normalise == "batch" else ())

    def compute(self, groups: list[Group], values: Values | None) -> Ragged:
        """Advantages ``[group][episode][turn]``; at the token levels the mean over a turn's tokens."""
        self._solved = None
        steps, advantages = self._solve(groups, values)
        found = self._normalised(advantages, steps)
        if self.per_token:
            owner = np.repeat(np.arange(len(steps.counts)), steps.counts)
            found = np.bincount(owner, found, len(steps.counts)) / np.maximum(steps.counts, 1)
        return steps.layout.split(found)

    def compute_tokens(self, groups: list[Group], values: Values | None) -> TokenRagged:
        """Advantages ``[group][episode][turn][token]``, one for each sampled token."""
        steps, advantages = self._solve(groups, values)
        found = self._normalised(advantages, steps)
        return steps.split(found if self.per_token else np.repeat(found, steps.counts))

    def targets(self, groups: list[Group], values: Values | None) -> TokenRagged:
        """The critic's targets ``A + V`` before whitening, ``[group][episode][turn][token]``; NaN: no target.

        Level ``turn`` has one at the first token of each turn.
        """
        steps, advantages = self._solve(groups, values)
        self._solved = None  # the last of a batch's three questions: let go of its episodes
        target = advantages + steps.critic
        if not self.per_token:
            drew = steps.counts > 0
            first = np.full(int(steps.counts.sum()), np.nan)
            first[(np.cumsum(steps.counts) - steps.counts)[drew]] = target[drew]
            target = first
        return steps.split(target)

    def _solve(self, groups: list[Group], values: Values | None) -> tuple[Steps, Array]:
        """Once for all that is asked about one batch after ``compute``."""
        if self._solved is None or self._solved[0] is not groups or self._solved[1] is not values:
            steps = Steps(groups, values, self.per_token)
            self._solved = groups, values, steps, self._advantages(steps)
        return self._solved[2:]

    def _advantages(self, steps: Steps) -> Array:
        """Per turn (0 where it is no step) or per token, before whitening."""
        after = steps.last_begun() if self.bootstrap == "last" else np.zeros(len(steps.steps))
        rewards = steps.rewards[steps.step]
        if not self.per_token:
            out = np.zeros(len(steps.step))
            out[steps.step] = gae(rewards, steps.critic[steps.step], steps.steps, after, *self.over_turns)
            return out
        counts = steps.counts[steps.step]
        last = np.cumsum(counts) - 1
        per_token = np.zeros(len(steps.critic))
        if self.level == "token":
            per_token[last] = rewards
            tokens = np.bincount(steps.layout.owner, steps.counts, len(after)).astype(np.int64)
            return gae(per_token, steps.critic, tokens, after, *self.over_tokens)
        ends = steps.critic[last]
        per_token[last] = ends + gae(rewards, ends, steps.steps, after, *self.over_turns)
        return gae(per_token, steps.critic, counts, np.zeros(len(counts)), *self.over_tokens)

    def _normalised(self, advantages: Array, steps: Steps) -> Array:
        if self.normalise == "none":
            return advantages
        if self.per_token:
            return z_score(advantages, np.ones(len(advantages)), "population")
        weights = np.where(steps.step, np.maximum(steps.counts, 1), 0).astype(np.float64)
        return np.where(steps.step, z_score(advantages, weights, "population"), 0.0)


def gae(rewards: Array, critic: Array, lengths: Index, after: Array, gamma: float, lam: float) -> Array:
    """Advantages of segments laid end to end; ``after``: V after the end of each segment."""
    following = np.append(critic[1:], 0.0)[: len(critic)]
    ends = np.cumsum(lengths)[lengths > 0] - 1
    following[ends] = after[lengths > 0]
    return returns_to_go(rewards + gamma * following - critic, gamma * lam, lengths)
