"""The section of a recipe that says on what the distributed engine runs (``engine: verl``)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentgym.config.section import Section


class ClusterSection(Section):
    """Machines and processes of ``engine: verl``; the local engine reads none of it.

    ``nodes`` x ``gpus`` trainer processes, one a GPU (on a CPU: one process each); the model is sharded over all of
    them. ``rollout``: who samples; ``auto`` is ``vllm`` on GPUs and ``torch`` (a small server of ours) on a CPU.
    ``tensor_parallel`` GPUs share one rollout server, so there are nodes * gpus / tensor_parallel servers.
    ``memory``: share of each GPU that the rollout server may take; it is given back for the update. ``offload``:
    parameters and optimiser state wait in the host's memory while they are not needed. ``workers``: processes that
    play episodes, in all (0: two a node). ``address`` of a running Ray cluster; None: Ray is started on this machine.
    ``deadline``: seconds without any progress after which the run is ended; ``start_deadline``: until the first step.
    """

    nodes: int = Field(1, ge=1, le=10_000)
    gpus: int = Field(1, ge=1, le=64)
    rollout: Literal["auto", "vllm", "torch"] = "auto"
    tensor_parallel: int = Field(1, ge=1, le=64)
    memory: float = Field(0.5, gt=0, lt=1)
    offload: bool = False
    workers: int = Field(0, ge=0, le=100_000)
    address: str | None = None
    deadline: float = Field(1800.0, gt=0)
    start_deadline: float = Field(1800.0, gt=0)
