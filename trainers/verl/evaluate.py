"""Evaluation and warm-up rollouts of a verl run: the local trainer's panels, played by verl's rollout servers.

The environments run in (worker processes of) the trainer's process, on one machine; training episodes do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentgym.registry import make
from agentgym.seeding import derive_seed
from agentgym.trainers.local import panels, setup
from agentgym.trainers.local.collect import Collector
from agentgym.trainers.verl.policy import ServerPolicy, end_ids_of
from agentgym.types import Group

if TYPE_CHECKING:
    from agentgym.trainers.verl.trainer import AgentGymTrainer


class Evaluation:
    """Panels of one run; a context manager, since it owns environment workers."""

    def __init__(self, trainer: AgentGymTrainer) -> None:
        from agentgym.trainers.verl.loop import _generation_config

        self.trainer, self.recipe = trainer, trainer.recipe
        rollout, path = trainer.config.actor_rollout_ref.rollout, trainer.config.actor_rollout_ref.model.path
        self.policy = ServerPolicy(
            trainer.get_llm_client(), trainer.tokenizer, end_ids_of(trainer.tokenizer, _generation_config(path)),
            trainer.window, seeded=rollout.name != "vllm" or bool(rollout.full_determinism), name=self.recipe.name,
        )  # fmt: skip
        self.env = make(self.recipe.env.name, **self.recipe.env.options)
        self.tasks = panels.task_set(self.env, self.recipe.env.eval)
        self.augmenter = trainer.credit if trainer.credit.augmenters else None
        self.engine = setup.make_engine(self.recipe, self.policy, self.recipe.eval_sampling(), augmenter=self.augmenter)

    def __enter__(self) -> Evaluation:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()
        self.env.close()

    def panel(self) -> dict[str, float]:
        """The evaluation panel under the present weights, as metrics ``eval/...``."""
        seed = derive_seed(self.recipe.seed, "eval")
        return panels.flat(panels.score_panel(self.engine, self.recipe, self.tasks, seed))

    def tests(self, label: str) -> list[dict[str, Any]]:
        """Every test panel under the present weights; the records of :mod:`agentgym.evaluation`."""
        results = []
        for source in (self.recipe.env.test, *self.recipe.env.extra_tests):
            tasks = panels.optional_task_set(self.env, source, self.trainer.progress.note)
            if tasks is None:
                continue
            seed = derive_seed(self.recipe.seed, "final", source.label)
            store = self.trainer.run_dir / "episodes" / f"{label}-{source.label.replace('/', '-')}.agym"
            with setup.make_engine(
                self.recipe, self.policy, self.recipe.eval_sampling(), source.max_turns, self.augmenter
            ) as engine:
                result = panels.score_panel(engine, self.recipe, tasks, seed, store=store)
            order = [1, 0, self.trainer.global_steps]
            results.append({**result, "policy": label, "name": source.label, "order": order})
            self.trainer.progress.note(
                f"{label} {source.label}: success {result['success']:.1%} [{result['success_low']:.1%}, "
                f"{result['success_high']:.1%}] on {result['tasks']} tasks"
            )
        return results

    def warm_up(self, episodes: int) -> list[Group]:
        """Episodes on which credit parts that learn are fitted before the first update."""
        recipe, source = self.recipe, self.recipe.env.warmup or self.recipe.env.train
        tasks = panels.task_set(self.env, source)
        if recipe.rl.warmup_from == "policy":
            player: Any = self.policy
            size = recipe.rl.group_size
        else:
            player, size = setup.make_teacher(recipe, self.policy, self.trainer.window), 1
        with setup.make_engine(recipe, player, recipe.train_sampling()) as engine:
            collector = Collector(engine, tasks, self.trainer.credit, recipe.rl, recipe.seed)
            return collector.warm_up(tasks, episodes, engine, size)
