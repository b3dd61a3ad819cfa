"""One process of verl's FSDP engine, without Ray: ``python engine_process.py PAYLOAD OUT``, RANK and WORLD_SIZE set.

Trains on its share of the minibatches in PAYLOAD with our loss, then writes all weights (process 0) to OUT. Used by
``engine_parity.py``.
"""

from __future__ import annotations

import functools
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch


def main(payload: Path, out: Path) -> None:
    """Build the engine as verl's worker does, update, gather."""
    from agentgym.config.loader import load_recipe
    from agentgym.trainers.verl import scope, translate
    from agentgym.trainers.verl.launch import prepare

    told = pickle.loads(payload.read_bytes())
    machine = scope.Machine(cuda=False)
    prepare(machine)
    torch.set_num_threads(1)
    from verl.utils import tensordict_utils as tu
    from verl.utils.config import omega_conf_to_dataclass
    from verl.workers.config import ActorConfig, HFModelConfig
    from verl.workers.engine_workers import TrainingWorker, TrainingWorkerConfig

    from agentgym.trainers.verl import register
    from agentgym.trainers.verl.config import compose
    from agentgym.trainers.verl.credit import deal, minibatch_size
    from agentgym.trainers.verl.loss import actor_loss
    from agentgym.trainers.verl.worker import set_rate

    register.install()
    recipe = load_recipe(told["recipe"], told["overrides"])
    config = compose(translate.settings(recipe, out.parent, machine, translate.Start(told["model"])))
    model: Any = omega_conf_to_dataclass(config.actor_rollout_ref.model, dataclass_type=HFModelConfig)
    actor: Any = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    assert isinstance(actor, ActorConfig)
    engine = actor.engine
    engine.use_dynamic_bsz, engine.max_token_len_per_gpu = actor.use_dynamic_bsz, actor.ppo_max_token_len_per_gpu
    engine.micro_batch_size_per_gpu = actor.ppo_micro_batch_size_per_gpu
    worker = TrainingWorker(
        TrainingWorkerConfig(
            model_type="language_model", model_config=model, engine_config=engine, optimizer_config=actor.optim,
            checkpoint_config=actor.checkpoint,
        )
    )  # fmt: skip
    worker.reset()
    worker.set_loss_fn(functools.partial(actor_loss, settings=recipe.rl))
    rank, processes = torch.distributed.get_rank(), torch.distributed.get_world_size()
    parts, rows = told["minibatches"], told["rows"]
    size = minibatch_size(parts, processes)
    fillers = [f"pad{i}" for i in range(sum(size - len(part) for part in parts))]
    rows |= {name: filler() for name in fillers}
    lengths = {key: len(row["input_ids"]) for key, row in rows.items()}
    data = batch([rows[key] for key in deal(parts, lengths, processes, fillers)[rank]])
    tu.assign_non_tensor(
        data, calculate_entropy=bool(recipe.rl.entropy_coef), epochs=recipe.rl.epochs,
        temperature=recipe.rl.temperature,
        global_batch_size=size, mini_batch_size=size, seed=0, dataloader_kwargs={"shuffle": False},
        distillation_use_topk=False, distillation_only=False,
    )  # fmt: skip
    set_rate(worker.engine, told["lr"])
    worker.train_mini_batch(data)
    weights, _ = worker.engine.get_per_tensor_param()
    found = {name: np.array(tensor.detach().cpu().float()) for name, tensor in weights}
    if rank == 0:
        np.savez(out, **found)
    torch.distributed.destroy_process_group()


def filler() -> dict[str, Any]:
    """A row that weighs nothing."""
    zero, one = np.zeros(1, np.float32), np.ones(1, np.int64)
    columns = dict.fromkeys(("old_log_probs", "advantages", "shares", "turns"), zero)
    return {"input_ids": np.ones(2, np.int64), "prompts": one, "responses": one, "response_mask": zero, **columns}


def batch(rows: list[dict[str, Any]]) -> Any:
    """Rows as verl's engine takes them: jagged columns."""
    from tensordict import TensorDict

    def column(name: str, kind: type) -> Any:
        tensors = [torch.from_numpy(np.asarray(row[name]).astype(kind)) for row in rows]
        return torch.nested.as_nested_tensor(tensors, layout=torch.jagged)

    whole = {name: column(name, np.int64) for name in ("input_ids", "prompts", "responses", "response_mask")}
    ours = {name: column(name, np.float32) for name in ("old_log_probs", "advantages", "shares", "turns")}
    positions = [torch.arange(len(row["input_ids"])) for row in rows]
    return TensorDict(
        {
            **whole,
            **ours,
            "loss_mask": whole["response_mask"],
            "position_ids": torch.nested.as_nested_tensor(positions, layout=torch.jagged),
        },
        batch_size=len(rows),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
