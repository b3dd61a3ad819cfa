"""vLLM as the generator of a training run: its engine in a thread of its own, fed with the trainer's weights.

Every rollout runs in a fresh event loop, while vLLM's engine lives in one; so the engine gets a loop that stays.
``refresh`` writes the weights (or the LoRA adapter) to a folder and has vLLM load them, if they changed.
Needs CUDA; the tests check the bridge against a stand-in policy.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from agentgym.policy import Policy, PolicyRequest, SampledTurn


class VLLMBridge(Policy):
    """Forwards requests to ``make(folder)``, a policy made in the engine's thread from the weights in ``folder``."""

    exact_logprobs = True

    def __init__(self, model: Any, tokenizer: Any, folder: Path, make: Callable[[Path], Any]) -> None:
        self.model, self.tokenizer, self.folder = model, tokenizer, folder
        self._saved = -1
        self._round = 0
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="agentgym-vllm", daemon=True).start()
        folder.mkdir(parents=True, exist_ok=True)
        start = self._save()

        async def build() -> Any:
            return make(start)

        self.inner: Any = self._wait(build())
        self.name = str(self.inner.name)
        self.renderer, self.end_ids = self.inner.renderer, self.inner.end_ids

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _changes(self) -> int:
        """Grows with every in-place update of a trainable parameter."""
        return sum(p._version for p in self.model.parameters() if p.requires_grad)

    def _save(self) -> Path:
        """Write the present weights to a new folder; vLLM tells adapters apart by their path."""
        self._saved, self._round = self._changes(), self._round + 1
        target = self.folder / str(self._round)
        shutil.rmtree(target, ignore_errors=True)
        self.model.save_pretrained(target)
        self.tokenizer.save_pretrained(target)
        return target

    def refresh(self) -> None:
        """Push the weights to vLLM, unless it has them already."""
        if self._changes() == self._saved:
            return
        before = self.folder / str(self._round)
        self._wait(self.inner.refresh(self._save()))
        shutil.rmtree(before, ignore_errors=True)

    async def act(self, request: PolicyRequest) -> SampledTurn:
        """One response, drawn in the engine's loop."""
        work = asyncio.run_coroutine_threadsafe(self.inner.act(request), self._loop)
        answer: SampledTurn = await asyncio.wrap_future(work)
        return answer

    def release(self, session: str) -> None:
        """Passed on."""
        self.inner.release(session)

    async def aclose(self) -> None:
        """Stop the engine and its thread."""
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.inner.aclose(), self._loop))
        self._loop.call_soon_threadsafe(self._loop.stop)


def make_vllm(model: Any, tokenizer: Any, base: Path | str, folder: Path, memory: float, lora_rank: int) -> VLLMBridge:
    """The bridge to a real engine that leaves ``1 - memory`` of the GPU to the trainer. ``lora_rank`` 0: no LoRA."""
    from agentgym.policies.vllm import VLLMPolicy

    def make(start: Path) -> VLLMPolicy:
        options: dict[str, Any] = {"gpu_memory_utilization": memory}
        if lora_rank:
            return VLLMPolicy.from_pretrained(base, lora=start, max_lora_rank=max(8, lora_rank), **options)
        return VLLMPolicy.from_pretrained(start, dtype="bfloat16", **options)

    return VLLMBridge(model, tokenizer, folder, make)
