"""The trainer process: verl's own worker, with the recipe's learning rate, hidden states and the export of adapters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from verl.single_controller.base.decorator import Dispatch, make_nd_compute_dataproto_dispatch_fn, register
from verl.utils import tensordict_utils as tu
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from agentgym.policies.causal import CausalModel
from agentgym.policies.scorers import HFFeatures
from agentgym.trainers.verl import export


class ActorWorker(ActorRolloutRefWorker):  # type: ignore[misc, unused-ignore]
    """Actor, rollout adapter and reference in one process."""

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="actor"))  # type: ignore[untyped-decorator, unused-ignore]
    def update_actor(self, data: Any) -> Any:
        """verl's update, at the learning rate that the trainer sends along."""
        set_rate(self.actor.engine, tu.pop(data, key="lr", default=None))
        return super().update_actor(data)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[untyped-decorator, unused-ignore]
    def save_checkpoint(
        self, local_path: str, hdfs_path: Any = None, global_step: int = 0, max_ckpt_to_keep: Any = None
    ) -> None:
        """verl's shards and, of a model with an adapter, the adapter as peft reads it: verl's own export of one
        holds the names of the wrapped model, which no loader knows."""
        super().save_checkpoint(local_path, hdfs_path, global_step, max_ckpt_to_keep)
        weights, adapter = self.actor.engine.get_per_tensor_param(base_sync_done=True)
        if adapter is None:
            return
        found = dict(weights)  # in every process, since each tensor is gathered
        if self.rank == 0:
            model = self.actor.engine.model_config
            export.adapter(Path(local_path) / export.ADAPTER, found, adapter, self.config.model.path)
            model.get_processor().save_pretrained(Path(local_path) / export.ADAPTER)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[untyped-decorator, unused-ignore]
    def hidden_states(self, episodes: list[bytes]) -> Any:
        """Hidden states at each turn's last token (``FeatureExtractor``), of packed episodes; from process 0.

        Every process computes all of them, since the shards of the model are gathered layer by layer.
        """
        from agentgym.trainers.verl import seam

        engine = self.actor.engine
        with torch.no_grad(), engine.eval_mode():
            found = ShardedFeatures(engine.module).hidden([seam.unpack(data) for data in episodes])
        return found if self.rank == 0 else None


class CriticWorker(TrainingWorker):  # type: ignore[misc, unused-ignore]
    """The value model's process."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        from agentgym.trainers.verl.register import install

        install()  # the configuration comes ready-made, so that nothing else has loaded our parts where it comes first
        super().__init__(*args, **kwargs)


class ShardedFeatures(HFFeatures):
    """Features from a sharded model, which must be called as a whole: its parts have no weights of their own."""

    def __init__(self, model: Any, tokens: int = 8192) -> None:
        self.model, self.causal, self.tokens, self.skipped = model, CausalModel(model), tokens, 0
        self.width = int(self.causal.config.hidden_size)

    def _states(self, rows: Any) -> torch.Tensor:
        width, device = max(map(len, rows)), _device()
        ids = torch.zeros((len(rows), width), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for line, row in enumerate(rows):
            ids[line, : len(row)], mask[line, : len(row)] = torch.as_tensor(row, dtype=torch.long), 1
        options = {"use_cache": False, "output_hidden_states": True}
        out = self.model(input_ids=ids.to(device), attention_mask=mask.to(device), **options)
        found: torch.Tensor = out.hidden_states[-1]
        return found


def set_rate(engine: Any, rate: float | None) -> None:
    """Set the learning rate of an engine's optimiser for the coming update."""
    for group in engine.optimizer.param_groups if rate is not None else ():
        group["lr"] = rate


def _device() -> Any:
    from verl.utils.device import get_device_id

    return get_device_id()
