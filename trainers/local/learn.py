"""What credit modules and the critic learn in a run: before the first update, after each one, and across restarts."""

from __future__ import annotations

import time
from typing import Any

from agentgym.config.recipe import Recipe
from agentgym.credit import CreditPipeline
from agentgym.credit.pipeline import live_groups
from agentgym.environment import Environment
from agentgym.trainers.local import model as models
from agentgym.trainers.local import panels, setup
from agentgym.trainers.local.collect import Collector, StepData
from agentgym.trainers.local.services import Offer
from agentgym.trainers.local.state import RunState
from agentgym.types import Group, TaskSet


class CreditLearning:
    """Fits what the recipe's credit parts keep. Parts are frozen while a step's credit is assigned."""

    def __init__(self, recipe: Recipe, credit: CreditPipeline, state: RunState) -> None:
        self.recipe, self.credit, self.state = recipe, credit, state
        self.has_critic = bool(getattr(credit.estimator, "requires_critic", False))

    def warm_up(self, collector: Collector, env: Environment, train: TaskSet, policy: Any) -> dict[str, float]:
        """Roll out the starting policy, or the noisy expert, and fit what asks for it; {} where nothing does."""
        episodes = self.credit.parts.warmup_episodes
        if not episodes:
            return {}
        began = time.perf_counter(), time.process_time()
        source = self.recipe.env.warmup
        tasks = train if source is None else panels.task_set(env, source)
        on_policy = self.recipe.rl.warmup_from == "policy"
        if on_policy:
            groups = collector.warm_up(tasks, episodes)
        else:
            groups = self._demonstrations(collector, tasks, episodes, policy)
        metrics = self.credit.parts.warm_up(live_groups(groups), on_policy)
        self.state.count(warmup_episodes=sum(len(group) for group in groups))
        self.state.spend("warm_up", time.perf_counter() - began[0])
        self.state.spend("rl_seconds", time.perf_counter() - began[0])
        self.state.spend("rl_cpu_seconds", time.process_time() - began[1])
        return metrics

    def _demonstrations(self, collector: Collector, tasks: TaskSet, episodes: int, policy: Any) -> list[Group]:
        """One episode of the noisy expert for each of so many tasks."""
        teacher = setup.make_teacher(self.recipe, policy, models.window_of(policy.model))
        with setup.make_engine(self.recipe, teacher, self.recipe.train_sampling()) as engine:
            return collector.warm_up(tasks, episodes, engine, 1)

    def trains_policy(self, step: int) -> bool:
        """False in the steps that are the critic's alone."""
        return not self.has_critic or step >= self.recipe.critic.warmup

    def after(self, data: StepData, step: int) -> dict[str, float]:
        """Fit the critic and tell every part what the step brought, after the policy's update."""
        started = time.perf_counter()
        metrics: dict[str, float] = {}
        if self.has_critic:
            critic = self.credit.services.offered["critic"]
            for groups, targets in data.targets:
                metrics |= {f"critic/{key}": value for key, value in critic.fit(groups, targets).items()}
        metrics |= self.credit.parts.feedback(live_groups(data.groups), step)
        metrics["time/credit_fit"] = time.perf_counter() - started
        return metrics

    def save(self) -> None:
        """Put what was learnt into the run's state."""
        self.state.credit = self.credit.parts.state_dict()
        offered = self.credit.services.offered
        critic = offered.made("critic") if isinstance(offered, Offer) else None
        self.state.critic = critic.state_dict() if critic is not None else {}

    def load(self) -> None:
        """The inverse of :meth:`save`."""
        state: dict[str, Any] = self.state.credit
        self.credit.parts.load_state_dict(state)
        if self.state.critic:
            self.credit.services.offered["critic"].load_state_dict(self.state.critic)
