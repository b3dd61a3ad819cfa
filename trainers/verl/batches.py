"""verl's batches: reading and writing the samples in its TransferQueue, and the plan of an update.

A batch of verl 0.9.1 is a list of keys; the columns live in the queue and the trainer processes fetch what they need.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.padding_utils import construct_minimal_padding_template
from verl.trainer.ppo.utils import Role
from verl.utils import tensordict_utils as tu
from verl.workers.utils.padding import response_from_nested

from agentgym.config.recipe import Recipe
from agentgym.errors import AgentGymError
from agentgym.trainers.verl import seam
from agentgym.trainers.verl.credit import Assigned, deal, minibatch_size, value_shares
from agentgym.trainers.verl.loss import actor_loss, critic_loss

if TYPE_CHECKING:
    from agentgym.trainers.verl.trainer import AgentGymTrainer

#: what a model needs of a sample, whatever is computed
MODEL = ["input_ids", "position_ids", "prompts", "responses", "response_mask", "loss_mask", "multi_modal_inputs"]
_serial = itertools.count()


def own_workers(mapping: dict[Any, Any]) -> None:
    """Put our worker classes in the place of verl's."""
    from agentgym.trainers.verl.worker import ActorWorker, CriticWorker

    for role in mapping:
        mapping[role] = ray.remote(CriticWorker if role == Role.Critic else ActorWorker)


def own_losses(trainer: AgentGymTrainer) -> None:
    """Put our losses in the place of verl's, in all trainer processes."""
    trainer.actor_rollout_wg.set_loss_fn(functools.partial(actor_loss, settings=trainer.recipe.rl))
    if trainer.use_critic:
        trainer.critic_wg.set_loss_fn(critic_loss)


def hidden_size(config: Any) -> int:
    """The width of the model's hidden states."""
    from transformers import AutoConfig

    found: Any = AutoConfig.from_pretrained(config.actor_rollout_ref.model.path)
    return int(found.get_text_config().hidden_size)


def names(values: Sequence[str]) -> Any:
    """Texts as a column of a TensorDict."""
    return tu.get_tensordict({"names": np.array(list(values), dtype=object)})["names"]


def plain(column: Any) -> list[Any]:
    """A column that is no tensor as a list; it comes as one of several classes, depending on where it was."""
    if isinstance(column, torch.Tensor):
        found: list[Any] = column.tolist()
        return found
    return [getattr(entry, "data", entry) for entry in column]


def extras(keys: list[str], partition: str) -> list[dict[str, Any]]:
    """The extra fields of samples, which carry the episodes."""
    return plain(tq.kv_batch_get(keys=keys, partition_id=partition, select_fields=["extra_fields"])["extra_fields"])


def rows_of(keys: list[str], partition: str, field: str) -> dict[str, Any]:
    """One tensor column as an array a sample."""
    found = tq.kv_batch_get(keys=keys, partition_id=partition, select_fields=[field])[field]
    return {key: tensor.numpy() for key, tensor in zip(keys, found.unbind(), strict=True)}


def check_complete(step: seam.Step, recipe: Recipe) -> None:
    """Raise where an environment cannot be made at all, or verl lost episodes on the way."""
    for group in step.groups:
        for episode in group:
            if episode.info.get(seam.FATAL):
                raise AgentGymError(episode.error)
    expected, found = recipe.rl.groups * recipe.rl.group_size, sum(len(group) for group in step.groups)
    if found != expected or len(step.groups) != recipe.rl.groups:
        raise AgentGymError(
            f"{found} episodes of {len(step.groups)} tasks came back from the rollout, expected {expected} of "
            f"{recipe.rl.groups}. A process that plays episodes failed outside of them: see its log under Ray's session"
        )


def write(batch: Any, found: Assigned, critic: bool) -> None:
    """Write the columns of credit into the queue, zeros for verl's padding samples."""
    wanted = ["advantages", "shares", "turns", "returns", *(["value_shares"] if critic else [])]
    output: dict[str, Any] = {}
    for name in wanted:
        arrays = [found.columns[key][name] if key in found.columns else np.zeros(1, np.float32) for key in batch.keys]
        tensors = [torch.from_numpy(np.ascontiguousarray(array, np.float32)) for array in arrays]
        output[name] = torch.nested.as_nested_tensor(tensors, layout=torch.jagged)
    fields = TensorDict(output, batch_size=len(batch.keys))
    tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)


@dataclass(slots=True)
class Plan:
    """An update: ``meta`` names the samples in the order processes take them; ``padding``: the fillers among them."""

    meta: Any
    padding: list[str]

    def clear(self) -> None:
        """Remove the fillers from the queue."""
        if self.padding:
            tq.kv_clear(keys=self.padding, partition_id=self.meta.partition_id)


def actor_plan(trainer: AgentGymTrainer, batch: Any, rate: float) -> Plan | None:
    """The policy's update of a step; None where no sample has a gradient."""
    assert trainer.assigned is not None
    rl = trainer.recipe.rl
    fields = [*MODEL, "old_log_probs", "advantages", "shares", "turns"]
    fields += ["ref_log_prob"] if trainer.use_reference_policy else []
    told = {
        "calculate_entropy": bool(rl.entropy_coef),
        "distillation_use_topk": False,
        "distillation_only": False,
        "epochs": rl.epochs,
        "temperature": rl.temperature,
        "lr": rate,
    }
    return _plan(trainer, "actor", trainer.actor_rollout_wg, batch, trainer.assigned.minibatches, fields, told)


def critic_plan(trainer: AgentGymTrainer, batch: Any) -> Plan | None:
    """The value model's update of a step; None where no token has a target."""
    assert trainer.assigned is not None
    columns, size = trainer.assigned.columns, trainer.recipe.critic.minibatch
    keys = sorted(key for key, found in columns.items() if found["value_shares"].any())
    if not keys:
        return None
    parts = [list(part) for part in np.array_split(np.array(keys, dtype=object), -(-len(keys) // size))]
    for part in parts:
        value_shares(columns, part)
    write(batch, trainer.assigned, critic=True)
    told = {"epochs": trainer.recipe.critic.epochs, "temperature": 1.0}
    return _plan(trainer, "train", trainer.critic_wg, batch, parts, [*MODEL, "returns", "value_shares"], told)


def _plan(
    trainer: AgentGymTrainer, mesh: str, workers: Any, batch: Any, parts: list[list[str]], fields: list[str],
    told: dict[str, Any],
) -> Plan | None:  # fmt: skip
    """The update over minibatches ``parts``, or None where there is none."""
    if not parts:
        return None
    processes = _processes(workers, mesh)
    size = minibatch_size(parts, processes)
    padding = _padding(trainer, batch, sum(size - len(part) for part in parts), fields)
    lengths = dict(zip(batch.keys, (tag["seq_len"] for tag in batch.tags), strict=True))
    dealt = deal(parts, lengths, processes, padding)
    keys = [key for share in dealt for key in share]
    info = told | {
        "global_batch_size": size,
        "mini_batch_size": size,
        "seed": 0,
        "dataloader_kwargs": {"shuffle": False},
    }
    meta = KVBatchMeta(
        keys=keys, tags=[{} for _ in keys], partition_id=batch.partition_id, fields=fields, extra_info=info
    )
    return Plan(meta, padding)


def _processes(workers: Any, mesh: str) -> int:
    if mesh not in workers._dispatch_info:
        workers._dispatch_info[mesh] = workers._query_dispatch_info(mesh)
    return int(max(workers._dispatch_info[mesh])) + 1


def _padding(trainer: AgentGymTrainer, batch: Any, count: int, fields: list[str]) -> list[str]:
    """Samples without a trained token, as verl makes them, with zeros in our columns."""
    if not count:
        return []
    source = tq.kv_batch_get(keys=[batch.keys[0]], partition_id=batch.partition_id, select_fields=fields)[0]
    end = trainer.tokenizer.eos_token_id
    sample, tag = construct_minimal_padding_template(source, batch.tags[0], 0 if end is None else end)
    kept = {name: sample[name] if name in MODEL else torch.zeros(1) for name in fields}
    kept["multi_modal_inputs"] = {}
    keys = [f"pad{next(_serial)}_{index}_0" for index in range(count)]
    tq.kv_batch_put(
        keys=keys, partition_id=batch.partition_id, fields=tu.list_of_dict_to_tensordict([dict(kept) for _ in keys]),
        tags=[dict(tag) for _ in keys],
    )  # fmt: skip
    return keys


def score(workers: Any, blocks: list[tuple[Any, Any]]) -> list[Any]:
    """Log-probabilities at temperature 1 of ``ids`` behind ``prefix``, per (prefix, ids); float32 arrays."""
    processes = _processes(workers, "actor")
    full = blocks + [blocks[-1]] * (-len(blocks) % processes)

    def column(arrays: list[Any]) -> Any:
        tensors = [torch.as_tensor(np.asarray(array, np.int64)) for array in arrays]
        return torch.nested.as_nested_tensor(tensors, layout=torch.jagged)

    prompts, responses = [prefix for prefix, _ in full], [ids for _, ids in full]
    masks = [np.ones(len(ids)) for ids in responses]
    data = TensorDict(
        {
            "input_ids": column([np.concatenate(pair) for pair in full]),
            "position_ids": column([np.arange(len(prefix) + len(ids)) for prefix, ids in full]),
            "prompts": column(prompts),
            "responses": column(responses),
            "response_mask": column(masks),
            "loss_mask": column(masks),
        },
        batch_size=len(full),
    )
    tu.assign_non_tensor(data, temperature=1.0, calculate_entropy=False, compute_loss=False)
    output = workers.compute_log_prob(data)
    found = response_from_nested(output["log_probs"], data["response_mask"])
    return [tensor.float().numpy() for tensor in found.unbind()][: len(blocks)]
