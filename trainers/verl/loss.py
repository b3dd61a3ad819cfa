"""The losses that verl's engines compute: the local trainer's own functions on verl's tensors.

A token's share of its minibatch's loss was computed for the whole minibatch before verl cut it (``shares``), so the
gradient depends neither on micro-batches nor on how many processes share the work. Rows that are not trained have
share 0. verl averages gradients over its data-parallel processes, hence the factor ``dp_size``.
"""

from __future__ import annotations

from typing import Any

import torch

from agentgym.config.recipe import RLSection
from agentgym.trainers.local.batch import MicroBatch
from agentgym.trainers.local.loss import Scores
from agentgym.trainers.local.update import LOGGED_AS, policy_loss


def actor_loss(
    model_output: Any, data: Any, dp_group: Any = None, *, settings: RLSection
) -> tuple[torch.Tensor, dict[str, Any]]:
    """The policy loss of one micro-batch and what is logged about it; verl's signature."""
    from verl.utils.metric import AggregationType, Metric
    from verl.workers.utils.padding import no_padding_2_padding

    scale = float(data["dp_size"])
    logp = no_padding_2_padding(model_output["log_probs"], data)
    entropy = model_output.get("entropy")
    fields = ["response_mask", "old_log_probs", "advantages", "shares", "turns"]
    fields += ["ref_log_prob"] if "ref_log_prob" in data else []
    columns = data.select(*fields).to_padded_tensor()
    mask = columns["response_mask"].bool()
    shares = columns["shares"][mask].float()
    flat = logp[mask].float()
    drawn = no_padding_2_padding(entropy, data)[mask].float() if entropy is not None else torch.zeros_like(flat)
    losses, stats = policy_loss(settings)(Scores(flat, drawn, flat), _batch(columns, mask, shares))
    loss = (losses * shares).sum() * scale
    if entropy is None:
        stats.pop("entropy", None)
    logged = {"loss/total": loss.detach()}
    logged |= {LOGGED_AS.get(k, k): (v.detach().float() * shares).sum() * scale for k, v in stats.items()}
    metrics = {name: Metric(value=value, aggregation=AggregationType.SUM) for name, value in logged.items()}
    live = shares != 0
    gap = float((flat.detach() - columns["old_log_probs"][mask])[live].abs().max()) if bool(live.any()) else 0.0
    metrics["ratio/logprob_max"] = Metric(value=gap, aggregation=AggregationType.MAX)
    return loss, metrics


def _batch(columns: Any, mask: torch.Tensor, shares: torch.Tensor) -> MicroBatch:
    """What the local loss reads, one entry a sampled token; a turn is told by its row and its number there."""
    turns = columns["turns"].long()
    rows = torch.arange(len(turns), device=turns.device).unsqueeze(1) * (int(turns.max()) + 1)
    found = torch.unique((rows + turns)[mask], return_inverse=True)[1]
    nothing = torch.empty(0, device=shares.device)
    reference = columns["ref_log_prob"][mask].float() if "ref_log_prob" in columns else None
    old, advantages = columns["old_log_probs"][mask].float(), columns["advantages"][mask].float()
    return MicroBatch(nothing, nothing, nothing, advantages, old, shares, reference, found, [])


def critic_loss(model_output: Any, data: Any, dp_group: Any = None) -> tuple[torch.Tensor, dict[str, Any]]:
    """Squared error of the values against ``returns``, over the tokens that have a target (``value_shares``)."""
    from verl.utils.metric import AggregationType, Metric
    from verl.workers.utils.padding import no_padding_2_padding

    values = no_padding_2_padding(model_output["values"], data).float()
    columns = data.select("response_mask", "returns", "value_shares").to_padded_tensor()
    error = (values - columns["returns"]) ** 2 * columns["value_shares"]
    loss = torch.where(columns["response_mask"].bool(), error, 0.0).sum() * float(data["dp_size"])
    return loss, {"loss": Metric(value=loss.detach(), aggregation=AggregationType.SUM)}
