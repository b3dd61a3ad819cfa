"""SPA: stepwise progress attribution, a learned credit per turn (arXiv 2505.20732).

An estimator ``c_t = f(turn t)`` is fitted so that its sum over an episode gives the outcome R. The published loss
alone collapses: the last action tells a success from a failure, so all credit moves there and the sparse reward is
back. Hence ``spread``, and three rules for turns whose credit would be farmed (``plain=True`` turns all of it off):

* loss ``mean((sum_t c_t - R)^2) + spread * mean_i sum_t c_t^2``;
* a turn that the environment refused (``grounded=False``) has credit 0, in the fit and after it;
* an action is credited once per episode in the same state, so that loops pay nothing;
* grounding, if wanted, is a penalty ``-beta * (1 - g_t)``: the published bonus ``beta * g_t`` pays for stalling.

What is paid (``residual``), with ``G_t`` the undiscounted return-to-go:

``none``  (default) the credit itself, *instead of* the outcome. ``G_t = sum_{k>=t} c_k``: a turn that made progress is
          encouraged in a failed episode too, which is where a sparse task has most of its data. A deliberate bias:
          the policy climbs R_hat, so an error of the estimator is an error of the goal. Watch ``spearman``, and the
          outcome beside the credit.
``last``  ``c_{T-1} += R - sum_t c_t`` (``sum_preserving``), so that the rewards sum to R. Exact: ``c_t`` follows from
          the past, so ``G_t = R - sum_{k<t} c_k`` is R minus a history-dependent baseline and the gradient is that
          of R. But it is a *baseline* and no more: what is credited early is taken back at the end, so that progress
          in a failed episode is followed by ``G_t < 0`` and has no praise itself. It is potential-based shaping with
          ``P(s_t) = sum_{k<t} c_k`` and a zero terminal potential; a discount below 1 moves it towards ``none``. For
          a critic, for per-turn advantages, or where success is common and variance is the trouble. The residual is
          on the last turn even if that turn was refused: to move it because later turns failed would look into the
          future.

Measured, tabular policy on Quest, return-to-go at gamma .97, whitened, 60 updates of 64 episodes, mean success at the
end: 5 rooms, 3 chests, estimator fitted to 600 half-random demonstrations of a smaller game and frozen, 3 seeds:
outcome .30, ``last`` .49, ``none`` .81, besides the outcome .82. 4 rooms, 2 chests, estimator fitted to the policy's
own episodes only (2 % succeed), 4 seeds that spread by .2: outcome .51, ``last`` .55, ``none`` .46, besides .50;
plain .00, where the grounding bonus pays for not finishing.

``sum_preserving=False`` pays the credit *besides* the outcome (a kept terminal potential), with a ``weight`` that must
be stated, since the two are on no common scale: where rewards are normalised a rare outcome can drown the credit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from agentgym.credit.components import CreditError, add_component
from agentgym.credit.learned import Learned, LearnedPart, SumToLabel, flat
from agentgym.credit.learned.attribution import credited, diagnose
from agentgym.credit.learned.text import Item
from agentgym.credit.protocols import Array, Services
from agentgym.errors import ConfigError
from agentgym.types import Episode, Group


class SPA(LearnedPart):
    """Component ``spa``: ``alpha * c_t`` and the grounding term; see the module for ``residual`` and ``plain``.

    Until a first fit (no warm-up, or all labels alike) the outcome is paid on the last turn, as without SPA, and
    ``report()`` says ``fallback`` 1 and how many episodes that concerned so far. ``labels``: what R is, the
    environment's score or its yes/no. The estimator is refitted every ``refit_every`` steps, on the last ``capacity``
    episodes, and is frozen in between. ``trunk``, ``fit``: :mod:`agentgym.credit.learned`.
    """

    name = "spa"

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float | None = None,
        spread: float | None = None,
        residual: Literal["none", "last"] = "none",
        sum_preserving: bool | None = None,
        weight: float | None = None,
        labels: Literal["outcome", "success"] = "outcome",
        plain: bool = False,
        trunk: str | Mapping[str, Any] = "words",
        fit: Mapping[str, Any] | None = None,
        capacity: int = 2048,
        warmup_episodes: int = 256,
        refit_every: int = 5,
        seed: int = 0,
    ) -> None:
        self.spread = (0.0 if plain else 0.5) if spread is None else spread
        self.beta = (0.5 if plain else 0.0) if beta is None else beta
        _check(residual, labels, self.spread, self.beta)
        if sum_preserving and residual != "last":
            raise ConfigError("credit module 'spa': sum_preserving needs residual: last")
        if sum_preserving is False and (weight is None or residual == "last"):
            raise ConfigError(
                "credit module 'spa': with sum_preserving: false the outcome is paid besides; state the weight, "
                "and leave residual at none"
            )
        self.besides = sum_preserving is False
        self.alpha, self.residual, self.labels, self.plain = alpha, residual, labels, plain
        self.weight = 1.0 if weight is None else weight
        model = Learned("spa", "turn", SumToLabel(self.spread), trunk=trunk, fit=fit, capacity=capacity, seed=seed)
        super().__init__(model, warmup_episodes, refit_every)
        self.traits = frozenset() if self.besides else frozenset({"redistributes_outcome"})
        self.traits |= {"telescoping"} if residual == "last" else set()

    async def apply(self, groups: list[Group], svc: Services, step: int) -> None:
        """Add ``spa`` to every turn. Raises CreditError on an outcome that is not finite."""
        episodes = flat(groups)
        labels = [self._label(episode) for episode in episodes]
        fallback = self.fall_back(len(episodes))
        if fallback:
            credits = [np.zeros(len(episode.turns)) for episode in episodes]
        else:
            raw = self.model.predict(self.model.encode(episodes, svc, keep=True), svc)
            credits = [c * credited(episode, self.plain) for c, episode in zip(raw, episodes, strict=True)]
            self._report = diagnose(episodes, raw, credits, np.array(labels, np.float64))
        whole = self.residual == "last" or (fallback and not self.besides)
        for episode, credit, label in zip(episodes, credits, labels, strict=True):
            paid = self.alpha * credit
            if whole and len(paid):
                paid[-1] += self.alpha * (label - float(credit.sum()))
            add_component(episode, self.name, paid + self._grounding(episode))

    def _label(self, episode: Episode) -> float:
        label = float(episode.success) if self.labels == "success" else float(episode.outcome)
        if not np.isfinite(label):
            raise CreditError(f"{episode.where}: the outcome is {label}; SPA divides a finite outcome among turns")
        return label

    def _grounding(self, episode: Episode) -> Array:
        g = np.array([turn.grounded for turn in episode.turns], np.float64)
        return self.beta * g if self.plain else -self.beta * (1 - g)

    def remember(self, groups: list[Group], svc: Services) -> None:
        """All episodes that have turns, with R and the turns that may carry credit."""
        episodes = [episode for episode in flat(groups) if episode.turns and not episode.termination.is_failure]
        items: Sequence[Item] = self.model.encode(episodes, svc)
        for episode, item in zip(episodes, items, strict=True):
            item["credit"] = credited(episode, self.plain).astype(np.float32)
            item["label"] = np.array([self._label(episode)])
        self.model.buffer.add(episodes, items)


def _check(residual: str, labels: str, spread: float, beta: float) -> None:
    for option, value, allowed in (
        ("residual", residual, ("none", "last")),
        ("labels", labels, ("outcome", "success")),
    ):
        if value not in allowed:
            raise ConfigError(f"credit module 'spa': {option} is {' or '.join(allowed)}; got {value!r}")
    if not spread >= 0 or not beta >= 0:
        raise ConfigError(f"credit module 'spa': spread and beta must be >= 0; got {spread} and {beta}")
