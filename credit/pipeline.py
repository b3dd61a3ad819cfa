"""The credit pipeline: from groups of episodes to advantages, in one place and one order.

drop env_error/aborted -> turn rewarders -> trajectory rewarders (add, shape) -> gate -> group rewarders -> estimator
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from agentgym.augment import PromptContext, PromptPatch
from agentgym.credit import composition, metrics, parts
from agentgym.credit.components import CreditError, add_component
from agentgym.credit.partition import Partition
from agentgym.credit.parts import Parts, Spec, blamed, name_of
from agentgym.credit.protocols import (
    AdvantageEstimator,
    Array,
    PromptAugmenter,
    Ragged,
    Services,
    TokenRagged,
    TrajectoryRewarder,
    TurnRewarder,
    Values,
)
from agentgym.credit.registry import make_estimator
from agentgym.credit.rewarders import Outcome
from agentgym.credit.streams import Streams
from agentgym.errors import ConfigError
from agentgym.types import Episode, Group

if TYPE_CHECKING:
    from agentgym.config.recipe import Recipe


@dataclass(slots=True)
class CreditResult:
    """What a batch of groups was given. Failed episodes get zeros.

    ``advantages``  ``[group][episode][turn]``
    ``metrics``     flat, ready to log
    ``dead``        per group, whether every advantage in it is 0, so that it gives no policy gradient
    ``tokens``      ``[group][episode][turn][token]``, from estimators that tell the tokens of a turn apart
    ``targets``     what the critic's values should have been, likewise; NaN: no target
    """

    advantages: Ragged
    metrics: dict[str, float] = field(default_factory=dict)
    dead: list[bool] = field(default_factory=list)
    tokens: TokenRagged | None = None
    targets: TokenRagged | None = None


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
        made = sorted((parts.make(spec) for spec in credit), key=parts.stage_of)
        self.estimator = make_estimator(estimator, options or {}) if isinstance(estimator, str) else estimator
        if options and not isinstance(estimator, str):
            raise ConfigError("estimator options go with an estimator's name, not with an estimator object")
        self.augmenters = [part for part in made if isinstance(part, PromptAugmenter)]
        words = [*facts, *(word for part in (*made, self.estimator) for word in getattr(part, "traits", ()))]
        words += ["augmenter", "augmenter:second"][: len(self.augmenters)]
        self.paid: dict[str, float] = {}
        if "outcome" not in words:
            made.insert(0, Outcome())
            words += ["outcome"] if "redistributes_outcome" not in words else []
        composition.check(words)
        self.group_relative = "group_relative" in words
        self.rewarders = [part for part in made if isinstance(part, TurnRewarder | TrajectoryRewarder)]
        self.parts = Parts([*made, self.estimator], self.services)
        for part in (*made, self.estimator):
            if hasattr(part, "bind"):
                part.bind(self.services)
        self._plan(made, "redistributes_outcome" in words)

    @classmethod
    def from_recipe(cls, recipe: Recipe, services: Services | None = None) -> CreditPipeline:
        """The pipeline of a recipe; ``rl.success_reward`` and ``rl.invalid_penalty`` are short forms of modules."""
        credit: list[Spec] = [_completed(spec, recipe) for spec in recipe.credit]
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

    def _plan(self, made: list[Any], redistributed: bool) -> None:
        wanted = {name_of(part): set(getattr(part, "requires", ())) for part in (*made, self.estimator)}
        if getattr(self.estimator, "requires_critic", False):
            wanted[name_of(self.estimator)].add("critic")
        for name, needs in wanted.items():
            missing = needs - set(self.services.offered)
            if missing:
                raise ConfigError(f"credit part {name!r} needs {', '.join(sorted(missing))}{_how(missing)}")
        for rewarder in self.rewarders:
            plan = getattr(rewarder, "plan", None)
            component = getattr(rewarder, "component", name_of(rewarder))
            if plan is not None:
                self.paid = plan(dict(self.paid))
            elif component in self.paid:
                raise ConfigError(f"credit lists {name_of(rewarder)!r} twice")
            elif not (redistributed and isinstance(rewarder, Outcome)):
                self.paid[component] = _weight(rewarder)

    async def augment(self, context: PromptContext) -> PromptPatch | None:
        """The first patch that a part has for this turn."""
        for part in self.augmenters:
            patch = part.augment(context)
            if isinstance(patch, Awaitable):
                patch = await patch
            if patch is not None:
                return patch
        return None

    def run(self, groups: Sequence[Group], *, critic: Ragged | None = None, step: int = 0) -> CreditResult:
        """Add components to the groups' turns and estimate advantages. Raises CreditError on NaN rewards."""
        live = live_groups(groups)
        if self.group_relative:
            metrics.check_group_ids(groups)
        for rewarder in self.rewarders:
            with blamed(rewarder):
                if isinstance(rewarder, TurnRewarder):
                    _score(rewarder, live)
                else:
                    _await(rewarder.apply(live, self.services, step))
        streams = Streams([episode for group in live for episode in group])
        partition = Partition(live, self.parts.split)
        values = self._values(partition.groups, Streams(partition.episodes) if partition.split else streams, critic)
        with blamed(self.estimator):
            estimated = partition.join(self.estimator.compute(partition.groups, values))
        advantages = _expand(groups, estimated)
        result = CreditResult(advantages, dead=[not any(turns.any() for turns in group) for group in advantages])
        result.tokens, result.targets = (
            self._per_token(method, groups, partition, values) for method in ("compute_tokens", "targets")
        )
        result.metrics = metrics.summarise(groups, live, streams, advantages, result.dead) | self.parts.report()
        return result

    def _per_token(
        self, method: str, groups: Sequence[Group], partition: Partition, values: Values
    ) -> TokenRagged | None:
        """What an estimator says about tokens, if it has that method and anything to say."""
        found = getattr(self.estimator, method, lambda *_: None)(partition.groups, values)
        return None if found is None else _expand_tokens(groups, partition.join(found))

    def _values(self, live: list[Group], streams: Streams, critic: Ragged | None) -> Values:
        dense = streams.sum({name: weight for name, weight in self.paid.items() if name != Outcome.name})
        total = dense + streams.sum({name: weight for name, weight in self.paid.items() if name == Outcome.name})
        outcome = iter(streams.per_episode(Outcome.name))
        values = Values(
            streams.split(live, total),
            streams.split(live, dense),
            [np.array([next(outcome) for _ in group], np.float64) for group in live],
            critic,
        )
        if critic is None and getattr(self.estimator, "requires_critic", False):
            values.tokens = self.services.offered["critic"].values(live)
        return values


def _completed(spec: Spec, recipe: Recipe) -> Spec:
    """An entry of a recipe, with what the recipe says elsewhere: IGPO reads the answer where a response holds it."""
    entry = {spec: {}} if isinstance(spec, str) else spec
    if not isinstance(entry, Mapping) or list(entry) != ["igpo"] or "prefix" in (entry["igpo"] or {}):
        return spec
    prefix = recipe.format.build().render("\0").partition("\0")[0]
    return {"igpo": {"prefix": prefix, **(entry["igpo"] or {})}}


def _weight(rewarder: Any) -> float:
    weight = getattr(rewarder, "weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not isfinite(weight):
        raise ConfigError(f"credit module {name_of(rewarder)!r}: weight must be a finite number, got {weight!r}")
    return float(weight)


def live_groups(groups: Sequence[Group]) -> list[Group]:
    """The groups without episodes that failed for reasons of the infrastructure."""
    return [Group(g.task, [e for e in g if not e.termination.is_failure]) for g in groups]


def _how(missing: set[str]) -> str:
    if "judge" in missing:
        return "; give the recipe a section 'judge' with the url and model of an endpoint"
    if "critic" in missing:
        return "; a trainer offers it, or pass critic=... to CreditPipeline.run"
    return ", which a trainer offers (in 'agentgym credit explain': --model CHECKPOINT)"


def _score(rewarder: TurnRewarder, groups: list[Group]) -> None:
    for group in groups:
        for episode in group:
            rewarder.reset(episode.task)
            at_once = getattr(rewarder, "scores", None)
            values = (
                at_once(episode)
                if at_once is not None
                else [rewarder.score(episode, turn) for turn in range(len(episode.turns))]
            )
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


def _expand(groups: Sequence[Group], estimated: Ragged) -> Ragged:
    """Zeros for failed episodes, and a check that the estimator answered for every turn of every other one."""
    out: Ragged = []
    for group, found in zip(groups, estimated, strict=True):
        count = sum(not episode.termination.is_failure for episode in group)
        if len(found) != count:
            raise CreditError(
                f"the estimator answered for {len(found)} of {count} episodes of task {group.task.name!r}"
            )
        rest = iter(found)
        row: list[Array] = []
        for episode in group:
            if episode.termination.is_failure:
                row.append(np.zeros(len(episode.turns)))
                continue
            advantages = np.asarray(next(rest), np.float64)
            if advantages.shape != (len(episode.turns),):
                raise CreditError(f"{episode.where}: {advantages.shape} advantages for {len(episode.turns)} turns")
            if not np.isfinite(advantages).all():
                raise CreditError(f"{episode.where}: the estimator returned a non-finite advantage")
            row.append(advantages)
        out.append(row)
    return out


def _expand_tokens(groups: Sequence[Group], estimated: TokenRagged) -> TokenRagged:
    """The same for values per token."""
    out: TokenRagged = []
    for group, found in zip(groups, estimated, strict=True):
        rest = iter(found)
        out.append([_no_tokens(e) if e.termination.is_failure else next(rest) for e in group])
    return out


def _no_tokens(episode: Episode) -> list[Array]:
    return [np.full(turn.end - turn.start, 0.0) for turn in episode.turns]
