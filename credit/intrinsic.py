"""Rewards from the policy's own confidence: self-certainty (Intuitor) and the curiosity bonus (CDE)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from agentgym.credit.components import add_component
from agentgym.credit.protocols import Array, Services
from agentgym.errors import ConfigError
from agentgym.types import Episode, Group


def self_certainty(logits: npt.NDArray[Any], constant: bool = True) -> Array:
    """``KL(U || p)`` per token in nats, [...] from logits [..., V]: ``logsumexp(l) - mean(l) - log V`` (Intuitor).

    0 for a uniform distribution, larger the surer. ``constant=False`` leaves ``log V`` in, as the released code does,
    which no centred advantage sees. A function only: no service offers logits. Known exploit: confident filler.
    """
    x = np.asarray(logits, np.float64)
    top = x.max(axis=-1, keepdims=True)
    spread: Array = np.log(np.exp(x - top).sum(axis=-1)) + top[..., 0] - x.mean(axis=-1)
    return spread - np.log(x.shape[-1]) if constant else spread


def curiosity_bonus(outcome: float, nll: float, omega: float = 0.5, kappa: float = 3.0, alpha: float = 0.3) -> float:
    """``omega * min(|R| / kappa, alpha * nll)``, the actor bonus of CDE: at most a share of the outcome's size, so
    that exploring never outweighs solving. ``nll``: mean negative log-probability of the drawn tokens, nats, >= 0."""
    return omega * min(abs(outcome) / kappa, alpha * nll)


class Curiosity:
    """Adds the component ``curiosity``: :func:`curiosity_bonus` on each episode's last turn.

    ``signed``  True (default): ``|R| = 1`` for every episode, as with outcomes of +1 and -1; False: the environment's
                outcome, where an outcome of 0 gets no bonus
    ``decay``   ``omega`` is multiplied by it after every ``every`` training steps (a staircase; 1: constant)

    The log-probabilities are those recorded when the tokens were drawn, at the sampling temperature. An episode
    without tokens gets 0 and is counted.
    """

    name = "curiosity"
    traits: frozenset[str] = frozenset()
    requires: frozenset[str] = frozenset()

    def __init__(
        self,
        omega: float = 0.5,
        kappa: float = 3.0,
        alpha: float = 0.3,
        decay: float = 0.5,
        every: int = 100,
        signed: bool = True,
        weight: float = 1.0,
    ) -> None:
        if omega < 0 or kappa <= 0 or alpha < 0 or not 0 <= decay <= 1 or every < 1:
            raise ConfigError(
                "curiosity: omega and alpha >= 0, kappa > 0, decay in [0, 1], every >= 1; "
                f"got {omega}, {alpha}, {kappa}, {decay}, {every}"
            )
        self.omega, self.kappa, self.alpha, self.decay, self.every = omega, kappa, alpha, decay, every
        self.signed, self.weight = signed, float(weight)
        self._report: dict[str, float] = {}

    async def apply(self, groups: list[Group], svc: Services, step: int) -> None:
        """Write the bonus."""
        omega = self.omega * self.decay ** (step // self.every)
        known: list[float] = []
        missing = 0
        for group in groups:
            for episode in group:
                nll = mean_nll(episode)
                values = np.zeros(len(episode.turns))
                if nll is None:
                    missing += 1
                else:
                    known.append(nll)
                    size = 1.0 if self.signed else episode.outcome
                    values[-1:] = curiosity_bonus(size, max(nll, 0.0), omega, self.kappa, self.alpha)
                add_component(episode, self.name, values)
        self._report = {"omega": omega, "episodes_without": float(missing)}
        if known:
            self._report["nll"] = float(np.mean(known))

    def report(self) -> dict[str, float]:
        """``omega`` in use, mean ``nll`` a token, ``episodes_without`` tokens."""
        return self._report


def mean_nll(episode: Episode) -> float | None:
    """Mean negative log-probability of an episode's drawn tokens; None without tokens."""
    drawn = [row.logprobs[row.mask] for row in episode.rows]
    count = sum(map(len, drawn))
    return -float(sum(part.sum(dtype=np.float64) for part in drawn)) / count if count else None
