"""A trainable copy of the policy for the trunk ``lora``: the service ``trunk``. Imports torch.

A trainer offers an object with ``clone_for_training(rank, seed=0) -> torch.nn.Module``. The module has ``width``;
``forward(ids [B, L] int64, mask [B, L] bool) -> [B, L, width]``, padding on the right; and only its adapter asks for
gradients. The copied weights must be those of the run's *starting* policy, also in a run that is resumed: the adapter
that was saved belongs to them (a fingerprint is compared). :class:`LoraTrunks` is such a service.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import nn

from agentgym.credit.learned.networks import generator
from agentgym.errors import ConfigError


class LowRank(nn.Module):
    """``base(x) + up(down(x)) / rank * alpha`` (LoRA, arXiv 2106.09685): ``up`` starts at 0, ``base`` is frozen."""

    def __init__(self, base: nn.Module, rank: int, alpha: float, source: torch.Generator) -> None:
        super().__init__()
        width, out = int(base.in_features), int(base.out_features)  # type: ignore[arg-type]
        device = next(base.parameters()).device
        self.base, self.scale = base, alpha / rank
        self.down = nn.Parameter((torch.randn(rank, width, generator=source) / width**0.5).to(device))
        self.up = nn.Parameter(torch.zeros(out, rank, device=device))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any shape with the input width last; the adapter computes in float32."""
        out: torch.Tensor = self.base(x)
        low = nn.functional.linear(nn.functional.linear(x.float(), self.down), self.up)
        return out + (self.scale * low).to(out.dtype)


class LoraTrunk(nn.Module):
    """A frozen backbone with adapters on its layers called ``targets``."""

    def __init__(self, backbone: nn.Module, width: int, rank: int, targets: Sequence[str], seed: int) -> None:
        super().__init__()
        self.width, self.backbone = width, backbone.requires_grad_(False)
        source = generator("lora trunk", seed)
        found = [
            n for n, m in backbone.named_modules() if n.rpartition(".")[2] in targets and hasattr(m, "in_features")
        ]
        if not found:
            raise ConfigError(f"trunk 'lora': the policy has no linear layer called {' or '.join(targets)}")
        for name in found:
            parent, _, leaf = name.rpartition(".")
            module = backbone.get_submodule(name)
            setattr(backbone.get_submodule(parent), leaf, LowRank(module, rank, 2.0 * rank, source))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Last hidden states."""
        hidden: torch.Tensor = self.backbone(input_ids=ids, attention_mask=mask.long(), use_cache=False)[0]
        return hidden


class LoraTrunks:
    """The service for a transformers model without its head (``model.model`` of a Llama), copied at each call."""

    def __init__(self, backbone: nn.Module, width: int, targets: Sequence[str] = ("q_proj", "v_proj")) -> None:
        self.backbone, self.width, self.targets = backbone, width, tuple(targets)

    def clone_for_training(self, rank: int, seed: int = 0) -> nn.Module:
        """A copy in evaluation mode, its adapter's first weights from ``seed``."""
        return LoraTrunk(copy.deepcopy(self.backbone), self.width, rank, self.targets, seed).eval()
