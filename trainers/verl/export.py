"""What a checkpoint of verl holds for every loader: a model's folder, or an adapter's that names its base."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: in a checkpoint's ``actor`` folder: verl's export of a whole model, and ours of an adapter
MODEL, ADAPTER = "huggingface", "adapter"


def adapter(folder: Path, weights: Mapping[str, Any], config: Any, base: str) -> None:
    """Write a LoRA adapter as peft does: ``weights`` by peft's names, ``config`` a LoraConfig."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, folder / "adapter_model.safetensors")
    told = copy.copy(config)
    told.base_model_name_or_path, told.inference_mode = base, True
    told.save_pretrained(folder)


def newest(actor: Path) -> Path | None:
    """The folder for loaders in a checkpoint's ``actor`` folder; None where there is none."""
    if (actor / ADAPTER / "adapter_config.json").is_file():
        return actor / ADAPTER
    return actor / MODEL if any((actor / MODEL).glob("*.safetensors")) else None
