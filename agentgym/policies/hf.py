"""A transformers causal LM as a policy: tokenizer, chat template, generator, adapters.

The policy records exactly the ids the model was given and drew, with their log-probabilities, so a trainer can
learn from them without ever encoding text again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from agentgym.errors import ConfigError, MissingDependency, PolicyFault
from agentgym.parsing import ActionFormat
from agentgym.policies.causal import quiet
from agentgym.policies.drawn import Draw, make_turn
from agentgym.policies.generation import Job, TorchGenerator
from agentgym.policies.hub import check_vocabulary, loading, local_only
from agentgym.policies.rendering import ChatRenderer
from agentgym.policies.trie import Trie
from agentgym.policy import BatchPolicy, PolicyRequest, SampledTurn
from agentgym.tokens import IntArray


class HFPolicy(BatchPolicy):
    """Samples responses from ``model`` (any transformers causal LM, peft-wrapped or not).

    ``model``, ``tokenizer``  the objects themselves; train them in place, then call :meth:`refresh`
    ``version``               counts weight updates; recorded with every turn as ``info["version"]``
    ``constrain``             draw only admissible actions in the demanded format; the recorded log-probabilities are
                              those of the narrowed distribution (see :meth:`allowed` for what a trainer needs)
    ``reuse``, ``cache_bytes``, ``window``  see :class:`~agentgym.policies.generation.TorchGenerator`
    ``chat_template``         file, built-in name or Jinja text, for models that have none
    ``template_options``      variables of the chat template, for example ``{"enable_thinking": False}``
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str = "model",
        chat_template: str | Path | None = None,
        template_options: Mapping[str, Any] | None = None,
        constrain: bool = False,
        reuse: bool | None = None,
        cache_bytes: int | None = None,
        window: int | None = None,
        max_batch: int = 64,
    ) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.constrain, self.max_batch, self.version = constrain, max_batch, 0
        self.renderer = ChatRenderer(tokenizer, chat_template, **(template_options or {}))
        self.end_ids = end_ids(model, tokenizer, self.renderer)
        self.generator = TorchGenerator(model, sorted(self.end_ids), self._decode, window, cache_bytes, reuse)
        self._released: deque[str] = deque()
        self._encoded: dict[str, IntArray] = {}

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path,
        *,
        device: str = "auto",
        dtype: str = "auto",
        lora: str | Path | None = None,
        **options: Any,
    ) -> HFPolicy:
        """Load a folder or hub name; ``lora``: a folder with a peft adapter. ``options`` go to the constructor."""
        model, tokenizer = load_model(path, device=device, dtype=dtype, lora=lora)
        return cls(model, tokenizer, name=options.pop("name", Path(path).name), **options)

    @property
    def exact_logprobs(self) -> bool:
        """True where recorded log-probabilities are those of the model itself; trainers refuse a policy without."""
        return not self.constrain

    def refresh(self) -> None:
        """The weights changed: drop kept keys and values, raise ``version``. Conversations stay as recorded."""
        self.generator.clear()
        self.version += 1

    def release(self, session: str) -> None:
        """Free a session; safe while :meth:`act_batch` runs in another thread (it takes effect at the next call)."""
        self._released.append(session)

    def save(self, path: str | Path) -> None:
        """Write model (or adapter) and tokenizer to a folder that :meth:`from_pretrained` reads."""
        self.model.save_pretrained(path)
        self.tokenizer.save_pretrained(path)

    def act_batch(self, requests: Sequence[PolicyRequest]) -> list[SampledTurn | Exception]:
        """Answer all requests, in order; ContextOverflow and PolicyFault come back in place of a turn."""
        self._forget()
        prompts = self.renderer.prompts([(r.session, r.messages, r.tools) for r in requests])
        jobs = [self._job(request, prompt) for request, prompt in zip(requests, prompts, strict=True)]
        draws = iter(self.generator.generate([job for job in jobs if isinstance(job, Job)]))
        answers = [next(draws) if isinstance(job, Job) else job for job in jobs]
        return [
            answer if isinstance(answer, Exception) else self._turn(request, prompt, answer)
            for request, prompt, answer in zip(requests, prompts, answers, strict=True)
        ]

    def _forget(self) -> None:
        while self._released:
            session = self._released.popleft()
            self.renderer.release(session)
            self.generator.release(session)

    def _job(self, request: PolicyRequest, prompt: IntArray) -> Job | PolicyFault:
        job = Job(request.session, prompt, request.sampling, request.seed, request.token_budget, watch=request.watch)
        if self.constrain:
            if not request.admissible:
                return PolicyFault(f"session {request.session!r}: constrain=True needs admissible actions, got none")
            job.trie = self._trie(request.format, request.admissible)
        return job

    def _trie(self, action_format: ActionFormat, admissible: Sequence[str]) -> Trie:
        texts = [action_format.render(action) for action in admissible]
        return Trie([*ids, self._end_id()] for ids in self.encode_responses(texts))

    def allowed(self, action_format: ActionFormat, admissible: Sequence[str], ids: Sequence[int]) -> list[list[int]]:
        """The ids that a constrained draw could have taken at each position of the response ``ids``.

        Raises ValueError where ``ids`` is no such response: nothing could then be trained on it honestly.
        """
        try:
            return self._trie(action_format, admissible).allowed(ids)
        except KeyError as error:
            raise ValueError(
                f"the response {list(ids)} renders none of {len(admissible)} admissible actions"
            ) from error

    def _end_id(self) -> int:
        end = self.renderer.end_of_turn()
        return end if end is not None else min(self.end_ids)

    def encode_responses(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of response texts (kept for the next time)."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._encoded]
        if missing:
            if len(self._encoded) > 100_000:
                self._encoded.clear()
            self._encoded.update(zip(missing, self.renderer.encode(missing), strict=True))
        return [self._encoded[text].tolist() for text in texts]

    def _turn(self, request: PolicyRequest, prompt: IntArray, drawn: Draw) -> SampledTurn:
        return make_turn(self.renderer, self._decode, request, prompt, drawn, self.version)

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def end_ids(model: Any, tokenizer: Any, renderer: ChatRenderer) -> set[int]:
    """Ids that end a response: those of the generation config, the tokenizer, and the chat template's end of turn."""
    found: set[int] = set()
    config = getattr(model, "generation_config", None)
    for value in (getattr(config, "eos_token_id", None), tokenizer.eos_token_id, renderer.end_of_turn()):
        if value is not None:
            found.update([value] if isinstance(value, int) else value)
    if not found:
        raise ConfigError(
            f"{getattr(tokenizer, 'name_or_path', '') or 'the model'} has no end token: set eos_token_id in its "
            "generation_config.json or tokenizer"
        )
    return found


def load_model(
    path: str | Path, *, device: str = "auto", dtype: str = "auto", lora: str | Path | None = None
) -> tuple[Any, Any]:
    """Model and tokenizer from a folder or hub name, in evaluation mode.

    ``device`` auto: CUDA where present; ``dtype`` auto: bfloat16 on CUDA, float32 elsewhere. A folder that holds
    only a peft adapter is loaded on top of the base model it names. Raises ConfigError where nothing can be loaded.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if dtype == "auto":
        dtype = "bfloat16" if device.startswith("cuda") else "float32"
    base = Path(path)
    _check_folder(base)
    if (base / "adapter_config.json").is_file() and not (base / "config.json").is_file():
        lora, path = base, _adapter_base(base)
    with loading(path), quiet():
        only = local_only(path)
        tokenizer = AutoTokenizer.from_pretrained(base if base.is_dir() else path, local_files_only=only)
        model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype), local_files_only=only)
        check_vocabulary(path, tokenizer, model)
    if lora is not None:
        model = _with_adapter(model, lora)
    return model.to(device).eval(), tokenizer


def _check_folder(base: Path) -> None:
    """Refuse what is there and holds no model, before anyone asks the hub for it."""
    if base.is_file():
        raise ConfigError(f"cannot load a model from {str(base)!r}: it is a file, expected a model's folder")
    if base.is_dir() and not any((base / name).is_file() for name in ("config.json", "adapter_config.json")):
        raise ConfigError(f"cannot load a model from {str(base)!r}: the folder holds no config.json")


def _adapter_base(folder: Path) -> str:
    import json

    name = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8")).get("base_model_name_or_path")
    if not name:
        raise ConfigError(f"{folder}/adapter_config.json names no base model; give the base folder and lora={folder}")
    return str(name)


def _with_adapter(model: Any, folder: str | Path) -> Any:
    try:
        from peft import PeftModel
    except ImportError as error:
        raise MissingDependency("LoRA adapters need peft: pip install 'agentgym-turns[lora]'") from error
    if not (Path(folder) / "adapter_config.json").is_file():
        raise ConfigError(f"lora={str(folder)!r} has no adapter_config.json")
    return PeftModel.from_pretrained(model, str(folder))
