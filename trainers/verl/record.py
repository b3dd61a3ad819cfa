"""What a verl run leaves in its folder: metrics, state beside verl's checkpoints, a link to the newest model.

``RUN/verl/global_step_N/`` is verl's checkpoint (shards of weights and optimiser, the data set's place) with
``agentgym.json``/``.safetensors`` beside it (credit parts, watchdog, totals); ``actor/huggingface`` in it, with LoRA
``actor/adapter``, is a folder for every loader. ``RUN/checkpoint`` links to the newest of those.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.torch import load_file, save_file

from agentgym.errors import DataError
from agentgym.trainers.local import panels
from agentgym.trainers.local.checkpoint import flatten, unflatten
from agentgym.trainers.local.metrics import MetricsLog, trackers_of
from agentgym.trainers.verl import export

if TYPE_CHECKING:
    from agentgym.trainers.verl.trainer import AgentGymTrainer

#: metrics that are written: ours, and verl's times and checks
KEPT = ("train/", "credit/", "loss/", "ratio/", "gap/", "eval/", "time/", "alarm/", "timing_s/", "training/rollout",
        "perf/throughput", "perf/max_memory", "grad_norm", "lr", "critic/loss", "critic/grad_norm")  # fmt: skip


def open_log(trainer: AgentGymTrainer) -> MetricsLog:
    """``metrics.jsonl``, cut behind the last step that the checkpoint knows."""
    path = trainer.run_dir / "metrics.jsonl"
    offset = 0
    if path.exists() and trainer.global_steps:
        for line in path.read_bytes().splitlines(keepends=True):
            try:
                if not line.endswith(b"\n") or int(json.loads(line)["step"]) > trainer.global_steps:
                    break
            except ValueError:
                break
            offset += len(line)
    trackers = trackers_of(trainer.recipe, trainer.run_dir, trainer.progress.note)
    return MetricsLog(trainer.run_dir, offset, trackers)


def write(trainer: AgentGymTrainer, metrics: dict[str, Any], step: int) -> None:
    """One line of metrics, on disk and on the terminal."""
    kept = {
        key: float(value)
        for key, value in metrics.items()
        if key.startswith(KEPT) and isinstance(value, int | float | np.number)
    }
    trainer.log.write("rl", step, kept)
    trainer.progress.show("rl", step, trainer.recipe.rl.steps, kept)


def _folder(trainer: AgentGymTrainer) -> Path:
    return Path(trainer.config.trainer.default_local_dir) / f"global_step_{trainer.global_steps}"


def save(trainer: AgentGymTrainer) -> None:
    """Write our state into the folder of the coming checkpoint, which verl declares complete last of all."""
    state = trainer.state | {
        "credit": trainer.credit.parts.state_dict(),
        "watchdog": trainer.watchdog.state_dict(),
        "alarm": trainer.alarm.state_dict(),
    }
    folder = _folder(trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, Any] = {}
    text = json.dumps(flatten(state, tensors), indent=1)
    save_file(tensors, folder / "agentgym.safetensors")
    part = folder / ".agentgym.json"
    part.write_text(text, encoding="utf-8")
    os.replace(part, folder / "agentgym.json")


def load(trainer: AgentGymTrainer) -> None:
    """Put back what :func:`save` wrote, where the run goes on from a checkpoint."""
    if not trainer.global_steps:
        return
    folder = _folder(trainer)
    if not (folder / "agentgym.json").is_file():
        raise DataError(f"{folder} holds no agentgym.json: it is not a checkpoint of this engine")
    state = unflatten(json.loads((folder / "agentgym.json").read_text()), load_file(folder / "agentgym.safetensors"))
    trainer.credit.parts.load_state_dict(state.pop("credit"))
    trainer.watchdog.load_state_dict(state.pop("watchdog"))
    trainer.alarm.load_state_dict(state.pop("alarm"))
    trainer.state = state
    saved(trainer)  # the run may have ended before it came to this


def saved(trainer: AgentGymTrainer) -> None:
    """Complete the newest export, point ``RUN/checkpoint`` at it, remove what verl left of older checkpoints."""
    folder = _folder(trainer)
    target = export.newest(folder / "actor")
    if target is not None:
        export.complete(target, trainer.run_dir / "recipe.yaml", {"credit": trainer.credit.parts.state_dict()})
        fresh = trainer.run_dir / ".checkpoint"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(os.path.relpath(target, trainer.run_dir))
        os.replace(fresh, trainer.run_dir / "checkpoint")
    for old in folder.parent.glob("global_step_*"):
        if old != folder and not (old / "actor").is_dir():
            shutil.rmtree(old, ignore_errors=True)


def finish(trainer: AgentGymTrainer) -> None:
    """The final evaluation, facts and report."""
    results = trainer.evaluation.tests("trained") if trainer.recipe.eval.final else []
    if results:
        panels.write_json(trainer.run_dir / "evaluations.json", results)
    panels.write_json(trainer.run_dir / "facts.json", _facts(trainer, results))
    trainer.log.close()
    trainer.progress.close()


def _facts(trainer: AgentGymTrainer, results: list[dict[str, Any]]) -> dict[str, Any]:
    import platform

    import torch
    import transformers
    import verl

    import agentgym

    recipe = trainer.recipe
    return {
        "name": recipe.name,
        "seed": recipe.seed,
        "engine": "verl",
        "agentgym": agentgym.__version__,
        "verl": verl.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "environment": recipe.env.name,
        "nodes": recipe.cluster.nodes,
        "gpus": recipe.cluster.gpus,
        "rl_steps": trainer.global_steps,
        "counts": trainer.state["counts"],
        "success": {f"{r['policy']}/{r['name']}": r["success"] for r in results},
    }
