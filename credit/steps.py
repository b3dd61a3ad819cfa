"""The steps of generalised advantage estimation: which turns are steps, their rewards, and the critic's values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from agentgym.credit.components import CreditError
from agentgym.credit.numerics import outcome_values
from agentgym.credit.protocols import Array, TokenRagged, Values
from agentgym.credit.streams import Flags, Index, Layout, sampled_counts, text_only
from agentgym.errors import ConfigError
from agentgym.types import Group, Turn


class Steps:
    """Flat arrays over the turns of a batch.

    ``counts``   sampled tokens of each turn; ``step``: is the turn a step? (it drew tokens, or, where tokens are not
                 looked at, its episode has no token rows)
    ``rewards``  of each turn, those of other turns moved to the step before, or else after, in the same episode
    ``steps``    per episode, the number of its steps
    ``critic``   per turn (``per_token=False``, NaN allowed where the turn is no step) or per sampled token

    Raises ConfigError without a critic, CreditError where its values do not fit the turns or are not finite.
    """

    def __init__(self, groups: list[Group], values: Values | None, per_token: bool) -> None:
        values = values or outcome_values(groups)
        self.groups, self.per_token, self.layout = groups, per_token, Layout(values.total)
        self.counts: Index = sampled_counts(groups)
        self.step: Flags = self.counts > 0 if per_token else (self.counts > 0) | text_only(groups)
        episodes = len(self.layout.lengths)
        self.steps: Index = np.bincount(self.layout.owner, self.step, episodes).astype(np.int64)
        self.rewards = self._moved(self.layout.flat(values.total))
        self.critic = self._critic(values)

    def last_begun(self) -> Array:
        """Per episode that a limit cut, V at the beginning of its last step; 0 for all others."""
        out = np.zeros(len(self.steps))
        cut = [episode.termination.is_truncation for group in self.groups for episode in group]
        chosen = np.array(cut, np.bool_) & (self.steps > 0)
        at = np.cumsum(self.steps)[chosen] - 1  # among steps
        if self.per_token:
            counts = self.counts[self.step]
            out[chosen] = self.critic[(np.cumsum(counts) - counts)[at]]
        else:
            out[chosen] = self.critic[self.step][at]
        return out

    def split(self, tokens: Array) -> TokenRagged:
        """Values of all sampled tokens as ``[group][episode][turn][token]``."""
        ends = np.cumsum(self.counts).tolist()
        pieces = iter([tokens[end - n : end] for end, n in zip(ends, self.counts.tolist(), strict=True)])
        return [[list(islice(pieces, len(episode.turns))) for episode in group] for group in self.groups]

    def _moved(self, rewards: Array) -> Array:
        turns, ends = np.arange(len(rewards)), self.layout.ends
        before = np.maximum.accumulate(np.where(self.step, turns, -1)) if len(turns) else turns
        after = np.minimum.accumulate(np.where(self.step, turns, len(turns))[::-1])[::-1] if len(turns) else turns
        begin, end = (ends - self.layout.lengths)[self.layout.owner], ends[self.layout.owner]
        target = np.where(before >= begin, before, np.where(after < end, after, turns))
        return np.bincount(target, rewards, len(rewards)).astype(np.float64)

    def _critic(self, values: Values) -> Array:
        if values.tokens is not None and (self.per_token or values.critic is None):
            tokens = [turn for group in values.tokens for episode in group for turn in episode]
            if list(map(len, tokens)) != self.counts.tolist():
                self._misfit(tokens)
            flat = np.concatenate([np.zeros(0), *tokens])
            owner = np.repeat(np.arange(len(self.counts)), self.counts)
            if not self.per_token:  # V at a turn's beginning is V before its first token
                out = np.full(len(self.counts), np.nan)
                out[self.counts > 0] = flat[(np.cumsum(self.counts) - self.counts)[self.counts > 0]]
                flat, owner = out, np.arange(len(out))
        elif values.critic is not None and not self.per_token:
            flat, owner = self.layout.flat(values.critic), np.arange(len(self.counts))
        else:
            what = "values.tokens, a value before each sampled token" if self.per_token else "values.critic"
            raise ConfigError(
                f"estimator 'gae' needs {what}, and got none: a trainer that fits a critic must offer it. Without one "
                "use an estimator with a group baseline (gigpo, rloo) or 'reinforce_pp'"
            )
        wrong = ~np.isfinite(flat) & self.step[owner]
        if wrong.any():
            episode, turn = self._place(int(owner[np.flatnonzero(wrong)[0]]))
            raise CreditError(f"{episode}, turn {turn.index}: the critic's value is {flat[wrong][0]}, must be finite")
        return flat

    def _place(self, flat_turn: int) -> tuple[str, Turn]:
        turns = [(episode, turn) for group in self.groups for episode in group for turn in episode.turns]
        return turns[flat_turn][0].where, turns[flat_turn][1]

    def _misfit(self, tokens: Sequence[Array]) -> None:
        if len(tokens) != len(self.counts):
            raise CreditError(f"the critic valued {len(tokens)} turns of a batch of {len(self.counts)}")
        at = next(i for i, (turn, n) in enumerate(zip(tokens, self.counts, strict=True)) if len(turn) != n)
        episode, turn = self._place(at)
        raise CreditError(
            f"{episode}, turn {turn.index}: the critic gave {len(tokens[at])} values for {self.counts[at]} sampled "
            "tokens; it must give one before each of them"
        )
