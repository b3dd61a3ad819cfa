"""Tiny models: lossless tokenizer, one row per token, seeded weights, loadable by transformers."""

from __future__ import annotations

import pytest
import torch

from agentgym.config.recipe import TinyModelSection
from agentgym.errors import ConfigError
from agentgym.policies.tiny import make_tiny, make_tokenizer, spelled_words

from .conftest import ACTIONS, OBSERVATIONS

TEXTS = OBSERVATIONS + ACTIONS


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_encoding_is_lossless(kind):
    tokenizer = make_tokenizer(TEXTS, TinyModelSection(tokenizer=kind))
    unseen = ["go to fridge 37", "a  b\n\n c", " leading and trailing ", "UPPER lower; punctuation-marks (x)!", "<b>"]
    for text in [*TEXTS, *unseen, *(f"<action>{a}</action>" for a in ACTIONS), "<think>x</think><action>look</action>"]:
        assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text


def test_known_words_and_tags_are_single_tokens():
    tokenizer = make_tokenizer(TEXTS, TinyModelSection())
    ids = tokenizer("<action>go to drawer 12</action>", add_special_tokens=False)["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["<action>", "go", " to", " drawer", " 12", "</action>"]
    assert tokenizer.unk_token_id not in ids


def test_unseen_words_are_spelled_and_counted():
    tokenizer = make_tokenizer(TEXTS, TinyModelSection())
    ids = tokenizer("open fridge 37", add_special_tokens=False)["input_ids"]
    assert tokenizer.unk_token_id not in ids
    assert set(spelled_words(tokenizer, ["open fridge 37", "open drawer 12"])) == {" fridge", " 37"}


def test_vocabulary_equals_embedding_rows(tiny):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(tiny), AutoModelForCausalLM.from_pretrained(tiny)
    assert len(tokenizer) == model.config.vocab_size == model.get_input_embeddings().weight.shape[0]
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert (tiny / "model.safetensors").is_file()


def test_weights_depend_on_the_seed_alone(tmp_path):
    from safetensors.torch import load_file

    torch.manual_seed(1)
    state = torch.get_rng_state()
    folders = [make_tiny(tmp_path / str(i), TEXTS, TinyModelSection(), seed) for i, seed in enumerate([5, 5, 6])]
    assert torch.equal(state, torch.get_rng_state())
    first, same, other = (load_file(folder / "model.safetensors") for folder in folders)
    assert all(torch.equal(first[k], same[k]) for k in first)
    assert any(not torch.equal(first[k], other[k]) for k in first)


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_a_vocabulary_without_room_is_refused(kind):
    with pytest.raises(ConfigError, match="vocab_size"):
        make_tokenizer(TEXTS, TinyModelSection(vocab_size=32, tokenizer=kind))


def test_the_most_frequent_words_stay_when_room_is_short():
    tokenizer = make_tokenizer(["drawer"] * 1 + ["look drawer drawer", "look"], TinyModelSection(vocab_size=110))
    assert len(tokenizer) <= 110
    assert " drawer" in tokenizer.get_vocab()
