"""The fitting loop: minibatch AdamW from the present weights, stopped early on held-out tasks. Imports torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from agentgym.credit.learned.model import FitOptions
from agentgym.credit.learned.networks import Network
from agentgym.credit.learned.objectives import Objective, explained, spearman
from agentgym.credit.learned.text import Item
from agentgym.credit.protocols import Array
from agentgym.seeding import numpy_rng


def outputs(network: Network, items: Sequence[Item], batch: int) -> list[Array]:
    """The network's outputs per item, float64."""
    found: list[Array] = []
    with torch.no_grad():
        for first in range(0, len(items), batch):
            part = items[first : first + batch]
            flat = network(part).detach().cpu().double().numpy()
            ends = np.cumsum([positions(item) for item in part])
            found += np.split(flat, ends[:-1])
    return found


def positions(item: Item) -> int:
    """How many vectors an item has."""
    return len(next(item[key] for key in ("size", "hidden", "at") if key in item))


def fit(
    network: Network,
    objective: Objective,
    train: Sequence[Item],
    held: Sequence[Item],
    weights: tuple[Array, Array],
    options: FitOptions,
    seed: int,
) -> dict[str, float]:
    """Fit in place and return metrics. All randomness (the order of batches) comes from ``seed``.

    With held-out items the weights of the best epoch win, and ``patience`` epochs without a better one end the fit.
    """
    trained = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=options.lr, weight_decay=options.weight_decay, foreach=False)
    rng = numpy_rng("credit fit", seed)
    best, kept, since, done = np.inf, None, 0, 0
    for _ in range(options.epochs):
        order = rng.permutation(len(train))
        for first in range(0, len(order), options.batch):
            rows = order[first : first + options.batch]
            _step(network, objective, [train[i] for i in rows], weights[0][rows], optimizer, trained)
        done += 1
        if held:
            loss = _loss(network, objective, held, weights[1], options.batch)
            if loss < best - 1e-6:
                best, kept, since = loss, [p.detach().clone() for p in trained], 0
            elif (since := since + 1) >= options.patience:
                break
    if kept is not None:
        with torch.no_grad():
            for parameter, value in zip(trained, kept, strict=True):
                parameter.copy_(value)
    return {"fit/epochs": float(done), **scores(network, objective, train, held, options.batch)}


def _step(
    network: Network,
    objective: Objective,
    items: list[Item],
    weights: Array,
    optimizer: torch.optim.Optimizer,
    trained: list[torch.nn.Parameter],
) -> None:
    loss = objective.loss(network(items), items, weights)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(trained, 1.0)
    optimizer.step()


def _loss(network: Network, objective: Objective, items: Sequence[Item], weights: Array, batch: int) -> float:
    total = 0.0
    with torch.no_grad():
        for first in range(0, len(items), batch):
            part = items[first : first + batch]
            some = weights[first : first + batch]
            total += float(objective.loss(network(part), part, some)) * float(some.sum())
    return total / max(float(weights.sum()), 1e-12)


def scores(
    network: Network, objective: Objective, train: Sequence[Item], held: Sequence[Item], batch: int
) -> dict[str, float]:
    """``train_mse``, and on held-out tasks (on the train tasks where there are none) ``held_out_mse``,
    ``spearman`` and ``explained``: rank correlation and share of variance explained."""
    predicted, target = objective.scored(outputs(network, train, batch), train)
    out = {"fit/train_mse": float(np.mean((predicted - target) ** 2)), "fit/held_out_episodes": float(len(held))}
    if held:
        predicted, target = objective.scored(outputs(network, held, batch), held)
        out["fit/held_out_mse"] = float(np.mean((predicted - target) ** 2))
    return {**out, "fit/spearman": spearman(predicted, target), "fit/explained": explained(predicted, target)}
