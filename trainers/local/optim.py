"""Optimiser, learning-rate schedule and gradient clipping; and the optimiser's state as named tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from agentgym.errors import AgentGymError


class TrainingStopped(AgentGymError):
    """The watchdog stopped a run: non-finite numbers or degenerate text. The state was saved."""


def learning_rate(step: int, total: int, base: float, warmup: int, schedule: str) -> float:
    """The rate of update ``step`` (0-based) of ``total``: linear warm-up, then constant, linear or cosine to 0."""
    if step < warmup:
        return base * (step + 1) / warmup
    if schedule == "constant":
        return base
    done = min(1.0, (step - warmup) / max(1, total - warmup))
    if schedule == "linear":
        return base * (1.0 - done)
    return base * 0.5 * (1.0 + math.cos(math.pi * done))


class Optimizer:
    """AdamW over a model's trainable parameters, with clipping; state is saved by parameter name."""

    def __init__(self, model: nn.Module, lr: float, weight_decay: float, max_grad_norm: float) -> None:
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        if not named:
            raise AgentGymError("the model has no trainable parameters")
        self.names = [name for name, _ in named]
        self.parameters = [p for _, p in named]
        self.max_grad_norm = max_grad_norm
        self.adam = torch.optim.AdamW(self.parameters, lr=lr, weight_decay=weight_decay, fused=True)

    def zero(self) -> None:
        """Forget the gradients."""
        self.adam.zero_grad(set_to_none=True)

    def step(self, lr: float, where: str) -> float:
        """Clip and apply the gradients; returns their norm. Raises TrainingStopped, unapplied, if it is not finite."""
        norm = float(nn.utils.clip_grad_norm_(self.parameters, self.max_grad_norm, foreach=True))
        if not math.isfinite(norm):
            self.zero()
            raise TrainingStopped(
                f"the gradient norm is {norm} at {where}; this update was not applied. Lower the learning rate, set "
                "rl.advantage_clip, or add rl.kl_coef, and resume from the saved checkpoint."
            )
        for group in self.adam.param_groups:
            group["lr"] = lr
        self.adam.step()
        return norm

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Everything AdamW keeps, as ``parameter/key`` tensors."""
        out: dict[str, torch.Tensor] = {}
        for name, parameter in zip(self.names, self.parameters, strict=True):
            for key, value in self.adam.state.get(parameter, {}).items():
                out[f"{name}/{key}"] = value.detach().cpu().contiguous()
        return out

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Put back what :meth:`state_dict` gave; an empty mapping is a fresh optimiser."""
        self.adam.state.clear()
        by_name: dict[str, dict[str, Any]] = {}
        for key, value in state.items():
            name, _, field = key.rpartition("/")
            by_name.setdefault(name, {})[field] = value
        unknown = sorted(set(by_name) - set(self.names))
        if unknown:
            raise AgentGymError(f"the optimiser state is of another model, which has a parameter {unknown[0]!r}")
        for name, parameter in zip(self.names, self.parameters, strict=True):
            if name in by_name:
                # AdamW keeps its step counters as float32 tensors next to the parameter (fused)
                self.adam.state[parameter] = {k: v.to(parameter.device).clone() for k, v in by_name[name].items()}
