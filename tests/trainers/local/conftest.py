"""A tiny Llama and random token rows for the trainer's tests."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from agentgym.seeding import derive_seed, numpy_rng
from agentgym.tokens import TokenRow
from agentgym.trainers.local.batch import TrainRow

torch.set_num_threads(1)

VOCAB = 23


def make_model(seed: int = 0, **overrides: object) -> LlamaForCausalLM:
    settings: dict[str, object] = {
        "vocab_size": VOCAB,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "max_position_embeddings": 256,
        "tie_word_embeddings": True,
        **overrides,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed))
        model = LlamaForCausalLM(LlamaConfig(**settings))
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.mul_(10.0)  # far from uniform, so that tests see something
    return model.eval()


def make_row(seed: int, length: int = 30, share: float = 0.4) -> TrainRow:
    rng = numpy_rng("row", seed)
    mask = rng.random(length) < share
    mask[0] = False
    mask[-1] = True
    turns = np.where(mask, np.cumsum(np.diff(mask, prepend=False) & mask) - 1, -1).astype(np.int32)
    row = TokenRow(
        rng.integers(0, VOCAB, length).astype(np.int32),
        mask,
        np.where(mask, rng.normal(-3, 0.3, length), 0).astype(np.float32),
        turns,
    )
    advantages = np.where(mask, rng.normal(size=length), 0).astype(np.float32)
    return TrainRow(row, advantages, name=f"row {seed}")


@pytest.fixture
def model() -> LlamaForCausalLM:
    return make_model()


@pytest.fixture
def rows() -> list[TrainRow]:
    return [make_row(seed, length) for seed, length in enumerate((30, 11, 60, 33, 7, 30, 58))]
