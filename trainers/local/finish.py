"""The ends of a run: the recipe written at its start; final evaluations, facts and report at its end."""

from __future__ import annotations

import hashlib
import json
import platform
import resource
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import agentgym
from agentgym.config.loader import recipe_text
from agentgym.config.recipe import Recipe, TaskSource
from agentgym.seeding import derive_seed
from agentgym.trainers.local import model as models
from agentgym.trainers.local import panels, setup
from agentgym.trainers.local.checkpoint import load_weights, trainable
from agentgym.types import TaskSet

if TYPE_CHECKING:
    from agentgym.trainers.local.trainer import LocalTrainer


def write_recipe(recipe: Recipe, run_dir: Path, note: Callable[[str], None]) -> None:
    """Put the resolved recipe into the run folder; a resumed run that differs is noted and keeps the first one."""
    path, text = run_dir / "recipe.yaml", recipe_text(recipe)
    if not path.exists():
        path.write_text(text, encoding="utf-8")
        return
    before = path.read_text(encoding="utf-8").splitlines()
    changed = [line.strip() for line in text.splitlines() if line not in before]
    if changed:
        note(f"note: this recipe differs from the one the run began with: {'; '.join(changed[:5])}")
        (run_dir / "recipe.resumed.yaml").write_text(text, encoding="utf-8")


def final_evaluation(trainer: LocalTrainer) -> list[dict[str, Any]]:
    """SFT and trained policy on every test panel; results are kept as they come, so a resumed run does not repeat."""
    path = trainer.run_dir / "evaluations.json"
    results: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    done = {(r["policy"], r["name"], r["panel"], tuple(r["order"])) for r in results}
    sources = _test_panels(trainer)
    for label, folder, order in _policies(trainer):
        load_weights(trainer.model, folder)
        trainer.policy.refresh()
        for name, recipe, source, tasks in sources:
            if (label, name, tasks.hash, tuple(order)) in done:
                continue
            seed = derive_seed(recipe.seed, "final", name)
            store = trainer.run_dir / "episodes" / f"{label}-{name.replace('/', '-')}.agym"
            notes = trainer.augmenter if label == "trained" else None  # what was learnt belongs to the trained policy
            with setup.make_engine(recipe, trainer.policy, recipe.eval_sampling(), source.max_turns, notes) as engine:
                result = panels.score_panel(engine, recipe, tasks, seed, trainer._episode_done, store)
            results.append({**result, "policy": label, "name": name, "order": order})
            panels.write_json(path, results)
            trainer.progress.note(
                f"{label:8s} {name}: success {result['success']:.1%} "
                f"[{result['success_low']:.1%}, {result['success_high']:.1%}] on {result['tasks']} tasks"
            )
    trainer.tick()
    panels.write_json(trainer.run_dir / "facts.json", facts(trainer, results))
    _report(trainer)
    return results


def _test_panels(trainer: LocalTrainer) -> list[tuple[str, Recipe, TaskSource, TaskSet]]:
    """Name, recipe, source and tasks of every panel of the final evaluation whose data is there."""
    env = trainer.recipe.env
    found = []
    for source in (env.test, *env.extra_tests):
        tasks = panels.optional_task_set(trainer.env, source, trainer.progress.note)
        if tasks is not None:
            found.append((source.label, trainer.recipe, source, tasks))
    for mixed, section in zip(trainer.recipe.mix, trainer.sources[1:], strict=True):
        if mixed.test is not None:
            name = f"{section.title}/{mixed.test.label}"
            found.append((name, section.recipe, mixed.test, panels.task_set(section.env, mixed.test)))
    return found


def _policies(trainer: LocalTrainer) -> list[tuple[str, Path, list[int]]]:
    """Label, checkpoint and progress of the policies to compare; the trained one last, so that it stays loaded."""
    root = trainer.run_dir / "checkpoints"
    newest = root / trainer.state.name
    out = [("trained" if trainer.state.rl_step else "sft", newest, trainer.state.order)]
    if trainer.state.rl_step and (root / "sft").is_dir():
        out.insert(0, ("sft", root / "sft", [1, trainer.state.sft_step, 0]))
    return out


def facts(trainer: LocalTrainer, results: list[dict[str, Any]]) -> dict[str, Any]:
    """What a reader must know to trust and repeat the run."""
    import transformers

    recipe, state = trainer.recipe, trainer.state
    return {
        "name": recipe.name,
        "seed": recipe.seed,
        "recipe_hash": hashlib.blake2b(recipe_text(recipe).encode(), digest_size=8).hexdigest(),
        "agentgym": agentgym.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "machine": f"{platform.machine()} {platform.system()}",
        "threads": torch.get_num_threads(),
        "model": models.describe(trainer.model),
        "model_hash": weights_hash(trainer.model),
        "environment": recipe.env.name,
        "train_tasks": len(trainer.tasks),
        "train_hash": trainer.tasks.hash,
        "eval_tasks": len(trainer.panel),
        "eval_hash": trainer.panel.hash,
        "sft_steps": state.sft_step,
        "rl_steps": state.rl_step,
        "counts": state.counts,
        "wall_seconds": state.seconds["wall"],
        "cpu_seconds": state.seconds["cpu"],
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "seconds": state.seconds,
        "success": {f"{r['policy']}/{r['name']}": r["success"] for r in results},
    }


def weights_hash(model: Any) -> str:
    """A hash of the trainable parameters, by name."""
    digest = hashlib.blake2b(digest_size=8)
    for name, tensor in sorted(trainable(model).items()):
        digest.update(name.encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _report(trainer: LocalTrainer) -> None:
    try:
        from agentgym.report import write_report

        trainer.progress.note(f"report: {write_report(trainer.run_dir)}")
    except Exception as error:  # a finished run is not lost to its own plots
        trainer.progress.note(f"the report could not be written ({type(error).__name__}: {error})")
