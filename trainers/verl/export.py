"""What a checkpoint of verl holds for every loader: a model's folder, or an adapter's that names its base.

With the recipe in it, and ``trainer/`` as the local trainer writes it, it is evaluated as it was trained, notes of
credit parts included.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: in a checkpoint's ``actor`` folder: verl's export of a whole model, and ours of an adapter
MODEL, ADAPTER = "huggingface", "adapter"


def lora_config(told: Mapping[str, Any]) -> Any:
    """peft's configuration of what verl hands out as a dictionary, which holds fields of its own beside peft's."""
    from peft import LoraConfig

    return LoraConfig(**{key: value for key, value in told.items() if key in LoraConfig.__dataclass_fields__})


def adapter(folder: Path, weights: Mapping[str, Any], config: Mapping[str, Any], base: str) -> None:
    """Write a LoRA adapter as peft does: ``weights`` by peft's names, ``config`` as verl tells it."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, folder / "adapter_model.safetensors")
    told = lora_config(config)
    told.base_model_name_or_path, told.inference_mode = base, True
    told.save_pretrained(folder)


def newest(actor: Path) -> Path | None:
    """The folder for loaders in a checkpoint's ``actor`` folder; None where there is none."""
    if (actor / ADAPTER / "adapter_config.json").is_file():
        return actor / ADAPTER
    return actor / MODEL if any((actor / MODEL).glob("*.safetensors")) else None


def complete(folder: Path, recipe: Path, state: Mapping[str, Any]) -> None:
    """Put the run's recipe and the ``state`` of its credit parts into an export."""
    from safetensors.torch import save_file

    from agentgym.trainers.local.checkpoint import FILES, _digest, flatten

    (folder / "trainer").mkdir(exist_ok=True)
    (folder / FILES).unlink(missing_ok=True)  # not whole until it is there again
    shutil.copyfile(recipe, folder / "recipe.yaml")
    tensors: dict[str, Any] = {}
    text = json.dumps(flatten(dict(state), tensors), indent=1)
    save_file(tensors, folder / "trainer" / "state.safetensors")
    (folder / "trainer" / "state.json").write_text(text, encoding="utf-8")
    written = [folder / "trainer" / name for name in ("state.json", "state.safetensors")]
    listing = {str(path.relative_to(folder)): [path.stat().st_size, _digest(path)] for path in written}
    (folder / FILES).write_text(json.dumps(listing, indent=1), encoding="utf-8")
