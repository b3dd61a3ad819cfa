"""The critic: values of the contexts before each sampled token, for estimators that need them (PPO's GAE).

``copy``: a decoder of its own, begun as the policy's, with a linear head. ``policy``: the policy's own hidden states,
unchanged, under a small network; nothing of the policy is held twice.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from agentgym.config.recipe import CriticSection, RLSection
from agentgym.credit.protocols import TokenRagged
from agentgym.errors import ConfigError
from agentgym.seeding import derive_seed
from agentgym.trainers.local.batch import MicroBatch, TrainRow, micro_batches, minibatches, scatter
from agentgym.trainers.local.loss import plain_head
from agentgym.trainers.local.optim import Optimizer
from agentgym.trainers.local.update import autocast
from agentgym.types import Episode, Group


class ValueModel:
    """Implements :class:`agentgym.credit.protocols.Critic` for a local model."""

    def __init__(self, model: Any, settings: CriticSection, rl: RLSection, seed: int) -> None:
        self.settings, self.rl, self.seed = settings, rl, seed
        self._policy = model
        self._updates = 0
        self.module = _Values(model, self._trunk(model, settings.trunk), seed)
        self.optimizer = Optimizer(self.module, settings.lr, settings.weight_decay, settings.max_grad_norm)

    @staticmethod
    def _trunk(model: Any, trunk: str) -> str:
        lora = hasattr(model, "get_base_model")
        if trunk == "copy" and lora:
            raise ConfigError("critic.trunk is 'copy', but the policy has LoRA adapters; use critic.trunk=policy")
        return ("policy" if lora else "copy") if trunk == "auto" else trunk

    @torch.no_grad()
    def values(self, groups: Sequence[Group]) -> TokenRagged:
        """``[group][episode][turn][token]``: the value before each sampled token. Text-only episodes have none."""
        episodes = [episode for group in groups for episode in group]
        rows, owners = _rows(episodes)
        per_row: list[Any] = [np.zeros(len(row.row), np.float32) for row in rows]
        self.module.eval()
        for batch in self._batches(rows):
            with autocast(self.module):
                values = self.module(batch)
            for index, array in zip(batch.rows, scatter(rows, batch, values), strict=True):
                per_row[index] = array
        by_place = dict(zip(owners, per_row, strict=True))
        pieces = iter([_by_turn(episode, i, by_place) for i, episode in enumerate(episodes)])
        return [[next(pieces) for _ in group] for group in groups]

    def fit(self, groups: Sequence[Group], targets: TokenRagged) -> dict[str, float]:
        """Regress the values onto ``targets`` (NaN: none). Returns the loss before, and the explained variance."""
        episodes = [episode for group in groups for episode in group]
        wanted = [turns for group in targets for turns in group]
        rows, owners = _rows(episodes)
        for row, (index, number) in zip(rows, owners, strict=True):
            row.advantages = _on_row(episodes[index], number, wanted[index], len(row.row))
            row.weight = float(np.isfinite(row.advantages[row.row.mask]).any())
        rows = [row for row in rows if row.weight]
        losses: list[float] = []
        seen: list[tuple[float, float]] = []
        for epoch in range(self.settings.epochs):
            for chosen in minibatches(len(rows), self.settings.minibatch, self.seed, "critic", self._updates, epoch):
                losses.append(self._minibatch([rows[i] for i in chosen], seen if not epoch else []))
        self._updates += 1
        if not seen:
            return {}
        found = np.array(seen)
        spread = float(found[:, 1].var())
        explained = 1 - float((found[:, 1] - found[:, 0]).var()) / spread if spread > 0 else 0.0
        return {"loss": float(np.mean(losses)), "explained_variance": explained}

    def _minibatch(self, rows: list[TrainRow], seen: list[tuple[float, float]]) -> float:
        self.optimizer.zero()
        batches = self._batches(rows)
        usable = sum(int(torch.isfinite(batch.advantages).sum()) for batch in batches)
        total = 0.0
        self.module.train()
        for batch in batches:
            with autocast(self.module):
                values = self.module(batch).float()
            known = torch.isfinite(batch.advantages)
            error = (values[known] - batch.advantages[known]) ** 2
            loss = error.sum() / usable
            loss.backward()
            total += float(loss.detach())
            seen += zip(values[known].detach().tolist(), batch.advantages[known].tolist(), strict=True)
        self.optimizer.step(self.settings.lr, f"critic update {self._updates}")
        self.module.eval()
        return total

    def _batches(self, rows: Sequence[TrainRow]) -> list[MicroBatch]:
        device = next(self._policy.parameters()).device
        return micro_batches(rows, max_rows=self.rl.micro_batch, max_tokens=self.rl.micro_tokens, device=device)

    def state_dict(self) -> dict[str, Any]:
        """Weights, optimiser, and the count that seeds minibatches."""
        weights = {name: p.detach().cpu() for name, p in self.module.named_parameters() if p.requires_grad}
        return {"weights": weights, "optimizer": self.optimizer.state_dict(), "updates": self._updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of :meth:`state_dict`."""
        self.module.load_state_dict(state["weights"], strict=False)
        self.optimizer.load_state_dict(state["optimizer"])
        self._updates = int(state["updates"])


class _Values(nn.Module):
    """Hidden states of a trunk, and a head that makes one number of each."""

    def __init__(self, model: Any, trunk: str, seed: int) -> None:
        super().__init__()
        plain = plain_head(model)
        if plain is None:
            raise ConfigError(f"no critic for {type(model).__name__}: its output layer is not a plain linear map")
        width = int(model.config.get_text_config().hidden_size)
        self.own = trunk == "copy"
        if self.own:
            self.trunk: Any = copy.deepcopy(plain[0])
        else:
            object.__setattr__(self, "trunk", plain[0])  # not a submodule: its parameters are the policy's
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(seed, "critic"))
            small = max(8, width // 4)
            layers = [nn.Linear(width, 1)] if self.own else [nn.Linear(width, small), nn.GELU(), nn.Linear(small, 1)]
            self.head = nn.Sequential(*layers)
        last = self.head[-1]
        assert isinstance(last, nn.Linear)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.head.to(next(model.parameters()).device)

    def forward(self, batch: MicroBatch) -> torch.Tensor:
        """The value before each sampled token of the batch."""
        with torch.set_grad_enabled(self.own and torch.is_grad_enabled()):
            hidden = self.trunk(input_ids=batch.ids, use_cache=False).last_hidden_state
            hidden = hidden.flatten(0, 1).index_select(0, batch.positions).float()
        out: torch.Tensor = self.head(hidden).squeeze(-1)
        return out


def _rows(episodes: Sequence[Episode]) -> tuple[list[TrainRow], list[tuple[int, int]]]:
    """The token rows that hold sampled tokens, and (episode, row) of each."""
    rows, owners = [], []
    for index, episode in enumerate(episodes):
        for number, row in enumerate(episode.rows):
            if row.mask.any():
                rows.append(TrainRow(row, np.zeros(len(row), np.float32), name=episode.where))
                owners.append((index, number))
    return rows, owners


def _by_turn(episode: Episode, index: int, by_place: dict[tuple[int, int], Any]) -> list[Any]:
    empty = np.zeros(0)
    return [
        by_place[index, t.row][t.start : t.end].astype(np.float64) if t.row >= 0 and t.end > t.start else empty
        for t in episode.turns
    ]


def _on_row(episode: Episode, number: int, targets: list[Any], length: int) -> Any:
    out = np.full(length, np.nan, np.float32)
    for turn, values in zip(episode.turns, targets, strict=True):
        if turn.row == number:
            out[turn.start : turn.end] = values
    return out
