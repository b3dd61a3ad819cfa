"""verl's synchronous trainer with our credit in the place of its estimators.

Of verl's loop one seam is ours, ``_compute_advantage``: it reads the step's episodes, runs the recipe's credit
pipeline and writes advantages (and every token's share of the loss) back. Around it: the order and cut of the
minibatches, what is logged and saved, and evaluation, which is the local trainer's.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.metric import reduce_metrics
from verl.utils.py_functional import rename_dict

from agentgym.credit import CreditPipeline
from agentgym.credit.pipeline import live_groups
from agentgym.registry import environment_class
from agentgym.trainers.local import setup
from agentgym.trainers.local.alarm import HackingAlarm
from agentgym.trainers.local.collect import episode_metrics
from agentgym.trainers.local.metrics import Progress
from agentgym.trainers.local.optim import learning_rate
from agentgym.trainers.local.watchdog import Watchdog
from agentgym.trainers.verl import batches, record, seam
from agentgym.trainers.verl.board import BoardStream, find_board
from agentgym.trainers.verl.credit import Assigned, assign
from agentgym.trainers.verl.evaluate import Evaluation
from agentgym.trainers.verl.services import StepCritic, trainer_services

POLL = 0.05  # seconds between two looks whether the step's episodes are all there


@register_trainer("agentgym")
class AgentGymTrainer(PPOTrainerSync):  # type: ignore[misc, unused-ignore]
    """One run of a recipe. ``tell`` is the run's board: where the trainer stands, for the launcher to see."""

    def __init__(self, config: Any) -> None:
        self.recipe, folder = seam.recipe_of(config.data)
        self.run_dir = Path(folder)
        self.window = int(config.actor_rollout_ref.rollout.max_model_len)
        self._board = find_board()
        self.critic = StepCritic()
        self.watchdog, self.step_data = Watchdog(), seam.Step()
        self.assigned: Assigned | None = None
        self.state: dict[str, Any] = {"counts": {}, "seconds": {}}
        super().__init__(config)

    def tell(self, doing: str) -> None:
        """Write on the board what the trainer begins to do."""
        self._board.beat.remote(doing, getattr(self, "global_steps", 0))

    # --- verl's hooks, in the order of a run

    def _build_replay_buffer(self) -> Any:
        """verl's, looked at often; verl takes any other name of the mode for an asynchronous one."""
        self.trainer_mode = "sync"
        buffer = super()._build_replay_buffer()
        assert isinstance(buffer, ReplayBuffer)
        buffer.poll_interval = POLL
        return buffer

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        batches.own_workers(self.role_worker_mapping)

    def _setup(self) -> None:
        self.tell("starting the workers")
        super()._setup()
        batches.own_losses(self)

    def _load_checkpoint(self) -> None:
        self.hidden_size = batches.hidden_size(self.config)
        self.credit = CreditPipeline.from_recipe(self.recipe, trainer_services(self))
        self.alarm = HackingAlarm([name for name in self.credit.paid if name != "outcome"])
        max_turns = environment_class(self.recipe.env.name).spec.max_turns
        self.divisor = setup.token_divisor(self.recipe, max_turns)
        self.tell("loading the checkpoint")
        super()._load_checkpoint()
        record.load(self)

    def fit(self, agent_loop_manager: Any) -> None:
        """verl's loop between our evaluations; the credit parts' warm-up before the first step."""
        stream: Any = BoardStream(self._board)
        self.progress = Progress(self.recipe.name, stream)
        self.log = record.open_log(self)
        with Evaluation(self) as self.evaluation:
            self.eval_policy = self.evaluation.policy
            if self.global_steps == 0:
                self.config.trainer.val_before_train = False
                record.write(self, self.evaluation.panel(), step=0)
                self._warm_up()
            self._publish()
            if self.global_steps < self.total_training_steps:
                super().fit(agent_loop_manager)
                self.global_steps -= 1  # verl counts on
            self.tell("the final evaluation")
            record.finish(self)

    def _validate(self) -> dict[str, float]:
        self.tell("evaluation")
        return self.evaluation.panel()

    def on_step_begin(self) -> None:
        """The step's episodes are being asked for."""
        self.tell("rollouts")
        self._began = time.perf_counter()

    def on_sample_end(self) -> None:
        """All episodes are there."""
        self.rollout_seconds = time.perf_counter() - self._began
        self.tell("log-probabilities and credit")
        super().on_sample_end()

    def on_step_end(self) -> None:
        """New weights go to the rollout servers."""
        self.tell("sending the weights")
        super().on_step_end()

    def _step_once(self, metrics: dict[str, Any], timing_raw: dict[str, float], sample_batch_size: int) -> Any:
        batch = super()._step_once(metrics, timing_raw, sample_batch_size)
        metrics |= self.credit.parts.feedback(live_groups(self.step_data.groups), self.global_steps - 1)
        for name in ("episodes", "tokens", "errors", "dead_groups", "rows"):
            counts = self.state["counts"]
            counts[name] = counts.get(name, 0.0) + metrics.get(f"train/{name}", 0.0)
        self._publish()
        return batch

    def _fetch_one_gen_batch(self) -> Any:
        batch = super()._fetch_one_gen_batch()
        batch["uid"] = batches.names([seam.prompt_name(int(index)) for index in batches.plain(batch["index"])])
        return batch

    def _get_required_batch_multiple(self, dp_size: int) -> int:
        return dp_size  # minibatches are ours to fill up

    def _balance_batch(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        batch.reorder(sorted(range(len(batch.keys)), key=lambda i: batch.keys[i]))  # not the order of finishing
        return super()._balance_batch(batch, *args, **kwargs)

    def _compute_ref_log_prob(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """verl's, without what it leaves behind: a mark to switch the adapter off, which the critic does not have."""
        batch = super()._compute_ref_log_prob(batch, metrics)
        batch.extra_info.pop("no_lora_adapter", None)
        return batch

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """The seam: from the step's episodes to ``advantages`` and ``shares`` along every sample."""
        keys = [k for k, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding", False)]
        step = self.step_data = seam.assemble(keys, batches.extras(keys, batch.partition_id))
        batches.check_complete(step, self.recipe)
        self._values(keys, batch.partition_id)
        number = self.global_steps - 1
        began = time.perf_counter()
        old = None
        if self.recipe.rl.old_logprobs == "trainer":
            old = batches.rows_of(keys, batch.partition_id, "old_log_probs")
        found = assign(step, self.credit, self.recipe.rl, self.recipe.seed, number, self.divisor, old)
        self.assigned = found
        batches.write(batch, found, self.use_critic)
        episodes = [episode for group in step.groups for episode in group]
        metrics |= found.metrics | episode_metrics(episodes)
        metrics |= {"train/groups": float(len(step.groups)), "train/dead_groups": float(sum(found.result.dead))}
        metrics |= {"time/credit": time.perf_counter() - began, "time/rollout": self.rollout_seconds}
        metrics |= self.watchdog.check(episodes, number)
        metrics |= self.alarm.check(metrics, self.progress.note)
        return batch

    def _values(self, keys: list[str], partition: str) -> None:
        if not self.use_critic:
            return
        values: dict[int, list[Any]] = {}
        for key, array in batches.rows_of(keys, partition, "values").items():
            group, index, row = self.step_data.places[key]
            episode = self.step_data.groups[group].episodes[index]
            if row >= 0:
                whole = np.full(len(episode.rows[row]), np.nan, np.float32)
                whole[seam.cut_of(episode.rows[row]) :] = array
                places = values.setdefault(id(episode), [np.zeros(0)] * len(episode.rows))
                places[row] = whole
        self.critic.put(values)

    def _update_critic(self, batch: Any, metrics: dict[str, Any]) -> Any:
        self.tell("the critic's update")
        assert self.assigned is not None
        plan = batches.critic_plan(self, batch)
        if plan is not None:
            output = self.critic_wg.train_mini_batch(plan.meta).get()
            found = rename_dict(output["metrics"], "critic/")
            metrics |= reduce_metrics({k: v for k, v in found.items() if k in ("critic/loss", "critic/grad_norm")})
            plan.clear()
        return batch

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        self.tell("the update")
        assert self.assigned is not None
        began = time.perf_counter()
        rl = self.recipe.rl
        rate = learning_rate(self.global_steps - 1, rl.steps, rl.lr, rl.warmup, rl.schedule)
        plan = batches.actor_plan(self, batch, rate)
        if plan is not None:
            output = self.actor_rollout_wg.update_actor(plan.meta)
            metrics |= reduce_metrics(dict(output["metrics"]))
            plan.clear()
            metrics |= {"lr": rate, "train/updates": float(len(self.assigned.minibatches) * rl.epochs)}
        metrics["time/update"] = time.perf_counter() - began
        return batch

    def _save_checkpoint(self) -> None:
        self.tell("saving")
        record.save(self)
        super()._save_checkpoint()
        record.saved(self)

    def _compute_metrics(self, batch: Any, metrics: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        super()._compute_metrics(batch, metrics, *args, **kwargs)
        record.write(self, metrics, step=self.global_steps)

    # --- what credit parts ask

    def logprobs_of(self, blocks: list[tuple[Any, Any]]) -> list[Any]:
        """Log-probabilities of ``ids`` behind ``prefix``, per (prefix, ids), under the actor's present weights."""
        return batches.score(self.actor_rollout_wg, blocks)

    def _warm_up(self) -> None:
        wanted = self.credit.parts.warmup_episodes
        if wanted:
            self.tell("the warm-up of the credit parts")
            groups = self.evaluation.warm_up(wanted)
            on_policy = self.recipe.rl.warmup_from == "policy"
            record.write(self, self.credit.parts.warm_up(live_groups(groups), on_policy), step=0)

    def _publish(self) -> None:
        named = self.credit.parts.named
        parts = {key: part for key, part in named if hasattr(part, "augment") and hasattr(part, "state_dict")}
        if parts:
            knowledge = {key: part.state_dict() for key, part in parts.items()}
            self._board.publish.remote(max(1, self.global_steps + 1), knowledge)
