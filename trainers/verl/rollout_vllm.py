"""verl's vLLM server, with one thing mended in vLLM's worker processes: the name of a method that adapters need.

Our extension class is the one place that runs in every such process, on GPUs and CPUs, on this node and others.
"""

from __future__ import annotations

from typing import Any

import ray
from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension
from verl.workers.rollout.vllm_rollout.vllm_async_server import vLLMHttpServer, vLLMReplica


def name_mappers(mapper: Any) -> None:
    """Give vLLM's class of weight mappers the name under which verl 0.9.1 asks for the adapter's mapper.

    It is ``get_unstacked_mapper`` to verl and ``get_rename_mapper`` in vLLM 0.30.0. A vLLM that has the first, or
    neither (verl asks none before 0.25), is left as it is.
    """
    if not hasattr(mapper, "get_unstacked_mapper") and hasattr(mapper, "get_rename_mapper"):
        mapper.get_unstacked_mapper = mapper.get_rename_mapper


class Extension(vLLMColocateWorkerExtension):  # type: ignore[misc, unused-ignore]
    """What vLLM's worker inherits from."""

    def __new__(cls, **kwargs: Any) -> Any:
        from vllm.model_executor.models.utils import WeightsMapper

        name_mappers(WeightsMapper)
        return super().__new__(cls, **kwargs)


class Server(vLLMHttpServer):  # type: ignore[misc, unused-ignore]
    """The server actor, which names ``extension`` to vLLM's workers."""

    extension = Extension

    def _get_worker_extension_cls(self) -> str:
        return f"{self.extension.__module__}.{self.extension.__qualname__}"


class Replica(vLLMReplica):  # type: ignore[misc, unused-ignore]
    """verl's handle on one such server."""

    server: type[Server] = Server

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.server_class = ray.remote(self.server)
