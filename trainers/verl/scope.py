"""What the verl engine can run, and on what: refusals before anything is made, who samples, the longest conversation.

Needs no verl.
"""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path

from agentgym.config.recipe import Recipe
from agentgym.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Machine:
    """What the translation depends on besides the recipe: GPUs, and flash-attn for packed rows without padding."""

    cuda: bool
    flash: bool = False

    @classmethod
    def here(cls, device: str) -> Machine:
        """This machine, for ``model.device``. torch is asked only where it is installed."""
        cuda = device.startswith("cuda")
        if device == "auto" and importlib.util.find_spec("torch") is not None:
            import torch

            cuda = torch.cuda.is_available()
        return cls(cuda, cuda and importlib.util.find_spec("flash_attn") is not None)


def check(recipe: Recipe, machine: Machine) -> None:
    """Refuse what this engine cannot honour, before anything is made."""
    rl, cluster = recipe.rl, recipe.cluster
    problems = []
    if not recipe.train_sampling().exact_logprobs:
        problems.append("training needs temperature > 0, top_p 1 and top_k off")
    if recipe.mix:
        problems.append("mix is not part of the verl engine: one environment a run")
    if recipe.curriculum != type(recipe.curriculum)():
        problems.append("curriculum is not part of the verl engine: tasks are drawn evenly")
    if rl.steps < 1:
        problems.append("rl.steps is 0: the verl engine does RL only; a warm start alone is for engine=local")
    if rl.resample:
        problems.append("rl.resample is not part of the verl engine; set rl.resample=0 and raise rl.groups")
    if rl.reference_every:
        problems.append("rl.reference_every is not part of the verl engine: its reference is the policy at the start")
    if rl.max_seconds is not None or rl.max_cpu_seconds is not None:
        problems.append("rl.max_seconds and rl.max_cpu_seconds are the local engine's; use rl.steps")
    if cluster.gpus * cluster.nodes % cluster.tensor_parallel:
        problems.append(
            f"cluster.tensor_parallel {cluster.tensor_parallel} does not divide {cluster.gpus * cluster.nodes} GPUs"
        )
    if rollout_backend(recipe, machine) == "torch" and cluster.tensor_parallel > 1:
        problems.append("cluster.tensor_parallel needs cluster.rollout=vllm; the torch server has one process each")
    if rollout_backend(recipe, machine) == "torch" and machine.cuda:
        problems.append("cluster.rollout=torch is for CPUs; on GPUs use cluster.rollout=vllm")
    if recipe.model.constrain:
        problems.append("model.constrain is the local engine's: its loss must know what a token was drawn among")
    if recipe.model.lora is not None and recipe.model.lora.dropout:
        problems.append("model.lora.dropout is not part of verl's FSDP engine; set model.lora.dropout=0")
    if rl.loss == "mse" and recipe.model.lora is not None and recipe.sft.steps:
        problems.append("rl.loss=mse with a warm-started adapter: the reference would be the base model")
    if problems:
        raise ConfigError("engine=verl cannot run this recipe:\n" + "\n".join(f"- {line}" for line in problems))


def rollout_backend(recipe: Recipe, machine: Machine) -> str:
    """Who samples: what ``cluster.rollout`` says; auto: vLLM on GPUs, the torch server on a CPU."""
    if recipe.cluster.rollout != "auto":
        return recipe.cluster.rollout
    return "vllm" if machine.cuda else "torch"


def window(recipe: Recipe, path: str | None = None) -> int:
    """Tokens of the longest conversation. Raises ConfigError where neither the recipe nor the model's folder says."""
    found = None
    folder = Path(path or recipe.model.path or "")
    if recipe.model.path is None:
        found = recipe.model.tiny.context
    elif (folder / "config.json").is_file():
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        found = config.get("max_position_embeddings")
    limits = [size for size in (found, recipe.limits.max_episode_tokens) if size]
    if not limits:
        raise ConfigError(
            f"engine=verl sizes its buffers by the longest conversation, and the model {recipe.model.path!r} is not a "
            "folder that says so: set limits.max_episode_tokens"
        )
    if min(limits) <= recipe.limits.max_response_tokens:
        raise ConfigError(
            f"limits.max_response_tokens {recipe.limits.max_response_tokens} leaves nothing for the prompt in a window "
            f"of {min(limits)} tokens"
        )
    return int(min(limits))
