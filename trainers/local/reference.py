"""The reference policy of the KL term and of the MSE loss."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from agentgym.config.recipe import RLSection
from agentgym.trainers.local.batch import TrainRow
from agentgym.trainers.local.checkpoint import load_weights
from agentgym.trainers.local.update import row_logprobs


@contextlib.contextmanager
def weights_of(model: nn.Module, checkpoint: Path) -> Iterator[None]:
    """The model with a checkpoint's weights for a while; its own come back bit for bit."""
    present = {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}
    load_weights(model, checkpoint)
    try:
        yield
    finally:
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name in present:
                    parameter.copy_(present[name])


class Reference:
    """The policy as it was when this was made, for the KL term and the MSE loss: its trainable parameters only.

    With LoRA that is the adapter, so the base model is not held twice; the copy is swapped in to score rows.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.kept = {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}

    def _swap(self) -> None:
        for name, parameter in self.model.named_parameters():
            if name in self.kept:
                parameter.data, self.kept[name] = self.kept[name], parameter.data

    def fill(self, rows: Sequence[TrainRow], settings: RLSection) -> None:
        """Write the reference's log-probabilities into ``rows``."""
        self._swap()
        try:
            values = row_logprobs(self.model, rows, settings.temperature, settings.micro_batch, settings.micro_tokens)
        finally:
            self._swap()
        for row, array in zip(rows, values, strict=True):
            row.reference = array

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The kept parameters, on the CPU."""
        return {name: tensor.cpu() for name, tensor in self.kept.items()}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Put kept parameters back."""
        self.kept = {name: state[name].to(tensor.device) for name, tensor in self.kept.items()}


class ReferenceKeeper:
    """Holds the reference that a recipe asks for: of the start of RL, or taken anew every so many steps."""

    def __init__(self, model: nn.Module, settings: RLSection, start: Path) -> None:
        self.model, self.settings, self.start = model, settings, start
        self.reference: Reference | None = None

    def prepare(self, step: int, state: Mapping[str, torch.Tensor]) -> None:
        """Before the first step of this process. ``start``: checkpoint of the start of RL, read on resume."""
        if not (self.settings.kl_coef or self.settings.loss == "mse"):
            return
        self.reference = Reference(self.model)
        if state:
            self.reference.load_state_dict(state)
        elif step and self.start.is_dir():
            with weights_of(self.model, self.start):
                self.reference = Reference(self.model)

    def before(self, step: int) -> Reference | None:
        """The reference of a step, made anew where it is due."""
        every = self.settings.reference_every
        if self.reference is not None and every and step and step % every == 0:
            self.reference = Reference(self.model)
        return self.reference

    def state_dict(self) -> dict[str, torch.Tensor]:
        """What a checkpoint must hold: nothing where the start of RL is the reference."""
        return self.reference.state_dict() if self.reference is not None and self.settings.reference_every else {}
