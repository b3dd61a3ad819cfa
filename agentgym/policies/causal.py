"""Calling a transformers causal LM the same way whatever its version and wrapping."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import torch


class CausalModel:
    """Calls a transformers causal LM the same way across versions; ``device``, ``window`` in tokens or None."""

    def __init__(self, model: Any) -> None:
        self.module = model.get_base_model() if hasattr(model, "get_base_model") else model
        self.config = self.module.config.get_text_config()
        parameters = inspect.signature(self.module.forward).parameters
        self.cache_name = "cache" if "cache" in parameters else "past_key_values"
        self.keep_logits = "logits_to_keep" in parameters
        self.device: torch.device = self.module.get_input_embeddings().weight.device
        window = getattr(self.config, "max_position_embeddings", None)
        self.window: int | None = window if isinstance(window, int) and window > 0 else None

    def __call__(
        self, ids: torch.Tensor, mask: Any, positions: torch.Tensor, cache: Any, keep: int = 1
    ) -> torch.Tensor:
        """Logits [B, keep, V] of the last ``keep`` columns."""
        options: dict[str, Any] = {self.cache_name: cache}
        if self.keep_logits:
            options["logits_to_keep"] = keep
        out = self.module(
            input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=cache is not None, **options
        )
        logits: torch.Tensor = out.logits
        return logits[:, -keep:]

    def token_bytes(self) -> int:
        """Bytes of keys and values per token (an estimate from the configuration)."""
        config = self.config
        total = getattr(config, "num_attention_heads", 1) or 1
        heads = getattr(config, "num_key_value_heads", None) or total
        size = getattr(config, "head_dim", None) or config.hidden_size // total
        return int(2 * config.num_hidden_layers * heads * size * self.module.dtype.itemsize)


@contextlib.contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode inside, the former mode after."""
    training = model.training
    if training:
        model.eval()
    try:
        yield
    finally:
        if training:
            model.train()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No transformers progress bars inside; loading a tiny model is not worth one."""
    from transformers.utils import logging as transformers_logging

    logging: Any = transformers_logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
