"""The policy of a run: a model from a folder or from scratch, LoRA on top if asked for, and the policy around it."""

from __future__ import annotations

import inspect
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from agentgym.config.recipe import ModelSection, Recipe
from agentgym.errors import ConfigError, MissingDependency
from agentgym.policies.hub import check_vocabulary, loading, local_only
from agentgym.policy import PolicyRequest, SampledTurn
from agentgym.seeding import derive_seed
from agentgym.trainers.local.update import autocast


def quiet() -> None:
    """No progress bars of transformers between the lines of ours."""
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]


def choose_device(name: str) -> torch.device:
    """``auto``: the GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"model.device is {name!r}, but torch sees no GPU; use model.device=auto or cpu")
    return device


def base_folder(recipe: Recipe, run_dir: Path) -> Path | str:
    """Where the untrained model comes from; a tiny one is made once and kept in ``RUN/base``."""
    if recipe.model.path is not None:
        return Path(recipe.model.path).resolve() if Path(recipe.model.path).exists() else recipe.model.path
    folder = run_dir.resolve() / "base"
    if (folder / "config.json").is_file():
        return folder
    from agentgym.policies.tiny import make_tiny

    texts = source_texts(recipe)
    part = run_dir / f".base-{os.getpid()}"
    shutil.rmtree(part, ignore_errors=True)
    tags = tuple(tag for tag in (recipe.format.action_tag, recipe.format.think_tag) if tag)
    make_tiny(part, texts, recipe.model.tiny, recipe.seed, tags=tags)
    os.replace(part, folder)
    return folder


def source_texts(recipe: Recipe, episodes: int = 200) -> list[str]:
    """What prompts show of the environment and which actions there are, in plays of the training tasks."""
    from agentgym.policies.tiny import environment_texts
    from agentgym.registry import make

    found: dict[str, None] = {}
    for section in (recipe.env, *(mixed.section() for mixed in recipe.mix)):
        env = make(section.name, **section.options)
        try:
            tasks = env.tasks(section.train.split, **section.train.options)
            turns = section.train.max_turns or recipe.limits.max_turns
            shown = recipe.prompt.build().shown
            found |= dict.fromkeys(
                environment_texts(env, tasks, recipe.seed, episodes=episodes, max_turns=turns, shown=shown)
            )
        finally:
            env.close()
    return list(found)


def load_model(settings: ModelSection, source: Path | str, seed: int) -> tuple[Any, Any]:
    """Model and tokenizer, on the device, in evaluation mode, with LoRA adapters if the recipe has them.

    Trained parameters are float32 (a GPU computes in bfloat16 by autocast); a base frozen under LoRA keeps the
    recipe's dtype.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    device = choose_device(settings.device)
    low = settings.dtype == "bfloat16" or (settings.dtype == "auto" and device.type == "cuda")
    dtype = torch.bfloat16 if low and settings.lora is not None else torch.float32
    with loading(source):
        only = local_only(source)
        tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=only)
        model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, local_files_only=only)
        check_vocabulary(source, tokenizer, model)
    if settings.gradient_checkpointing:
        model.config.use_cache = False
        enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
        enable(**{_checkpointing_argument(enable): {"use_reentrant": False}})
        model.enable_input_require_grads()
    if settings.lora is not None:
        model = add_lora(model, settings, seed)
    return model.to(device).eval(), tokenizer


def _checkpointing_argument(enable: Callable[..., Any]) -> str:
    """The name of the options argument, which differs between transformers versions."""
    return next(name for name in inspect.signature(enable).parameters if name.endswith("checkpointing_kwargs"))


def add_lora(model: Any, settings: ModelSection, seed: int) -> Any:
    """Wrap ``model`` with adapters initialised from ``seed``."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise MissingDependency("model.lora needs peft: pip install 'agentgym-turns[lora]'") from error
    assert settings.lora is not None
    config = LoraConfig(
        r=settings.lora.r,
        lora_alpha=settings.lora.alpha,
        lora_dropout=settings.lora.dropout,
        target_modules=settings.lora.target_modules,
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, "lora"))
        return get_peft_model(model, config)


def window_of(model: Any) -> int | None:
    """The longest sequence the model takes, where its configuration says."""
    window = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return window if isinstance(window, int) and window > 0 else None


def make_policy(recipe: Recipe, model: Any, tokenizer: Any, run_dir: Path) -> Any:
    """The policy that samples: the model itself, or vLLM fed with its weights after every update."""
    if recipe.model.generator == "vllm":
        from agentgym.trainers.local.vllm_bridge import make_vllm

        settings = recipe.model
        rank = settings.lora.r if settings.lora is not None else 0
        base = base_folder(recipe, run_dir)
        return make_vllm(model, tokenizer, base, run_dir / "vllm", settings.generator_memory, rank)
    from agentgym.policies.hf import HFPolicy

    class TrainedPolicy(HFPolicy):
        """Samples in the precision that the trainer computes in."""

        def act_batch(self, requests: Sequence[PolicyRequest]) -> list[SampledTurn | Exception]:
            with autocast(self.model):
                return super().act_batch(requests)

    return TrainedPolicy(
        model, tokenizer, name=recipe.name, constrain=recipe.model.constrain, max_batch=recipe.concurrency
    )


def describe(model: Any) -> dict[str, Any]:
    """Facts about a model, for the report."""
    return {
        "class": type(model.get_base_model() if hasattr(model, "get_base_model") else model).__name__,
        "parameters": sum(p.numel() for p in model.parameters()),
        "trainable_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "vocabulary": int(model.config.get_text_config().vocab_size),
        "window": window_of(model),
        "device": str(next(model.parameters()).device),
    }
