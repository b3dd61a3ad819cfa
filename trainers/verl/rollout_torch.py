"""A small rollout server for CPUs: the local trainer's generator behind verl's rollout interface.

One Ray actor a trainer process. Requests that arrive together are drawn as one batch; each is drawn from its own seed,
so the batch changes nothing. Weights (or the LoRA adapter alone) come by Ray after every update.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterable
from typing import Any

import numpy as np
import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

from agentgym.errors import AgentGymError, PolicyFault
from agentgym.policies.drawn import Draw
from agentgym.policies.generation import Job, TorchGenerator
from agentgym.policy import Sampling
from agentgym.trainers.verl.export import lora_config

NAME = "agentgym_torch_server_{}"
GATHER = 0.003  # seconds that a first request waits for others
MOST = 64  # requests of one batch
BUCKET = 64 << 20  # bytes of weights in one message
CACHE = 256 << 20  # bytes of keys and values kept between turns


class TorchServer:
    """The Ray actor: draws responses, takes weights. Methods without effect are those of servers that sleep."""

    def __init__(self, path: str) -> None:
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        self.model: Any = model.eval()
        self.steps: int | None = None
        self._base = dict(self.model.named_parameters())
        self._missing = set(self._base)
        self._generator: TorchGenerator | None = None
        self._pending: list[tuple[Job, asyncio.Future[Draw | AgentGymError]]] = []
        self._task: asyncio.Task[None] | None = None
        self._busy = asyncio.Lock()

    async def ready(self) -> bool:
        """True once the model is loaded."""
        return True

    async def generate(
        self, prompt_ids: list[int], sampling_params: dict[str, Any], request_id: str, **_: Any
    ) -> TokenOutput:
        """Draw one response. Raises PolicyFault where the model's numbers are not finite."""
        given = sampling_params
        sampling = Sampling(given["temperature"], given["top_p"], max(0, given["top_k"]), given["max_tokens"])
        session = given.get("session") or uuid.uuid4().hex
        job = Job(session, np.asarray(prompt_ids, np.int32), sampling, given.get("seed", 0))
        future: asyncio.Future[Draw | AgentGymError] = asyncio.get_running_loop().create_future()
        self._stops(frozenset(given.get("stop_token_ids") or ()))
        self._pending.append((job, future))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())
        drawn = await future
        if isinstance(drawn, AgentGymError):
            raise drawn
        return TokenOutput(
            token_ids=drawn.token_ids.tolist(), log_probs=drawn.logprobs.tolist(), stop_reason=drawn.finish_reason,
            extra_fields={"global_steps": self.steps},
        )  # fmt: skip

    def _stops(self, ids: frozenset[int]) -> None:
        if self._generator is None:
            self._generator = TorchGenerator(self.model, sorted(ids), lambda _: "", cache_bytes=CACHE)
        self._generator.stop_ids = ids

    async def _work(self) -> None:
        await asyncio.sleep(GATHER)
        while self._pending:
            batch, self._pending = self._pending[:MOST], self._pending[MOST:]
            assert self._generator is not None
            async with self._busy:
                try:
                    draws: list[Any] = await asyncio.to_thread(self._generator.generate, [job for job, _ in batch])
                except Exception as error:
                    draws = [PolicyFault(f"the generator raised {type(error).__name__}: {error}")] * len(batch)
            for (_, future), drawn in zip(batch, draws, strict=True):
                if not future.done():
                    future.set_result(drawn)

    async def load(self, tensors: list[tuple[str, torch.Tensor]], adapter: dict[str, Any] | None) -> None:
        """Put weights in place by name; ``adapter``: they are those of a LoRA adapter with this configuration."""
        async with self._busy:
            if adapter is None:
                self._load_base(tensors)
            else:
                self._load_adapter(tensors, adapter)

    def _load_base(self, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        with torch.no_grad():
            for name, tensor in tensors:
                if name in self._base:  # a tied output layer comes under a second name
                    self._base[name].copy_(tensor)
                    self._missing.discard(name)

    def _load_adapter(self, tensors: list[tuple[str, torch.Tensor]], adapter: dict[str, Any]) -> None:
        from peft import get_peft_model, set_peft_model_state_dict

        if not hasattr(self.model, "peft_config"):
            self.model = get_peft_model(self.model, lora_config(adapter))
            self.model.eval()
            self._generator = None
        result: Any = set_peft_model_state_dict(self.model, dict(tensors))
        if unexpected := list(result.unexpected_keys):
            raise AgentGymError(f"the adapter has weights that the model has no place for: {unexpected[0]}")
        self._missing = set()

    async def loaded(self, step: int | None) -> None:
        """All weights of training step ``step`` are here. Raises AgentGymError where one never came."""
        if self._missing:
            raise AgentGymError(f"{len(self._missing)} weights were never sent, among them {min(self._missing)}")
        if self._generator is not None:
            self._generator.clear()
        self.steps = step

    async def set_global_steps(self, step: int) -> None:
        """The training step of the present weights."""
        self.steps = step

    async def _nothing(self, *_: Any, **__: Any) -> None:
        """This server neither sleeps nor is profiled; nothing is under way when verl asks it to stop."""

    wake_up = sleep = abort_all_requests = resume_generation = clear_kv_cache = _nothing
    release_kv_cache = resume_kv_cache = start_profile = stop_profile = _nothing


class TorchReplica(RolloutReplica):  # type: ignore[misc, unused-ignore]
    """verl's handle on one server."""

    async def launch_servers(self) -> None:
        """Start the server and wait until its model is loaded."""
        path = self.model_config["path"] if isinstance(self.model_config, dict) else self.model_config.path
        maker = ray.remote(num_cpus=1)(TorchServer)
        server = maker.options(name=NAME.format(self.replica_rank), max_concurrency=1000).remote(str(path))
        await server.ready.remote()
        self.servers = [server]
        self._server_handle, self._server_address = server, f"torch:{self.replica_rank}"


class TorchAdapter(BaseRollout):  # type: ignore[misc, unused-ignore]
    """The trainer process's side: sends its weights to the server of the same number."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, *_: Any, **__: Any) -> None:
        super().__init__(config, model_config, device_mesh)
        self._rank = int(os.environ["RANK"])
        self._server: Any = None

    async def resume(self, tags: list[str]) -> None:
        """Nothing sleeps."""

    async def release(self) -> None:
        """Nothing sleeps."""

    @torch.no_grad()
    async def update_weights(
        self, weights: Iterable[tuple[str, torch.Tensor]], global_steps: int | None = None,
        wire_format: str = "named_tensors", peft_config: dict[str, Any] | None = None, base_sync_done: bool = True,
        **_: Any,
    ) -> None:  # fmt: skip
        """Send all weights; every process must go through ``weights`` to its end, since each tensor is gathered."""
        if wire_format != "named_tensors":
            raise AgentGymError(f"the torch rollout server takes named tensors, got wire format {wire_format!r}")
        if self._server is None:
            self._server = ray.get_actor(NAME.format(self._rank))
        adapter = peft_config if base_sync_done else None
        waiting: list[tuple[str, torch.Tensor]] = []
        size = 0
        for name, tensor in weights:
            waiting.append((name, tensor.detach().to("cpu", torch.float32)))
            size += waiting[-1][1].nbytes
            if size >= BUCKET and adapter is None:
                await self._server.load.remote(waiting, None)
                waiting, size = [], 0
        if waiting:
            await self._server.load.remote(waiting, adapter)
        await self._server.loaded.remote(global_steps)
