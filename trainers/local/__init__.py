"""The readable reference trainer: plain torch, transformers and, for LoRA, peft; CPU or one GPU.

Importing this package loads no torch; :class:`LocalTrainer` does on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentgym.trainers.local.trainer import LocalTrainer

__all__ = ["LocalTrainer"]


def __getattr__(name: str) -> Any:
    if name == "LocalTrainer":
        from agentgym.trainers.local.trainer import LocalTrainer

        return LocalTrainer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
