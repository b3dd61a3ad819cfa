"""Checkpoints that appear whole or not at all, and resume exactly.

``checkpoints/NAME/`` is a Hugging Face folder (config, weights, tokenizer), so any loader reads it, with
``trainer/`` inside: ``optimizer.safetensors``, ``state.json`` (step counts, metrics offset, credit state), and
``files.json``, the size and digest of every file, written last. It is built in a temporary folder, synced to disk
and renamed. ``checkpoint`` in the run folder is a link to the newest. All seeds are derived from the recipe's, so
there is no generator state to keep.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from agentgym.errors import DataError

FILES = "trainer/files.json"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint on disk: its ``folder`` and the trainer's ``state``."""

    folder: Path
    state: dict[str, Any]


def trainable(model: nn.Module) -> dict[str, torch.Tensor]:
    """The trainable parameters by name, on the CPU."""
    return {n: p.detach().cpu().contiguous() for n, p in model.named_parameters() if p.requires_grad}


def load_weights(model: nn.Module, folder: Path) -> None:
    """Put a checkpoint's trainable parameters into ``model``, bit for bit."""
    own = folder / "trainer" / "weights.safetensors"
    saved = load_file(own if own.exists() else folder / "model.safetensors")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue
            if name not in saved or saved[name].shape != parameter.shape:
                raise DataError(f"checkpoint {folder} is of another model: no matching tensor for {name!r}")
            parameter.copy_(saved[name])


def flatten(value: Any, tensors: dict[str, torch.Tensor], path: str = "state") -> Any:
    """``value`` as JSON, its arrays and tensors moved to ``tensors``; :func:`unflatten` undoes it."""
    if isinstance(value, torch.Tensor | np.ndarray):
        tensors[path] = torch.as_tensor(value).detach().cpu().contiguous()
        return {"__array__": path, "numpy": isinstance(value, np.ndarray)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {"__map__": [[k, flatten(v, tensors, f"{path}.{i}")] for i, (k, v) in enumerate(value.items())]}
    if isinstance(value, list | tuple):
        return [flatten(v, tensors, f"{path}.{i}") for i, v in enumerate(value)]
    return value


def unflatten(value: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    """The inverse of :func:`flatten`; tuples come back as lists."""
    if isinstance(value, dict) and "__array__" in value:
        tensor = tensors[value["__array__"]]
        return tensor.numpy() if value["numpy"] else tensor
    if isinstance(value, dict) and "__map__" in value:
        return {k: unflatten(v, tensors) for k, v in value["__map__"]}
    if isinstance(value, list):
        return [unflatten(v, tensors) for v in value]
    return value


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class CheckpointStore:
    """The checkpoints of one run."""

    def __init__(self, run_dir: Path, keep: int) -> None:
        self.run_dir, self.keep = run_dir, keep
        self.root = run_dir / "checkpoints"

    def save(
        self,
        name: str,
        model: nn.Module,
        tokenizer: Any,
        optimizer: Mapping[str, torch.Tensor],
        state: Mapping[str, Any],
        pinned: bool = False,
    ) -> Path:
        """Write a checkpoint and point ``checkpoint`` at it. ``pinned`` ones are never removed."""
        self.root.mkdir(parents=True, exist_ok=True)
        part = self.root / f".part-{name}-{os.getpid()}"
        shutil.rmtree(part, ignore_errors=True)
        (part / "trainer").mkdir(parents=True)
        self._write(part, model, tokenizer, optimizer, {**state, "name": name, "pinned": pinned})
        target = self.root / name
        if target.exists():  # a run that was resumed from an older checkpoint comes by again
            old = self.root / f".old-{name}-{os.getpid()}"
            os.rename(target, old)
            os.rename(part, target)
            shutil.rmtree(old)
        else:
            os.rename(part, target)
        _sync(self.root)
        self._point(target)
        self._prune(target)
        return target

    def _write(
        self,
        folder: Path,
        model: Any,
        tokenizer: Any,
        optimizer: Mapping[str, torch.Tensor],
        state: Mapping[str, Any],
    ) -> None:
        model.save_pretrained(folder, max_shard_size="1TB")
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
        weights = trainable(model)
        root = folder / "model.safetensors"
        if not root.exists() or not _holds(root, weights):
            save_file(weights, folder / "trainer" / "weights.safetensors")
        save_file(dict(optimizer), folder / "trainer" / "optimizer.safetensors")
        tensors: dict[str, torch.Tensor] = {}
        text = json.dumps(flatten(state, tensors), indent=1)
        save_file(tensors, folder / "trainer" / "state.safetensors")
        (folder / "trainer" / "state.json").write_text(text)
        paths = sorted(p for p in folder.rglob("*") if p.is_file())
        listing = {str(p.relative_to(folder)): [p.stat().st_size, _digest(p)] for p in paths}
        (folder / FILES).write_text(json.dumps(listing, indent=1))
        for path in [*paths, folder / FILES, folder / "trainer", folder]:
            _sync(path)

    def _point(self, target: Path) -> None:
        link = self.run_dir / "checkpoint"
        fresh = self.run_dir / f".checkpoint-{os.getpid()}"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(Path("checkpoints") / target.name)
        os.replace(fresh, link)

    def _prune(self, newest: Path) -> None:
        for leftover in self.root.glob(".*-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        loose = sorted(
            (c for c in self._complete([]) if not c.state["pinned"] and c.folder != newest),
            key=lambda c: c.state["order"],
            reverse=True,
        )
        for old in loose[self.keep - 1 :]:
            shutil.rmtree(old.folder)

    def _complete(self, notes: list[str]) -> list[Checkpoint]:
        """Checkpoints whose files are all there, in their sizes."""
        found = []
        for folder in sorted(self.root.glob("*")) if self.root.is_dir() else []:
            if folder.name.startswith("."):
                continue
            problem = torn(folder, digests=False)
            if problem:
                notes.append(_ignored(folder, problem))
            else:
                found.append(read(folder))
        return found

    def newest(self) -> tuple[Checkpoint | None, list[str]]:
        """The most advanced complete checkpoint, and notes about those that were ignored."""
        notes: list[str] = []
        for candidate in sorted(self._complete(notes), key=lambda c: c.state["order"], reverse=True):
            problem = torn(candidate.folder, digests=True)
            if not problem:
                return candidate, notes
            notes.append(_ignored(candidate.folder, problem))
        return None, notes


def _ignored(folder: Path, problem: str) -> str:
    return f"checkpoint {folder.name} is incomplete ({problem}) and is ignored"


def _holds(path: Path, weights: Mapping[str, torch.Tensor]) -> bool:
    """Does a saved file hold exactly these tensors (under these names, in this precision)?"""
    saved = load_file(path)
    return all(n in saved and saved[n].dtype == w.dtype and torch.equal(saved[n], w) for n, w in weights.items())


def torn(folder: Path, digests: bool = True) -> str:
    """Why a checkpoint folder is not whole; empty: it is."""
    try:
        listing = json.loads((folder / FILES).read_text())
    except (OSError, ValueError):
        return f"no readable {FILES}"
    for name, (size, digest) in listing.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size or (digests and _digest(path) != digest):
            return f"{name} is damaged"
    return ""


def read(folder: Path) -> Checkpoint:
    """A complete checkpoint's state."""
    tensors = load_file(folder / "trainer" / "state.safetensors")
    state = unflatten(json.loads((folder / "trainer" / "state.json").read_text()), tensors)
    return Checkpoint(folder, state)


def load_optimizer(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """The optimiser's tensors of a checkpoint."""
    return load_file(checkpoint.folder / "trainer" / "optimizer.safetensors")
