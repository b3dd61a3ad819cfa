"""Models by folder or hub name: what cannot be loaded is one line, and a hub out of reach is found out in seconds."""

from __future__ import annotations

import contextlib
import os
import socket
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentgym.errors import AgentGymError, ConfigError

CONNECT_SECONDS = 5.0


def local_only(path: str | Path) -> bool:
    """Ask the cache alone: ``path`` is a hub name and the hub is out of reach (its client would retry for minutes)."""
    return not Path(path).exists() and not _reachable()


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT") or "https://huggingface.co"


def _reachable() -> bool:
    """One connection to the hub. With HF_HUB_OFFLINE or behind a proxy it is left to the hub's own client."""
    if os.environ.get("HF_HUB_OFFLINE") or urllib.request.getproxies():
        return True
    try:
        url = urllib.parse.urlsplit(_endpoint())
        port = url.port or (80 if url.scheme == "http" else 443)
        socket.create_connection((url.hostname or "", port), timeout=CONNECT_SECONDS).close()
    except (OSError, ValueError):
        return False
    return True


@contextlib.contextmanager
def loading(path: str | Path) -> Iterator[None]:
    """Whatever goes wrong inside is a ConfigError of one line; every library in between has errors of its own."""
    try:
        yield
    except AgentGymError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"
        hint = ""
        if not Path(path).exists():
            why = why if len(why) <= 300 else why[:300] + "..."
            hint = (
                f" There is no such folder, so it was taken for a name on {_endpoint()}. Give a model's folder, or a "
                "name that can be downloaded or is in the cache (HF_HUB_OFFLINE=1 asks the cache alone)."
            )
        raise ConfigError(f"cannot load a model from {str(path)!r}: {why}{hint}") from error


def check_vocabulary(path: str | Path, tokenizer: Any, model: Any) -> None:
    """Refuse a tokenizer whose own vocabulary (added tokens left out) has ids that the model has no embedding for."""
    tokens, rows = tokenizer.vocab_size, model.get_input_embeddings().weight.shape[0]
    if tokens > rows:
        raise ConfigError(
            f"cannot load a model from {str(path)!r}: its tokenizer has {tokens} tokens, the model embeddings for "
            f"{rows} only; they are not of the same model"
        )
