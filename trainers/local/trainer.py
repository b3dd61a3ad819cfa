"""The local trainer: model -> warm start -> RL steps -> final evaluation, in one readable loop.

Everything random is a function of the recipe's seed and a step number, so a run that was killed at any moment and
resumed ends with the same weights, bit for bit, as one that was not (CPU, same thread count).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from agentgym.config.recipe import Recipe
from agentgym.credit import CreditPipeline
from agentgym.errors import DataError
from agentgym.seeding import derive_seed
from agentgym.trainers.local import finish, panels, setup
from agentgym.trainers.local import model as models
from agentgym.trainers.local.alarm import HackingAlarm
from agentgym.trainers.local.batch import TrainRow, check_window
from agentgym.trainers.local.checkpoint import Checkpoint, CheckpointStore, load_optimizer, load_weights
from agentgym.trainers.local.choices import choices_of
from agentgym.trainers.local.collect import Collector
from agentgym.trainers.local.demos import Demonstrations
from agentgym.trainers.local.interrupt import Interrupted, InterruptGuard
from agentgym.trainers.local.learn import CreditLearning
from agentgym.trainers.local.metrics import MetricsLog, Progress, trackers_of
from agentgym.trainers.local.optim import Optimizer, TrainingStopped
from agentgym.trainers.local.reference import ReferenceKeeper
from agentgym.trainers.local.services import make_services
from agentgym.trainers.local.sft import WarmStart
from agentgym.trainers.local.sources import Training, sampler_of, sources_of
from agentgym.trainers.local.state import RunState
from agentgym.trainers.local.update import PolicyUpdate
from agentgym.trainers.local.watchdog import Watchdog
from agentgym.types import Episode

#: metrics of a step whose totals the run keeps
COUNTED = ("episodes", "tokens", "errors", "dead_groups", "rows")


class LocalTrainer:
    """Runs ``recipe`` in ``run_dir``. ``resume`` goes on from the newest complete checkpoint there.

    :meth:`run` returns the final evaluations. Ctrl-C saves and ends the process with code 130.
    """

    def __init__(self, recipe: Recipe, run_dir: str | Path, resume: bool = False, quiet: bool = False) -> None:
        setup.check_recipe(recipe)
        self.recipe, self.run_dir, self.resume = recipe, Path(run_dir), resume
        self.progress = Progress(recipe.name, quiet=quiet)
        self.guard = InterruptGuard(self.progress.note)
        self.store = CheckpointStore(self.run_dir, recipe.checkpoint.keep)
        self.state = RunState()
        self.watchdog = Watchdog()
        self._clock = time.perf_counter(), time.process_time()

    def run(self) -> list[dict[str, Any]]:
        """Train from where the run stands to its end."""
        torch.set_num_threads(self.recipe.threads)
        models.quiet()
        self.run_dir.mkdir(parents=True, exist_ok=True)
        finish.write_recipe(self.recipe, self.run_dir, self.progress.note)
        try:
            with self.guard:
                self._prepare()
                try:
                    self._train()
                    return self._finish()
                except (TrainingStopped, Interrupted):
                    self._save()
                    raise
                finally:
                    self._close()
        except Interrupted:
            self.progress.note(f"stopped at {self.state.name}; go on with: agentgym train {self.run_dir} --resume")
            raise SystemExit(130) from None
        except TrainingStopped as stop:
            raise TrainingStopped(f"{stop}\nState saved as {self.run_dir / 'checkpoints' / self.state.name}.") from None

    # --- before the first step

    def _prepare(self) -> None:
        recipe = self.recipe
        self.sources = sources_of(recipe)
        self.env, self.tasks = self.sources[0].env, self.sources[0].tasks
        self.panel = panels.task_set(self.env, recipe.env.eval)
        source = models.base_folder(recipe, self.run_dir)
        self.model, self.tokenizer = models.load_model(recipe.model, source, recipe.seed)
        self.policy = models.make_policy(recipe, self.model, self.tokenizer, self.run_dir)
        setup.check_policy(self.policy)
        services = make_services(recipe, self.model, self.tokenizer, self.policy, self.run_dir)
        self.credit = CreditPipeline.from_recipe(recipe, services)
        self.augmenter = self.credit if self.credit.augmenters else None
        self.training = Training(recipe, self.sources, self.policy, self.augmenter)
        self.eval_engine = setup.make_engine(recipe, self.policy, recipe.eval_sampling(), augmenter=self.augmenter)
        self.reference = ReferenceKeeper(self.model, recipe.rl, self.run_dir / "checkpoints" / "sft")
        self.alarm = HackingAlarm([name for name in self.credit.paid if name != "outcome"])
        checkpoint = self._restore() if self.resume else None
        self.training.sampler.load_state_dict(self.state.sampler)
        self.learning = CreditLearning(recipe, self.credit, self.state)
        if checkpoint is not None:
            self.learning.load()
        trackers = trackers_of(recipe, self.run_dir, self.progress.note)
        self.log = MetricsLog(self.run_dir, self.state.metrics, trackers)
        self.optimizer = self._optimizer()
        if checkpoint is not None:
            self.optimizer.load_state_dict(load_optimizer(checkpoint))

    def _restore(self) -> Checkpoint | None:
        checkpoint, notes = self.store.newest()
        for note in notes:
            self.progress.note(note)
        if checkpoint is None:
            self.progress.note("no complete checkpoint yet: starting from the beginning")
            return None
        self.state = RunState.from_dict(checkpoint.state)
        load_weights(self.model, checkpoint.folder)
        self.watchdog.load_state_dict(self.state.watchdog or self.watchdog.state_dict())
        self.alarm.load_state_dict(self.state.alarm)
        self.progress.note(f"resuming from {checkpoint.folder.name}")
        return checkpoint

    def _optimizer(self) -> Optimizer:
        section = self.recipe.sft if self.state.phase == "sft" else self.recipe.rl
        return Optimizer(self.model, section.lr, section.weight_decay, section.max_grad_norm)

    def _episode_done(self, episode: Episode) -> None:
        self.guard.check()

    # --- training

    def _train(self) -> None:
        if self.state.phase == "sft":
            self._warm_start()
            self.state.phase = "rl"
            self.optimizer = self._optimizer()
            self._save(pinned=True)
        if self.state.phase == "rl":
            self._reinforce()
            self.state.phase = "done"
            self._save()

    def _warm_start(self) -> None:
        settings, rounds = self.recipe.sft, self.recipe.sft.rounds
        rows: list[TrainRow] = []
        for number in range(rounds if self.state.sft_step < settings.steps else 0):
            begin, end = settings.steps * number // rounds, settings.steps * (number + 1) // rounds
            rows += self._demonstrations(number, begin).rows
            if self.state.sft_step < end:
                micro = self.recipe.rl.micro_tokens
                warm = WarmStart(self.model, self.optimizer, rows, settings, self.recipe.seed, micro, begin)
                warm.run(self.state.sft_step, end, self._after_sft(settings.steps))

    def _demonstrations(self, number: int, begin: int) -> Demonstrations:
        """Round ``number``, which starts at SFT step ``begin``. Played by the model as it is at that very step."""
        path = setup.demonstrations_path(self.run_dir, number)
        if number and self.state.sft_step > begin and not path.exists():
            raise DataError(f"{path} is gone: the run is past the step where it was made. Start a new run.")
        window = models.window_of(self.model)
        started = time.perf_counter()
        self.policy.refresh()
        drawn = sampler_of(self.sources, self.recipe.seed).draw(
            self.recipe.sft.episodes, *setup.demonstration_stream(number)
        )
        parts = [(source.recipe, drawn[source.title]) for source in self.sources if source.title in drawn]
        demos = setup.get_demonstrations(
            self.recipe, self.policy, window, parts, self.run_dir, self._episode_done, number
        )
        self.state.seconds.setdefault(f"demonstrations/{number}", time.perf_counter() - started)
        self.state.counts.update({f"demo{number}_{key}": value for key, value in demos.counts.items()})
        self.progress.note(f"demonstrations, round {number}: {demos.counts}")
        check_window(demos.rows, window)
        return demos

    def _after_sft(self, steps: int) -> Callable[[int, dict[str, float]], None]:
        every = self.recipe.checkpoint.sft_every
        clock = time.perf_counter()

        def after(done: int, metrics: dict[str, float]) -> None:
            nonlocal clock
            seconds, clock = time.perf_counter() - clock, time.perf_counter()
            self.state.sft_step = done
            self.state.spend("sft", seconds)
            self.log.write("sft", done, metrics | {"time/update": seconds} | self.tick())
            if done % 10 == 0 or done == steps:
                self.progress.show("sft", done, steps, metrics | {"time/update": seconds})
            if every and done % every == 0 and done < steps:
                self._save()
            self.guard.check()

        return after

    def _reinforce(self) -> None:
        recipe, state = self.recipe, self.state
        self.reference.prepare(state.rl_step, state.reference)
        collector = Collector(
            self.training.engines[self.sources[0].title], self.tasks, self.credit, recipe.rl, recipe.seed,
            self._episode_done, choices_of(self.policy, recipe.format.build()), self.training.engines,
            self.training.sampler,
        )  # fmt: skip
        divisor = setup.token_divisor(recipe, self.env.spec.max_turns)
        update = PolicyUpdate(self.model, self.optimizer, recipe.rl, recipe.seed, divisor)
        if state.rl_step == 0:
            self._check_start(self._evaluate())
            if recipe.rl.steps:
                learnt = self.learning.warm_up(collector, self.env, self.tasks, self.policy)
                self.log.write("rl", 0, learnt | self.tick())
        while state.rl_step < recipe.rl.steps and not self._out_of_time():
            self.guard.check()
            metrics = self._step(collector, update)
            due = bool(recipe.eval.every) and state.rl_step % recipe.eval.every == 0
            metrics |= panels.flat(self._evaluate_panel()) if due else {}
            self.log.write("rl", state.rl_step, metrics | self.tick())
            self.progress.show("rl", state.rl_step, recipe.rl.steps, metrics)
            if recipe.checkpoint.every and state.rl_step % recipe.checkpoint.every == 0:
                self._save()

    def _step(self, collector: Collector, update: PolicyUpdate) -> dict[str, float]:
        """One training step. The state changes only after the update, so an interrupt before it repeats the step."""
        began = time.perf_counter(), time.process_time()
        self.policy.refresh()
        staged = self.training.begin(self.state.rl_step)
        data = collector.collect(self.state.rl_step)
        metrics = data.metrics | staged | self.watchdog.check([e for g in data.groups for e in g], self.state.rl_step)
        metrics |= self.alarm.check(metrics, self.progress.note)
        started = time.perf_counter()
        rows = data.rows if self.learning.trains_policy(self.state.rl_step) else []
        metrics |= update.run(rows, self.state.rl_step, self.reference.before(self.state.rl_step))
        metrics["time/update"] = time.perf_counter() - started
        metrics |= self.learning.after(data, self.state.rl_step)
        metrics |= self.training.sampler.feedback(data.by_source)
        self.state.rl_step += 1
        self.state.count(**{key: metrics[f"train/{key}"] for key in COUNTED})
        for activity in ("rollout", "credit", "update"):
            self.state.spend(activity, metrics[f"time/{activity}"])
        self.state.spend("rl_seconds", time.perf_counter() - began[0])
        self.state.spend("rl_cpu_seconds", time.process_time() - began[1])
        metrics["time/rl_cpu"] = self.state.seconds["rl_cpu_seconds"]
        return metrics

    def _out_of_time(self) -> bool:
        for name in ("max_seconds", "max_cpu_seconds"):
            limit, spent = getattr(self.recipe.rl, name), self.state.seconds.get(f"rl_{name[4:]}", 0.0)
            if limit is not None and spent >= limit:
                self.progress.note(f"rl.{name}={limit:g} reached after {self.state.rl_step} RL steps")
                return True
        return False

    # --- evaluation

    def _evaluate_panel(self) -> dict[str, Any]:
        self.policy.refresh()
        seed = derive_seed(self.recipe.seed, "eval")
        result = panels.score_panel(self.eval_engine, self.recipe, self.panel, seed, self._episode_done)
        self.state.spend("eval", result["seconds"])
        return result

    def _evaluate(self) -> dict[str, Any]:
        """Score the evaluation panel before the first RL step, and log it."""
        result = self._evaluate_panel()
        metrics = panels.flat(result)
        self.log.write("rl", 0, metrics | self.tick())
        self.progress.show("rl", 0, self.recipe.rl.steps, metrics)
        return result

    def _check_start(self, result: dict[str, Any]) -> None:
        valid = 1.0 - result["invalid_rate"]
        if self.recipe.rl.steps and valid < self.recipe.sft.min_valid:
            self.progress.note(
                f"WARNING: before RL only {valid:.1%} of the responses hold a valid action (sft.min_valid is "
                f"{self.recipe.sft.min_valid:.0%}). RL rarely recovers from that: raise sft.steps or sft.episodes."
            )
        self.state.counts["valid_rate_before_rl"] = valid

    def _finish(self) -> list[dict[str, Any]]:
        return finish.final_evaluation(self) if self.recipe.eval.final else []

    # --- saving

    def tick(self) -> dict[str, float]:
        """Add the time since the last call to the run's totals, over all resumes; returns them as metrics."""
        now = time.perf_counter(), time.process_time()
        for name, before, after in zip(("wall", "cpu"), self._clock, now, strict=True):
            self.state.spend(name, after - before)
        self._clock = now
        return {f"time/total_{name}": self.state.seconds[name] for name in ("wall", "cpu")}

    def _save(self, pinned: bool = False) -> None:
        self.tick()
        state = self.state
        state.metrics = self.log.offset
        state.watchdog = self.watchdog.state_dict()
        state.alarm = self.alarm.state_dict()
        state.reference = self.reference.state_dict()
        state.sampler = self.training.sampler.state_dict()
        self.learning.save()
        pinned = pinned or state.name == "sft"
        self.store.save(state.name, self.model, self.tokenizer, self.optimizer.state_dict(), state.as_dict(), pinned)

    def _close(self) -> None:
        self.training.close()
        self.eval_engine.close()
        self.credit.parts.close()
        for source in self.sources:
            source.env.close()
        self.log.close()
        self.progress.close()
