"""A recipe as settings of verl 0.9.1: the one place where the two vocabularies meet. Needs no verl.

:func:`settings` gives what differs from verl's defaults, as a nested mapping; the recipe's own ``verl`` keys are laid
over it at the end. What this engine cannot honour is refused first, by :func:`scope.check`.

verl's estimators, losses, schedules and validation are not used: advantages, the loss and the learning rate come from
the functions of ``credit/`` and ``trainers/local`` (see ``trainer.py``), so a recipe means the same in both engines.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.config.recipe import Recipe
from agentgym.trainers.verl import keys, scope
from agentgym.trainers.verl.scope import Machine

Tree = dict[str, Any]
HERE = "agentgym.trainers.verl"


@dataclass(frozen=True, slots=True)
class Start:
    """Where training begins: a model ``path`` (folder or hub name) and, with LoRA, a trained ``adapter`` folder."""

    path: str
    adapter: str | None = None


def settings(recipe: Recipe, run_dir: Path, machine: Machine, start: Start, resume: bool = False) -> Tree:
    """What to lay over verl's ``ppo_trainer``. Raises ConfigError for ``verl`` keys that verl does not have."""
    scope.check(recipe, machine)
    size = scope.window(recipe, start.path)
    tree: Tree = {
        "data": _data(recipe, run_dir, size),
        "actor_rollout_ref": {
            "model": _model(recipe, machine, start),
            "actor": _actor(recipe, machine, size),
            "ref": {"fsdp_config": _sharding(recipe, machine)},
            "rollout": _rollout(recipe, machine, size),
        },
        "critic": _critic(recipe, machine, start, size),
        "algorithm": _algorithm(recipe),
        "trainer": _trainer(recipe, run_dir, machine, resume),
        "reward": {"num_workers": 1},
        "transfer_queue": {
            "backend": {"SimpleStorage": {"num_data_storage_units": 2 * recipe.cluster.nodes if machine.cuda else 1}}
        },
        "ray_kwargs": {"ray_init": _ray(recipe, machine)},
    }
    own = keys.nested(recipe.verl)
    keys.check(own)
    return merged(tree, own)


def told(recipe: Recipe, run_dir: Path) -> str:
    """The recipe as one value of verl's configuration; without dollar signs, which OmegaConf would read."""
    text = json.dumps({"recipe": recipe.model_dump(mode="json"), "run_dir": str(run_dir)})
    return text.replace("$", "\\u0024")


def merged(base: Tree, top: Tree) -> Tree:
    """``top`` over ``base``, section by section."""
    out = dict(base)
    for key, value in top.items():
        old = out.get(key)
        out[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return out


def _data(recipe: Recipe, run_dir: Path, size: int) -> Tree:
    return {
        "train_files": "train",
        "val_files": "none",  # evaluation is ours
        "custom_cls": {"path": f"pkg://{HERE}.data", "name": "TaskDataset"},
        "train_batch_size": recipe.rl.groups,
        "max_prompt_length": size - recipe.limits.max_response_tokens,
        "max_response_length": recipe.limits.max_response_tokens,
        "shuffle": False,  # the order is the recipe's seed's
        "validation_shuffle": False,
        "dataloader_num_workers": 0,
        # every process of the run reads the recipe here
        "agentgym": told(recipe, run_dir),
    }


def _model(recipe: Recipe, machine: Machine, start: Start) -> Tree:
    model = recipe.model
    out: Tree = {
        "path": start.path,
        "external_lib": f"{HERE}.register",
        "use_remove_padding": machine.flash,
        "override_config": {"attn_implementation": "flash_attention_2" if machine.flash else "sdpa"},
        "enable_gradient_checkpointing": model.gradient_checkpointing,
    }
    if model.lora is not None:
        out |= {
            "lora_rank": model.lora.r,
            "lora_alpha": model.lora.alpha,
            "target_modules": model.lora.target_modules,
            "lora_adapter_path": start.adapter,
        }
    return out


def _sharding(recipe: Recipe, machine: Machine) -> Tree:
    low = machine.cuda and recipe.model.dtype != "float32"
    compute = "bf16" if low else "fp32"
    return {
        "strategy": "fsdp2",
        "model_dtype": "fp32",  # master weights; computed in bfloat16 on GPUs
        "dtype": "bfloat16" if low else "float32",
        "mixed_precision": {"param_dtype": compute, "reduce_dtype": "fp32", "buffer_dtype": "fp32"},
        "param_offload": recipe.cluster.offload,
        "optimizer_offload": recipe.cluster.offload,
        "use_torch_compile": machine.cuda,
        "seed": recipe.seed % 2**31,
    }


def _micro(recipe: Recipe, size: int) -> Tree:
    """How many rows go through the model at once; this changes the memory, never the result."""
    if recipe.rl.micro_batch is not None:
        return {"use_dynamic_bsz": False, "ppo_micro_batch_size_per_gpu": recipe.rl.micro_batch}
    return {"use_dynamic_bsz": True, "ppo_max_token_len_per_gpu": max(size, recipe.rl.micro_tokens)}


def _optimizer(lr: float, weight_decay: float) -> Tree:
    return {"lr": lr, "weight_decay": weight_decay, "lr_scheduler_type": "constant", "betas": [0.9, 0.999]}


def _actor(recipe: Recipe, machine: Machine, size: int) -> Tree:
    rl = recipe.rl
    return {
        "strategy": "fsdp2",
        "ppo_mini_batch_size": rl.groups,  # for verl's own checks; the trainer cuts minibatches by rl.minibatch
        "ppo_epochs": rl.epochs,
        "shuffle": False,
        "grad_clip": rl.max_grad_norm,
        "clip_ratio": rl.clip_low,
        "clip_ratio_low": rl.clip_low,
        "clip_ratio_high": rl.clip_high,
        "entropy_coeff": rl.entropy_coef,
        "use_kl_loss": bool(rl.kl_coef or rl.loss == "mse"),  # makes verl keep a reference policy
        "kl_loss_coef": rl.kl_coef,
        "loss_agg_mode": rl.aggregation,
        "use_torch_compile": machine.cuda,
        "optim": _optimizer(rl.lr, rl.weight_decay) | {"clip_grad": rl.max_grad_norm},
        "fsdp_config": _sharding(recipe, machine),
        "checkpoint": {
            # with LoRA the export is the adapter, which our worker writes
            "save_contents": ["model", "optimizer", "extra", *(["hf_model"] if recipe.model.lora is None else [])],
            "load_contents": ["model", "optimizer", "extra"],
        },
        **_micro(recipe, size),
    }


def _rollout(recipe: Recipe, machine: Machine, size: int) -> Tree:
    cluster, backend = recipe.cluster, scope.rollout_backend(recipe, machine)
    out: Tree = {
        "name": backend if backend == "vllm" else "agentgym_torch",
        "mode": "async",
        "n": recipe.rl.group_size,
        "temperature": recipe.rl.temperature,
        "top_p": 1.0,
        "top_k": -1,
        "calculate_log_probs": True,
        "tensor_model_parallel_size": cluster.tensor_parallel,
        "gpu_memory_utilization": cluster.memory,
        "max_model_len": size,
        "max_num_seqs": max(1, min(1024, recipe.concurrency)),
        "load_format": "auto",
        "dtype": "bfloat16" if machine.cuda and recipe.model.dtype != "float32" else "float32",
        "free_cache_engine": machine.cuda,
        "agent": {
            "num_workers": cluster.workers or (2 * cluster.nodes if machine.cuda else 1),
            "default_agent_loop": "agentgym",
            "agent_loop_config_path": str(Path(__file__).parent / "loops.yaml"),
        },
    }
    if recipe.rl.micro_batch is not None:
        out["log_prob_micro_batch_size_per_gpu"] = recipe.rl.micro_batch
    if not machine.cuda:
        out |= {"enforce_eager": True, "checkpoint_engine": {"update_weights_bucket_megabytes": 64}}
        if backend == "vllm":
            out |= {"enable_sleep_mode": False, "max_num_batched_tokens": max(2048, size)}
            out["max_num_seqs"] = min(64, out["max_num_seqs"])
    return out


def _critic(recipe: Recipe, machine: Machine, start: Start, size: int) -> Tree:
    from agentgym.credit.registry import make_estimator

    estimator = make_estimator(recipe.estimator.name, recipe.estimator.options)
    if not getattr(estimator, "requires_critic", False):
        return {"enable": False, "strategy": "fsdp2"}
    critic = recipe.critic
    return {
        "enable": True,
        "strategy": "fsdp2",
        "model": {
            "path": start.path,
            "external_lib": f"{HERE}.register",
            "use_remove_padding": machine.flash,
            "override_config": {"attn_implementation": "flash_attention_2" if machine.flash else "sdpa"},
            "enable_gradient_checkpointing": recipe.model.gradient_checkpointing,
        },
        "fsdp": _sharding(recipe, machine),
        "optim": _optimizer(critic.lr, critic.weight_decay) | {"clip_grad": critic.max_grad_norm},
        "grad_clip": critic.max_grad_norm,
        "ppo_epochs": critic.epochs,
        "ppo_mini_batch_size": recipe.rl.groups,
        "shuffle": False,
        **({"forward_micro_batch_size_per_gpu": recipe.rl.micro_batch} if recipe.rl.micro_batch else {}),
        **_micro(recipe, size),
    }


def _algorithm(recipe: Recipe) -> Tree:
    return {
        "adv_estimator": "agentgym",  # a name that verl does not know: only our seam may make advantages
        "use_kl_in_reward": False,
        # sampler: the rollout's own log-probabilities are the old ones; trainer: verl computes them again
        "rollout_correction": {"bypass_mode": recipe.rl.old_logprobs == "sampler", "rollout_is": None},
    }


def _trainer(recipe: Recipe, run_dir: Path, machine: Machine, resume: bool) -> Tree:
    rl, every = recipe.rl, recipe.checkpoint.every
    return {
        "project_name": "agentgym",
        "experiment_name": recipe.name,
        "logger": [],  # RUN/metrics.jsonl and TensorBoard are ours
        "nnodes": recipe.cluster.nodes,
        "n_gpus_per_node": recipe.cluster.gpus,
        "device": "cuda" if machine.cuda else "cpu",
        "total_epochs": 1,
        "total_training_steps": rl.steps,
        "critic_warmup": recipe.critic.warmup + 1 if recipe.critic.warmup else 0,  # verl counts steps from 1
        "save_freq": every or rl.steps,
        "max_actor_ckpt_to_keep": recipe.checkpoint.keep,
        "max_critic_ckpt_to_keep": recipe.checkpoint.keep,
        "default_local_dir": str(run_dir / "verl"),
        "resume_mode": "auto" if resume else "disable",
        "val_before_train": True,
        "test_freq": recipe.eval.every or -1,
        "v1": {"trainer_mode": "agentgym", "agentgym": {}},
    }


def _ray(recipe: Recipe, machine: Machine) -> Tree:
    if recipe.cluster.address is not None:
        return {"address": recipe.cluster.address}
    processes = recipe.cluster.gpus
    # local: without it Ray joins any cluster that it finds on this machine
    out: Tree = {"address": "local", "include_dashboard": False, "num_cpus": 8 + 4 * processes, "num_gpus": processes}
    return out if machine.cuda else out | {"object_store_memory": 256 << 20}
