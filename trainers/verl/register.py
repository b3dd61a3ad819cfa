"""Makes our parts known to verl, in every process of a run: verl imports this as the model's ``external_lib``.

By then verl is imported whole. On CPUs the FSDP engines are registered for that device, and the process group is
made with gloo once (verl would name the device twice).
"""

from __future__ import annotations

from typing import Any

from agentgym.trainers.verl import compat


def install() -> None:
    """Register everything; may be called twice."""
    compat.require()
    from verl.utils.device import get_device_name
    from verl.workers.rollout import base, replica

    registry: Any = base._ROLLOUT_REGISTRY
    registry["agentgym_torch", "async"] = "agentgym.trainers.verl.rollout_torch.TorchAdapter"
    replica.RolloutReplicaRegistry.register("agentgym_torch", _torch_replica)
    _value_models()
    on_cpu = get_device_name() == "cpu"
    replica.RolloutReplicaRegistry.register("vllm", _vllm_cpu_replica if on_cpu else _vllm_replica)
    if on_cpu:
        _engines_on_cpu()
        _gloo()


def _value_models() -> None:
    """Load value models with the attention that the configuration names: verl asks for flash-attn whatever it says."""
    from verl.utils import model

    model.load_valuehead_model = load_valuehead_model


def load_valuehead_model(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
    """verl's function of this name, for the models that transformers can put a token head on."""
    from transformers import AutoModelForTokenClassification

    return AutoModelForTokenClassification.from_pretrained(
        local_path, dtype=torch_dtype, config=model_config, trust_remote_code=trust_remote_code,
        attn_implementation=getattr(model_config, "_attn_implementation", None) or "sdpa",
    )  # fmt: skip


def _torch_replica() -> Any:
    from agentgym.trainers.verl.rollout_torch import TorchReplica

    return TorchReplica


def _vllm_replica() -> Any:
    from agentgym.trainers.verl.rollout_vllm import Replica

    return Replica


def _vllm_cpu_replica() -> Any:
    from agentgym.trainers.verl.rollout_vllm_cpu import CPUReplica

    return CPUReplica


def _engines_on_cpu() -> None:
    from verl.workers.engine.base import EngineRegistry
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead, FSDPEngineWithValueHead

    known: Any = EngineRegistry._engines
    if ("cpu", "cpu") in known["language_model"]["fsdp2"]:
        return
    for kind, engine in (("language_model", FSDPEngineWithLMHead), ("value_model", FSDPEngineWithValueHead)):
        EngineRegistry.register(model_type=kind, backend=["fsdp", "fsdp2"], device=["cpu"], vendor=["cpu"])(engine)


def _gloo() -> None:
    import functools

    from verl.utils import distributed
    from verl.workers import engine_workers

    engine_workers.initialize_global_process_group_ray = functools.partial(
        distributed.initialize_global_process_group_ray, backend="cpu:gloo"
    )


install()
