"""vLLM's CPU build takes new weights only if its layers keep the old ones' place; read and tried in vLLM 0.30.0.

On a CPU vLLM packs the weights of linear layers and drops the originals. A later ``reload_weights`` then has nowhere
to write: it warns in the worker's log and goes on with the old weights. :class:`KeepWeights`, named to vLLM as the
worker's extension, makes those layers multiply with torch instead.
"""

from __future__ import annotations

from typing import Any


def keep_weights() -> None:
    """Make vLLM's CPU linear layers keep their weights; before a model is loaded, in the process that loads it."""
    import torch
    from vllm.model_executor.layers import linear, utils

    def plain(layer: Any, remove_weight: bool = False) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    for module in (utils, linear):
        if hasattr(module, "dispatch_cpu_unquantized_gemm"):
            module.dispatch_cpu_unquantized_gemm = plain


class KeepWeights:
    """What vLLM's worker inherits from on a CPU."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        keep_weights()
        return super().__new__(cls)
