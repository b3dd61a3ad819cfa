"""MiRA's mixed advantage: one-step TD and Monte Carlo against a learned value (arXiv 2603.19685, as in DigiRL)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from agentgym.credit.components import CreditError
from agentgym.credit.learned import Learned, LearnedPart, SuccessBCE, flat
from agentgym.credit.numerics import choice, fraction, is_constant, outcome_values, returns_to_go
from agentgym.credit.protocols import Array, Ragged, Services, TokenRagged, Values
from agentgym.credit.streams import sampled_counts
from agentgym.errors import ConfigError
from agentgym.types import Episode, Group


class MixedAdvantage(LearnedPart):
    """``A_t = lam * (r'_t + gamma * V(s_{t+1}) - V(s_t)) + (1 - lam) * (R_MC,t - V(s_t))``.

    ``r'`` is the sum of all paid rewards, shaping included. ``lam``, ``gamma`` and what R_MC is are not public: .5, 1
    and ``mc="outcome"``, the outcome alone, ``gamma^{T-1-t} R`` (``shaped``: the return-to-go of ``r'``).

    V (``critic``): ``learned``: the probability of success by binary cross-entropy on the states of recent episodes of
    *all* outcomes, weighted to their true frequencies, and put on the outcome's scale: ``V = p m_1 + (1 - p) m_0`` with
    m the mean outcome of successes and of failures (1 and 0 where the outcome is the success). ``trainer``: the
    trainer's value model; it is fitted to the Monte Carlo return at each turn's first token. Values handed in as
    ``values.critic`` ([turn], at the turns' beginnings) are used in any case.

    ``V(s_T) = 0`` at every end, so that running out of turns counts as it does in the return. ``bootstrap=True`` keeps
    the learned ``V(s_T)`` where a limit cut the episode (``Termination.is_truncation``). A model not fitted yet (no
    warm-up, or episodes that all went alike) is replaced by a constant, the batch's mean outcome; ``report()`` says
    ``fallback`` 1. There is no group baseline: a group of one is as good as any. Refitted every ``refit_every`` steps.
    """

    name = "mira"
    traits: frozenset[str] = frozenset()
    on_policy = True  # of an expert's episodes it would learn that promising states succeed, and punish being in them

    def __init__(
        self,
        lam: float = 0.5,
        gamma: float = 1.0,
        mc: Literal["outcome", "shaped"] = "outcome",
        critic: Literal["learned", "trainer"] = "learned",
        bootstrap: bool = False,
        trunk: str | Mapping[str, Any] = "words",
        fit: Mapping[str, Any] | None = None,
        capacity: int = 2048,
        warmup_episodes: int = 256,
        refit_every: int = 5,
        seed: int = 0,
    ) -> None:
        choice("mira", "mc", mc, ("outcome", "shaped"))
        choice("mira", "critic", critic, ("learned", "trainer"))
        fraction("mira", lam=lam, gamma=gamma)
        if critic == "trainer" and bootstrap:
            raise ConfigError(
                "estimator 'mira': the trainer's critic values turns, not ends; bootstrap needs critic: learned"
            )
        self.lam, self.gamma, self.mc, self.bootstrap = lam, gamma, mc, bootstrap
        self.requires_critic = critic == "trainer"
        model = Learned(
            "mira value", "state", SuccessBCE(), trunk=trunk, fit=fit, capacity=capacity, weighted=True, seed=seed
        )
        super().__init__(model, 0 if self.requires_critic else warmup_episodes, refit_every)
        self._services = Services()
        if self.requires_critic:
            self.requires, self.targets = frozenset(), self._targets

    def compute(self, groups: list[Group], values: Values | None) -> Ragged:
        """Advantages ``[group][episode][turn]``. Raises CreditError where given values do not fit the turns."""
        values = values or outcome_values(groups)
        given = values.critic if values.critic is not None else self._valued(groups, values)
        returns = self._returns(values)
        return [
            [self._advantage(*parts) for parts in zip(group, total, mc, v, strict=True)]
            for group, total, mc, v in zip(groups, values.total, returns, given, strict=True)
        ]

    def _advantage(self, episode: Episode, total: Array, mc: Array, v: Array) -> Array:
        turns = len(episode.turns)
        if v.shape not in ((turns,), (turns + 1,)) or not np.isfinite(v).all():
            raise CreditError(f"{episode.where}: {turns} turns need as many finite values; got {v.tolist()[:8]}")
        keep = self.bootstrap and episode.termination.is_truncation and len(v) > turns
        after = np.append(v[1:turns], v[turns] if keep else 0.0)[:turns]
        v = v[:turns]
        mixed: Array = self.lam * (total + self.gamma * after - v) + (1 - self.lam) * (mc - v)
        return mixed

    def _returns(self, values: Values) -> Ragged:
        if self.mc == "shaped":
            return [[returns_to_go(total, self.gamma) for total in group] for group in values.total]
        return [
            [
                outcome * self.gamma ** np.arange(len(total) - 1, -1, -1.0)
                for total, outcome in zip(group, outcomes, strict=True)
            ]
            for group, outcomes in zip(values.total, values.outcome, strict=True)
        ]

    def report(self) -> dict[str, float]:
        """As :class:`LearnedPart`; nothing where the values are the trainer's critic's, which reports itself."""
        return {} if self.requires_critic else super().report()

    def _valued(self, groups: list[Group], values: Values) -> Ragged:
        if self.requires_critic:
            if values.tokens is None:
                raise ConfigError(
                    "estimator 'mira' with critic: trainer got no values.critic; the trainer must fit and offer one"
                )
            return [[_begins(turns) for turns in group] for group in values.tokens]
        if self.fall_back(sum(map(len, groups))):
            outcomes = np.concatenate([np.zeros(0), *values.outcome])
            # where all are equal, that very number: an average may be a rounding error off, and a batch then not dead
            mean = 0.0 if not len(outcomes) else float(outcomes[0] if is_constant(outcomes) else outcomes.mean())
            return [[np.full(len(episode.turns) + 1, mean) for episode in group] for group in groups]
        items = self.model.encode(flat(groups), self._services, keep=True)
        low, high = self._scale()
        found = iter([low + (high - low) * p for p in self.model.predict(items, self._services)])
        out = [[next(found) for _ in group] for group in groups]
        every = np.concatenate([np.zeros(0), *(v[:-1] for group in out for v in group)])
        self._report = {"value_mean": float(every.mean()) if len(every) else 0.0}
        return out

    def _scale(self) -> tuple[float, float]:
        """Mean outcome of remembered failures and of successes."""
        samples = self.model.buffer.samples
        lost, won = ([s.paid for s in samples if s.success is kind] for kind in (False, True))
        return float(np.mean(lost or [0.0])), float(np.mean(won or [1.0]))

    def _targets(self, groups: list[Group], values: Values | None) -> TokenRagged:
        """The Monte Carlo return at each turn's first token, NaN at its others."""
        returns = self._returns(values or outcome_values(groups))
        counts = iter(sampled_counts(groups).tolist())
        return [[[_first(next(counts), float(g)) for g in mc] for mc in row] for row in returns]

    def feedback(self, groups: list[Group], svc: Services, step: int) -> dict[str, float]:
        """As in every learned part; nothing where the trainer's critic is used, which the trainer fits."""
        return {} if self.requires_critic else super().feedback(groups, svc, step)

    def remember(self, groups: list[Group], svc: Services) -> None:
        """All episodes that have turns, with their success and the outcome as it was paid."""
        self._services = svc
        episodes = [episode for episode in flat(groups) if episode.turns]
        items = self.model.encode(episodes, svc)
        for episode, item in zip(episodes, items, strict=True):
            item["label"] = np.full(len(episode.turns) + 1, float(episode.success))
        self.model.buffer.add(episodes, items, [_paid(episode) for episode in episodes])


def _paid(episode: Episode) -> float:
    """The outcome as recorded (a recipe may pay 10 for a success), or the environment's where none was."""
    recorded = [turn.rewards["outcome"] for turn in episode.turns if "outcome" in turn.rewards]
    return float(sum(recorded)) if recorded else float(episode.outcome)


def _begins(turns: list[Array]) -> Array:
    """The value at each turn's first token; a turn that drew none has that of the next one that did."""
    out, after = np.zeros(len(turns)), 0.0
    for t in range(len(turns) - 1, -1, -1):
        after = out[t] = turns[t][0] if len(turns[t]) else after
    return out


def _first(tokens: int, value: float) -> Array:
    out = np.full(tokens, np.nan)
    out[:1] = value
    return out
