"""Dense retrieval: exact inner products, vectors on disk, a real (tiny) encoder, the libraries where installed."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from search_help import PASSAGES, task_of

from agentgym.environments.search import Search
from agentgym.environments.search import dense as module
from agentgym.environments.search.corpus import Corpus, read_corpus
from agentgym.environments.search.dense import DenseIndex, TextEncoder, load_dense, main, save_vectors
from agentgym.errors import ConfigError, DataError, MissingDependency


class Hashed:
    """A bag of hashed words as a unit vector."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        out = np.zeros((len(texts), 64), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                out[row, zlib.crc32(word.strip('."?').encode()) % 64] += 1
        return out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-9)


def test_the_highest_inner_products_in_order_of_the_corpus() -> None:
    corpus = Corpus([("a", "x"), ("b", "y"), ("c", "z"), ("d", "w")], "test")
    vectors = np.array([[1, 0], [0, 1], [1, 0], [0.6, 0.8]], dtype=np.float16)

    class Fixed:
        def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
            assert texts == ["query: q"]
            return np.array([[1.0, 0.0]], dtype=np.float32)

    found = DenseIndex(corpus, vectors, Fixed(), "query: ").search("q", 3)
    assert [(p.title, p.score) for p in found] == [("a", 1.0), ("c", 1.0), ("d", pytest.approx(0.6, abs=1e-3))]
    assert len(DenseIndex(corpus, vectors, Fixed(), "query: ").search("q", 9)) == 4


@pytest.mark.parametrize("backend", ["faiss", "usearch"])
def test_the_libraries_agree(corpus_file: Path, backend: str) -> None:
    corpus, encoder = read_corpus(corpus_file), Hashed()
    vectors = encoder.encode([f"{title} {text}" for title, text in corpus])
    if find_spec(backend) is None:
        with pytest.raises(MissingDependency, match=r"pip install 'agentgym-turns\[search\]'"):
            DenseIndex(corpus, vectors, encoder, backend=backend)
        return
    exact, library = (DenseIndex(corpus, vectors, encoder, backend=name) for name in ("numpy", backend))
    for query in ("who wrote The Amber Ledger", "a river", "soup"):
        left, right = exact.search(query, 3), library.search(query, 3)
        assert [p.score for p in left] == pytest.approx([p.score for p in right], abs=1e-5)
        assert left[0].title == right[0].title


def test_vectors_on_disk_belong_to_their_corpus(
    corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TextEncoder", lambda folder: Hashed())
    corpus, file = read_corpus(corpus_file), tmp_path / "v.safetensors"
    save_vectors(file, corpus, Hashed(), batch=2)
    assert load_dense(corpus, str(file), "encoder").search("soup", 1)[0].title == "Soup"
    env = Search(retriever="dense", vectors=str(file), encoder="encoder", corpus=str(corpus_file), topk=1)
    env.reset(task_of())
    assert env.step("search: Amber Ledger novel").milestones == ("document 1",)
    with pytest.raises(DataError, match=r"made for a corpus with hash .* Make them again"):
        load_dense(Corpus([("a", "b")], "another"), str(file), "encoder")
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(DataError, match="not readable"):
        load_dense(corpus, str(file), "encoder")
    with pytest.raises(DataError, match="not readable"):
        load_dense(corpus, str(tmp_path / "none"), "encoder")


def test_wrong_vectors_are_refused(corpus_file: Path) -> None:
    corpus = read_corpus(corpus_file)
    with pytest.raises(DataError, match="5 passages, the vectors have shape"):
        DenseIndex(corpus, np.zeros((4, 64)), Hashed())
    with pytest.raises(DataError, match="NaN"):
        DenseIndex(corpus, np.full((5, 64), np.nan), Hashed())
    with pytest.raises(ConfigError, match="vectors of 64 numbers, the passages' have 8"):
        DenseIndex(corpus, np.zeros((5, 8)), Hashed()).search("x", 1)


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BERT of a few thousand random weights."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = str(tmp_path_factory.mktemp("encoder"))
    words = ["[PAD]", "[UNK]", *(word.lower() for _, text in PASSAGES for word in text.split())]
    words = list(dict.fromkeys(words))
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(words), max_position_embeddings=300, **shape)).save_pretrained(folder)
    return folder


def test_an_encoder_of_transformers(encoder_folder: str, corpus_file: Path, tmp_path: Path) -> None:
    encoder = TextEncoder(encoder_folder)
    alone = encoder.encode(["soup is warm"])
    padded = encoder.encode(["soup is warm", "zorvan quill wrote the amber ledger"])
    assert alone.shape == (1, 16)
    np.testing.assert_allclose(np.linalg.norm(padded, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(padded[0], alone[0], atol=1e-5)  # padding is masked out
    out = tmp_path / "v.safetensors"
    main([str(corpus_file), encoder_folder, str(out), "--query-prefix", "query: "])
    index = load_dense(read_corpus(corpus_file), str(out), encoder_folder)
    assert len(index.search("soup", 2)) == 2
    assert index._prefix == "query: "


def test_a_wrong_encoder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a folder"):
        TextEncoder("some/hub-name")
    with pytest.raises(DataError, match="not a usable transformers encoder"):
        TextEncoder(str(tmp_path))
