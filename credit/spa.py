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
          of R. But it is a *baseline* and no more: credit given early is taken back at the end, progress in a failed
          episode is followed by ``G_t < 0``, and the progress itself gets no praise. It is potential-based shaping
          with ``P(s_t) = sum_{k<t} c_k`` and a zero terminal potential. Use it with a critic or per-turn advantages,
          or for low variance where success is common. The residual is on the last turn even if that turn was
          refused: to move it because later turns failed would look into the future.

``sum_preserving=False`` pays the credit *besides* the outcome (a kept terminal potential), with a ``weight`` that must
be stated: once rewards are normalised the rare outcome drowns the credit (measured), or the reverse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from agentgym.credit.components import CreditError, add_component
from agentgym.credit.learned import Learned, SumToLabel, flat
from agentgym.credit.learned.objectives import spearman
from agentgym.credit.learned.text import Item
from agentgym.credit.protocols import Array, Services
from agentgym.errors import ConfigError
from agentgym.types import Episode, Group


class SPA:
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
        _check(residual, labels, self.spread, self.beta, refit_every, warmup_episodes)
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
        self.warmup_episodes, self.refit_every = warmup_episodes, refit_every
        self.model = Learned(
            "spa", "turn", SumToLabel(self.spread), trunk=trunk, fit=fit, capacity=capacity, seed=seed
        )
        self.requires = self.model.requires
        self.traits = frozenset() if self.besides else frozenset({"redistributes_outcome"})
        self.traits |= {"telescoping"} if residual == "last" else set()
        self.fallbacks = self._steps = 0
        self._report: dict[str, float] = {}

    async def apply(self, groups: list[Group], svc: Services, step: int) -> None:
        """Add ``spa`` to every turn. Raises CreditError on an outcome that is not finite."""
        episodes = flat(groups)
        labels = [self._label(episode) for episode in episodes]
        if not self.model.fitted:
            self.fallbacks += len(episodes)
            credits = [np.zeros(len(episode.turns)) for episode in episodes]
            self._report = {}
        else:
            raw = self.model.predict(self.model.encode(episodes, svc, keep=True), svc)
            credits = [c * credited(episode, self.plain) for c, episode in zip(raw, episodes, strict=True)]
            self._report = diagnose(episodes, raw, credits, np.array(labels, np.float64))
        whole = self.residual == "last" or not (self.model.fitted or self.besides)
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

    def report(self) -> dict[str, float]:
        """``fallback``, and of the last batch: how credit lies and how well it ranks outcomes it was not fitted to."""
        fallback = {"fallback": float(not self.model.fitted), "fallback_episodes": float(self.fallbacks)}
        return fallback | self._report

    def warm_up(self, groups: list[Group], svc: Services) -> dict[str, float]:
        """The first fit, on episodes of the starting policy."""
        self._remember(groups, svc)
        return self.model.fit(svc)

    def feedback(self, groups: list[Group], svc: Services, step: int) -> dict[str, float]:
        """Remember the step's episodes; refit when due, or when there has been no fit yet."""
        self._remember(groups, svc)
        self._steps += 1
        due = not self.model.fitted or self._steps % self.refit_every == 0
        return self.model.fit(svc) if due else {}

    def _remember(self, groups: list[Group], svc: Services) -> None:
        episodes = [episode for episode in flat(groups) if episode.turns and not episode.termination.is_failure]
        items: Sequence[Item] = self.model.encode(episodes, svc)
        for episode, item in zip(episodes, items, strict=True):
            item["credit"] = credited(episode, self.plain).astype(np.float32)
            item["label"] = np.array([self._label(episode)])
        self.model.buffer.add(episodes, items)

    def state_dict(self) -> dict[str, Any]:
        """Estimator, buffer and counts."""
        return {"model": self.model.state_dict(), "steps": self._steps, "fallbacks": self.fallbacks}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse."""
        self.model.load_state_dict(state["model"])
        self._steps, self.fallbacks = int(state["steps"]), int(state["fallbacks"])


def credited(episode: Episode, plain: bool = False) -> Array:
    """1 on turns that may carry credit, 0 on refused ones and on repeats of (state, action); 1 throughout if plain."""
    seen: set[tuple[str, str | None]] = set()
    out = np.ones(len(episode.turns))
    for turn in () if plain else episode.turns:
        key = (turn.state_key or turn.observation, turn.action)
        out[turn.index] = turn.grounded and key not in seen
        if turn.grounded:
            seen.add(key)
    return out


def diagnose(episodes: Sequence[Episode], raw: Sequence[Array], credits: Sequence[Array], labels: Array) -> dict[str, float]:
    """``last_share``: of |credit| on last turns (1: collapsed). ``refused`` and ``refused_raw``: mean credit of refused
    turns as paid and as the estimator has it. ``masked``: share of turns without credit by rule. ``spearman``: R_hat
    against R on this batch, which the estimator has not seen."""
    total = sum(float(np.abs(c).sum()) for c in credits)
    last = sum(float(np.abs(c[-1:]).sum()) for c in credits)
    refused = np.array([not turn.grounded for episode in episodes for turn in episode.turns], bool)
    flat_raw, flat_paid = (np.concatenate([np.zeros(0), *some]) for some in (raw, credits))
    sums = np.array([float(c.sum()) for c in credits])
    return {
        "last_share": last / total if total > 0 else 0.0,
        "refused": float(flat_paid[refused].mean()) if refused.any() else 0.0,
        "refused_raw": float(flat_raw[refused].mean()) if refused.any() else 0.0,
        "masked": float(np.mean([1 - credited(e).mean() for e in episodes if e.turns] or [0.0])),
        "credit_sum": float(sums.mean()) if len(sums) else 0.0,
        "spearman": spearman(sums, labels),
    }


def _check(residual: str, labels: str, spread: float, beta: float, refit_every: int, warmup_episodes: int) -> None:
    if residual not in ("none", "last") or labels not in ("outcome", "success"):
        raise ConfigError(
            f"credit module 'spa': residual is none or last, labels is outcome or success; got {residual!r}, {labels!r}"
        )
    if not spread >= 0 or not beta >= 0 or refit_every < 1 or warmup_episodes < 0:
        raise ConfigError(
            "credit module 'spa': spread, beta and warmup_episodes must be >= 0 and refit_every >= 1; got "
            f"{spread}, {beta}, {warmup_episodes}, {refit_every}"
        )
