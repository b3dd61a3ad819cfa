"""Dense retrieval: passage vectors made beforehand, a query vector by a local text encoder, the highest inner products.

``python -m agentgym.environments.search.dense CORPUS ENCODER OUT.safetensors`` makes the vectors of a corpus. ENCODER
is the folder of a transformers encoder whose token states are averaged (MiniLM, E5 and the like). Vectors carry the
hash of their corpus and the prefixes that the encoder wants before queries and passages.
"""

from __future__ import annotations

import argparse
import importlib
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from agentgym.environments.search.bm25 import best
from agentgym.environments.search.corpus import Corpus, Passage, read_corpus
from agentgym.errors import ConfigError, DataError, MissingDependency

Vectors = NDArray[np.floating[Any]]
BACKENDS: Final = ("numpy", "faiss", "usearch")
_INSTALL: Final = "pip install 'agentgym-turns[search]'"


class QueryEncoder(Protocol):
    """Makes unit vectors of texts."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 ``[texts, dimensions]``."""


class TextEncoder:
    """A transformers encoder on the CPU: the mean of the token states, scaled to length 1. ``most``: tokens read."""

    def __init__(self, folder: str, most: int = 256) -> None:
        from transformers import AutoModel, AutoTokenizer

        if not Path(folder).is_dir():
            raise ConfigError(f"encoder {folder!r} is not a folder; give one that holds a transformers encoder")
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            self._model: Any = AutoModel.from_pretrained(folder, local_files_only=True).eval()
        except (OSError, ValueError) as error:
            raise DataError(f"encoder {folder}: not a usable transformers encoder ({error})") from error
        self._most = most
        self._lock = threading.Lock()  # a tokenizer's settings of padding and truncation are its own state

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 ``[texts, dimensions]``, rows of length 1."""
        import torch

        with self._lock, torch.inference_mode():
            fed = self._tokenizer(
                list(texts), padding=True, truncation=True, max_length=self._most, return_tensors="pt"
            )
            states = self._model(**fed).last_hidden_state
        mask = fed["attention_mask"].unsqueeze(-1).to(states.dtype)
        mean = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
        found: NDArray[np.float32] = torch.nn.functional.normalize(mean, dim=-1).float().numpy()
        return found


class DenseIndex:
    """Passages by inner product. ``backend``: ``numpy`` and ``faiss`` are exact; ``usearch`` is asked to be."""

    def __init__(
        self, corpus: Corpus, vectors: Vectors, encoder: QueryEncoder, prefix: str = "", backend: str = "numpy"
    ) -> None:
        if vectors.ndim != 2 or len(vectors) != len(corpus):
            raise DataError(f"{corpus.source} has {len(corpus)} passages, the vectors have shape {vectors.shape}")
        if not np.isfinite(vectors).all():
            raise DataError(f"the vectors of {corpus.source} hold NaN or infinity; make them again")
        self.corpus, self._encoder, self._prefix = corpus, encoder, prefix
        self._vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        self._library = _library(backend, self._vectors)

    def search(self, query: str, k: int) -> list[Passage]:
        """The ``k`` nearest passages, best first."""
        vector = self._encoder.encode([self._prefix + query])[0]
        if vector.shape != self._vectors.shape[1:]:
            raise ConfigError(
                f"the encoder makes vectors of {len(vector)} numbers, the passages' have {self._vectors.shape[1]}: use "
                "the encoder that made them"
            )
        k = min(k, len(self.corpus))
        ranked = self._library(vector, k) if self._library else self._exact(vector, k)
        return [self.corpus.passage(number, score) for number, score in ranked]

    def _exact(self, vector: NDArray[np.float32], k: int) -> list[tuple[int, float]]:
        return best(self._vectors @ vector, np.arange(len(self._vectors)), k)


def _library(backend: str, vectors: NDArray[np.float32]) -> Any:
    if backend == "numpy":
        return None
    try:
        if backend == "faiss":
            index = importlib.import_module("faiss").IndexFlatIP(vectors.shape[1])
            index.add(vectors)
        else:
            index = importlib.import_module("usearch.index").Index(ndim=vectors.shape[1], metric="ip", dtype="f32")
            index.add(np.arange(len(vectors)), vectors)
    except ModuleNotFoundError as error:
        raise MissingDependency(f"dense backend {backend!r} needs the package {error.name!r}: {_INSTALL}") from error

    def search(vector: NDArray[np.float32], k: int) -> list[tuple[int, float]]:
        if backend == "faiss":
            scores, rows = index.search(vector[None], k)
            return list(zip(rows[0].tolist(), scores[0].tolist(), strict=True))
        found = index.search(vector, k, exact=True)
        return [(int(key), 1.0 - float(away)) for key, away in zip(found.keys, found.distances, strict=True)]

    return search


def save_vectors(
    path: Path, corpus: Corpus, encoder: QueryEncoder, query_prefix: str = "", passage_prefix: str = "", batch: int = 32
) -> None:
    """Encode a corpus and write its vectors (float16) with the corpus's hash."""
    from safetensors.numpy import save_file

    made = [
        encoder.encode([f"{passage_prefix}{title}\n{text}" for title, text in corpus[start : start + batch]])
        for start in range(0, len(corpus), batch)
    ]
    vectors = {"vectors": np.concatenate(made).astype(np.float16)}
    save_file(vectors, path, {"corpus": corpus.hash, "query_prefix": query_prefix})


def load_dense(corpus: Corpus, vectors: str, encoder: str, backend: str = "numpy") -> DenseIndex:
    """The dense index of a corpus from its vectors on disk. DataError where they belong to another corpus."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(vectors, framework="np") as file:
            table, about = file.get_tensor("vectors"), file.metadata() or {}
    except (OSError, ValueError, SafetensorError) as error:
        raise DataError(
            f"vectors {vectors}: not readable ({error}). Make them with "
            "python -m agentgym.environments.search.dense CORPUS ENCODER OUT.safetensors"
        ) from error
    if about.get("corpus") != corpus.hash:
        raise DataError(
            f"vectors {vectors}: made for a corpus with hash {about.get('corpus')}, but {corpus.source} has hash "
            f"{corpus.hash}. Make them again: python -m agentgym.environments.search.dense CORPUS ENCODER {vectors}"
        )
    return DenseIndex(corpus, table, TextEncoder(encoder), about.get("query_prefix", ""), backend)


def main(arguments: Iterable[str] | None = None) -> None:
    """Make the vectors of a corpus."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("encoder", help="folder of a transformers encoder")
    parser.add_argument("out", type=Path)
    parser.add_argument("--query-prefix", default="", help="E5 wants 'query: '")
    parser.add_argument("--passage-prefix", default="", help="E5 wants 'passage: '")
    given = parser.parse_args(None if arguments is None else list(arguments))
    corpus, encoder = read_corpus(given.corpus), TextEncoder(given.encoder)
    save_vectors(given.out, corpus, encoder, given.query_prefix, given.passage_prefix)
    print(f"{given.out}: vectors of {len(corpus)} passages")


if __name__ == "__main__":
    main()
