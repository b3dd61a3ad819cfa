"""The credit pipeline: from groups of episodes to advantages, in one place and one order.

drop env_error/aborted -> turn rewarders -> trajectory rewarders (add, shape) -> gate -> group rewarders -> estimator
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from agentgym.credit import composition, metrics
from agentgym.credit.components import CreditError, add_component
from agentgym.credit.protocols import (
    AdvantageEstimator,
    Array,
    Ragged,
    Services,
    TrajectoryRewarder,
    TurnRewarder,
    Values,
)
from agentgym.credit.registry import make_estimator, make_rewarder
from agentgym.credit.rewarders import Outcome
from agentgym.credit.streams import Streams
from agentgym.errors import ConfigError
from agentgym.types import Group

if TYPE_CHECKING:
    from agentgym.config.recipe import Recipe

Rewarder = TurnRewarder | TrajectoryRewarder
Spec = str | Mapping[str, Mapping[str, Any]] | Rewarder
STAGES = ("turn", "add", "shape", "gate", "group")


@dataclass(slots=True)
class CreditResult:
    """``advantages[group][episode][turn]`` (zeros for failed episodes), flat log-ready ``metrics``, and ``dead``:
    per group, whether every advantage in it is 0, so that it gives no policy gradient."""

    advantages: Ragged
    metrics: dict[str, float] = field(default_factory=dict)
    dead: list[bool] = field(default_factory=list)


class CreditPipeline:
    """Rewarders and one estimator, checked against each other when built.

    ``credit``: names, ``{name: options}`` or objects. The outcome is always recorded, and it is paid unless another
    component redistributes it. ``facts``: words about the run for the composition rules. ``paid``: component -> weight.
    """

    def __init__(
        self,
        credit: Sequence[Spec] = (),
        estimator: str | AdvantageEstimator = "grpo",
        options: Mapping[str, Any] | None = None,
        *,
        facts: Sequence[str] = (),
        services: Services | None = None,
    ) -> None:
        self.services = services or Services()
        self.rewarders = sorted((_rewarder(spec) for spec in credit), key=_stage)
        self.estimator = make_estimator(estimator, options or {}) if isinstance(estimator, str) else estimator
        if options and not isinstance(estimator, str):
            raise ConfigError("estimator options go with an estimator's name, not with an estimator object")
        words = [*facts, *(word for part in (*self.rewarders, self.estimator) for word in getattr(part, "traits", ()))]
        self.paid: dict[str, float] = {}
        if "outcome" not in words:
            self.rewarders.insert(0, Outcome())
            self.paid_outcome = "redistributes_outcome" not in words
            words += ["outcome"] if self.paid_outcome else []
        composition.check(words)
        self.group_relative = "group_relative" in words
        self._plan("redistributes_outcome" in words)

    @classmethod
    def from_recipe(cls, recipe: Recipe, services: Services | None = None) -> CreditPipeline:
        """The pipeline of a recipe; ``rl.success_reward`` and ``rl.invalid_penalty`` are short forms of modules."""
        credit: list[Spec] = list(recipe.credit)
        named = {spec if isinstance(spec, str) else next(iter(spec), "") for spec in recipe.credit}
        short: dict[str, dict[str, Any]] = {}
        if recipe.rl.success_reward is not None:
            short["outcome"] = {"success_reward": recipe.rl.success_reward}
        if recipe.rl.invalid_penalty:
            short["invalid_penalty"] = {"penalty": recipe.rl.invalid_penalty}
        for name, options in short.items():
            if name in named:
                raise ConfigError(f"recipe: 'credit' lists {name!r} and 'rl' sets {next(iter(options))} too; keep one")
            credit.append({name: options})
        facts = [] if recipe.train_sampling().exact_logprobs else ["inexact_sampling"]
        return cls(credit, recipe.estimator.name, recipe.estimator.options, facts=facts, services=services)

    def _plan(self, redistributed: bool) -> None:
        for rewarder in self.rewarders:
            missing = set(getattr(rewarder, "requires", ())) - set(self.services.offered)
            if missing:
                raise ConfigError(f"credit module {_name(rewarder)!r} needs {', '.join(sorted(missing))}")
            plan = getattr(rewarder, "plan", None)
            if plan is not None:
                self.paid = plan(dict(self.paid))
            elif _name(rewarder) in self.paid:
                raise ConfigError(f"credit lists {_name(rewarder)!r} twice")
            elif not (redistributed and isinstance(rewarder, Outcome)):
                self.paid[_name(rewarder)] = float(getattr(rewarder, "weight", 1.0))

    def run(self, groups: Sequence[Group], *, critic: Ragged | None = None, step: int = 0) -> CreditResult:
        """Add components to the groups' turns and estimate advantages. Raises CreditError on NaN rewards."""
        live = [Group(g.task, [e for e in g if not e.termination.is_failure]) for g in groups]
        if self.group_relative:
            metrics.check_group_ids(groups)
        for rewarder in self.rewarders:
            if isinstance(rewarder, TurnRewarder):
                _score(rewarder, live)
            else:
                _await(rewarder.apply(live, self.services, step))
        streams = Streams([episode for group in live for episode in group])
        values = self._values(live, streams, critic)
        advantages = _expand(groups, live, self.estimator.compute(live, values))
        dead = [not any(turns.any() for turns in group) for group in advantages]
        return CreditResult(advantages, metrics.summarise(groups, live, streams, advantages, dead), dead)

    def _values(self, live: list[Group], streams: Streams, critic: Ragged | None) -> Values:
        dense = streams.sum({name: weight for name, weight in self.paid.items() if name != Outcome.name})
        total = dense + streams.sum({name: weight for name, weight in self.paid.items() if name == Outcome.name})
        outcome = iter(streams.per_episode(Outcome.name))
        return Values(
            streams.split(live, total),
            streams.split(live, dense),
            [np.array([next(outcome) for _ in group], np.float64) for group in live],
            critic,
        )


def _rewarder(spec: Spec) -> Rewarder:
    if isinstance(spec, str):
        return make_rewarder(spec, {})
    if isinstance(spec, Mapping):
        if len(spec) != 1:
            raise ConfigError(f"a credit entry is a name or {{name: options}}, got {dict(spec)!r}")
        ((name, options),) = spec.items()
        return make_rewarder(name, options or {})
    return spec


def _name(rewarder: Rewarder) -> str:
    return str(getattr(rewarder, "name", type(rewarder).__name__))


def _stage(rewarder: Rewarder) -> int:
    stage = "turn" if isinstance(rewarder, TurnRewarder) else getattr(rewarder, "stage", "add")
    if stage not in STAGES:
        raise ConfigError(f"credit module {_name(rewarder)!r}: stage must be one of {', '.join(STAGES)}; got {stage!r}")
    return STAGES.index(stage)


def _score(rewarder: TurnRewarder, groups: list[Group]) -> None:
    for group in groups:
        for episode in group:
            rewarder.reset(episode.task)
            values = [rewarder.score(episode, turn) for turn in range(len(episode.turns))]
            add_component(episode, rewarder.name, values)


def _await(work: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    errors: list[BaseException] = []

    def call() -> None:
        try:
            asyncio.run(work)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def _expand(groups: Sequence[Group], live: list[Group], estimated: Ragged) -> Ragged:
    """Zeros for failed episodes, and a check that the estimator answered for every turn of every other one."""
    out: Ragged = []
    for group, kept, found in zip(groups, live, estimated, strict=True):
        rest = iter(zip(kept, found, strict=True))
        row: list[Array] = []
        for episode in group:
            if episode.termination.is_failure:
                row.append(np.zeros(len(episode.turns)))
                continue
            advantages = np.asarray(next(rest)[1], np.float64)
            if advantages.shape != (len(episode.turns),):
                raise CreditError(f"{episode.where}: {advantages.shape} advantages for {len(episode.turns)} turns")
            if not np.isfinite(advantages).all():
                raise CreditError(f"{episode.where}: the estimator returned a non-finite advantage")
            row.append(advantages)
        out.append(row)
    return out
