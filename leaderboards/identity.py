"""Who a model is: the hash of its weights, or its endpoint and name; and which code measured it."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import agentgym
from agentgym.errors import ConfigError
from agentgym.leaderboards.entry import ModelIdentity

#: files of a model folder that decide what it answers
_FILES = ("*.safetensors", "*.bin", "*.json", "*.jinja", "*.model", "*.txt", "*.tiktoken")
#: options of policies that change how fast they answer, not what; keys are never recorded by value
_WORKINGS = frozenset({
    "concurrency", "retries", "timeout", "deadline", "backoff", "api_key_env", "device", "max_batch", "cache_bytes",
    "gpu_memory_utilization", "tensor_parallel_size", "name",
})  # fmt: skip


def identify(spec: str, options: Mapping[str, Any] | None = None, label: str = "") -> ModelIdentity:
    """The identity of the model that ``load_policy(spec, **options)`` loads.

    Reads the files of a folder; a hub name's files come from the cache, so load the model first. ``label``: what tables
    show, at most 100 characters (default: made from the name).
    """
    kept = {key: value for key, value in (options or {}).items() if key not in _WORKINGS}
    if spec.startswith(("http://", "https://")):
        name = str(kept.pop("model", ""))
        facts: dict[str, Any] = {"kind": "endpoint", "name": name, "endpoint": endpoint(spec)}
    elif Path(spec).is_dir():
        folder = Path(spec)
        facts = {"kind": "checkpoint", "name": _folder_name(folder), **_weights(folder, kept.get("lora"))}
        kept.pop("lora", None)
    elif spec.count("/") == 1 and not spec.startswith((".", "/")) and ":" not in spec:
        facts = {"kind": "hub", "name": spec, **_weights(_hub_folder(spec), kept.get("lora"))}
        kept.pop("lora", None)
    else:
        scripted = spec in ("random", "expert", "noop", "scripted")
        facts = {"kind": "scripted" if scripted else "other", "name": spec}
    shown = label or str(facts["name"]) or spec
    if not label and kept.get("choice"):
        shown += " (choice)"
    if len(shown) > 100:
        raise ConfigError(f"a label has at most 100 characters, got {len(shown)}: {shown[:60]!r}...")
    return ModelIdentity(label=shown, options=kept, **facts)


def endpoint(url: str) -> str:
    """``url`` without user, password, query and fragment, which may hold secrets."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


def file_name(label: str) -> str:
    """A file name made of a label: letters, digits, dots, dashes; never empty or hidden."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", label).strip("-.").lower()[:80] or "model"


def weights_hash(folder: Path) -> str:
    """SHA-256 over names and contents of the model files in ``folder``, subfolders left out."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in _FILES for path in folder.glob(pattern) if path.is_file()}):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.name}\0{content}\n".encode())
    return digest.hexdigest()


def parameters(folder: Path) -> int | None:
    """Number of weights, read from the headers of the safetensors files; None where there are none."""
    total = 0
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(size))
        for name, tensor in header.items():
            if name != "__metadata__":
                count = 1
                for side in tensor["shape"]:
                    count *= side
                total += count
    return total or None


@lru_cache(maxsize=1)
def code_version() -> str:
    """The package's version; in a git checkout with the commit, and ``+`` behind it where files were changed."""
    home = Path(agentgym.__file__).resolve().parent
    try:
        root = _git(home, "rev-parse", "--show-toplevel")
        if Path(root).resolve() != home.parent:
            return agentgym.__version__
        changed = "+" if _git(home, "status", "--porcelain", "--untracked-files=no") else ""
        return f"{agentgym.__version__}+g{_git(home, 'rev-parse', '--short=10', 'HEAD')}{changed}"
    except (OSError, subprocess.SubprocessError):
        return agentgym.__version__


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()


def _folder_name(folder: Path) -> str:
    """``demo`` of ``runs/demo/checkpoint``, else the folder's own name: a path says nothing on another machine."""
    place = folder.resolve()
    return place.parent.name if place.name == "checkpoint" else place.name


def _weights(folder: Path, lora: Any) -> dict[str, Any]:
    digest, count = weights_hash(folder), parameters(folder)
    if lora:
        digest = hashlib.sha256(f"{digest} {weights_hash(Path(str(lora)))}".encode()).hexdigest()
        count = (count or 0) + (parameters(Path(str(lora))) or 0) or None
    return {"hash": digest, "parameters": count}


def _hub_folder(name: str) -> Path:
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(name, local_files_only=True))
