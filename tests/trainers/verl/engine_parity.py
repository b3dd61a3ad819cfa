"""One update of verl's FSDP2 engine against the local trainer's, from the same weights and episodes, fp32 on gloo.

Collected by name in ``make test-verl`` (needs verl). Real episodes of Quest, played by a tiny model from scratch.
"""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.config.loader import load_recipe
from agentgym.config.recipe import Recipe
from agentgym.credit import CreditPipeline
from agentgym.environment import Environment
from agentgym.registry import make
from agentgym.trainers.local import model as models
from agentgym.trainers.local import panels, setup
from agentgym.trainers.local.collect import Collector
from agentgym.trainers.local.optim import Optimizer
from agentgym.trainers.local.trainer import LocalTrainer
from agentgym.trainers.local.update import PolicyUpdate
from agentgym.trainers.verl import compat, seam
from agentgym.trainers.verl.credit import assign
from agentgym.types import Group

PROCESS = Path(__file__).with_name("engine_process.py")
RECIPE = "quest/k2"
OVERRIDES = [
    "engine=verl", "model.constrain=false", "sft.steps=0", "rl.steps=1", "rl.groups=4", "rl.group_size=4",
    "rl.minibatch=6", "model.tiny.hidden_size=32", "credit=[{grounding_penalty: {penalty: 0.5}}]",
    "estimator.name=discounted_return", "limits.max_turns=6", "rl.lr=1e-3",
]  # fmt: skip
VARIANTS = {
    "plain": [],
    "epochs-and-micro-batches": ["rl.micro_batch=2", "rl.minibatch=16", "rl.epochs=2"],
    "entropy-seq-mean": ["rl.entropy_coef=0.02", "rl.aggregation=seq-mean-token-mean"],
    "sum-norm-weight-decay": ["rl.aggregation=seq-mean-token-sum-norm", "rl.weight_decay=0.1", "rl.temperature=0.8"],
}


class Played:
    """What a variant needs: the model's folder, the played groups, and the local trainer's weights after its update."""

    def __init__(self, folder: Path, start: Path, overrides: list[str]) -> None:
        torch.set_num_threads(1)
        self.folder, self.overrides = folder, [*OVERRIDES, f"model.path={start}", *overrides]
        self.recipe: Recipe = load_recipe(RECIPE, self.overrides)
        folder.mkdir()
        self.model_path = str(models.base_folder(self.recipe, folder))
        self.model, tokenizer = models.load_model(self.recipe.model, self.model_path, self.recipe.seed)
        self.before = weights(self.model)
        policy = models.make_policy(self.recipe, self.model, tokenizer, folder)
        self.env: Environment = make(self.recipe.env.name)
        tasks = panels.task_set(self.env, self.recipe.env.train)
        self.credit = CreditPipeline.from_recipe(self.recipe)
        with setup.make_engine(self.recipe, policy, self.recipe.train_sampling()) as engine:
            data = Collector(engine, tasks, self.credit, self.recipe.rl, self.recipe.seed).collect(0)
        self.groups = [Group(g.task, [seam.unpack(seam.pack(e)) for e in g]) for g in data.groups]
        for group in self.groups:  # as they came out of the rollout: no component but the environment's
            for episode in group:
                for turn in episode.turns:
                    turn.rewards = {"env": turn.rewards["env"]}
        self.rate = self.recipe.rl.lr
        self.divisor = setup.token_divisor(self.recipe, self.env.spec.max_turns)
        rl = self.recipe.rl
        optimizer = Optimizer(self.model, rl.lr, rl.weight_decay, rl.max_grad_norm)
        self.metrics = PolicyUpdate(self.model, optimizer, rl, self.recipe.seed, self.divisor).run(data.rows, 0)
        self.after = weights(self.model)

    def by_verl(self, processes: int) -> dict[str, Any]:
        """Weights after verl's update on the same episodes, in so many processes."""
        # a fresh copy, since credit writes its components into the episodes
        step = seam.Step([Group(g.task, [seam.unpack(seam.pack(e)) for e in g]) for g in self.groups])
        columns: dict[str, Any] = {}
        for number, group in enumerate(step.groups):
            for index, episode in enumerate(group):
                for output, sample in enumerate(seam.samples(episode, 1)):
                    key = f"{seam.prompt_name(number)}_{index}_{output}"
                    step.places[key] = (number, index, sample.row)
                    columns[key] = {
                        "input_ids": np.array(sample.prompt + sample.response, np.int64),
                        "prompts": np.array(sample.prompt),
                        "responses": np.array(sample.response),
                        "response_mask": np.array(sample.mask),
                        "old_log_probs": np.array(sample.logprobs, np.float32),
                    }
        credit = CreditPipeline.from_recipe(self.recipe)
        found = assign(step, credit, self.recipe.rl, self.recipe.seed, 0, self.divisor)
        rows = {key: columns[key] | found.columns[key] for key in columns}
        payload = {"recipe": RECIPE, "overrides": self.overrides, "model": self.model_path, "lr": self.rate}
        payload |= {"minibatches": found.minibatches, "rows": rows}
        file, out = self.folder / f"payload-{processes}.pkl", self.folder / f"weights-{processes}.npz"
        file.write_bytes(pickle.dumps(payload))
        run_processes(file, out, processes)
        with np.load(out) as arrays:
            return dict(arrays)


def weights(model: Any) -> dict[str, Any]:
    return {name: p.detach().numpy().copy() for name, p in model.named_parameters()}


def run_processes(payload: Path, out: Path, count: int) -> None:
    """Run the engine's processes; fails with the output of the first one that fails."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = []
    for rank in range(count):
        place = {"RANK": rank, "LOCAL_RANK": 0, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        env = {**os.environ, **{key: str(value) for key, value in place.items()}, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(PROCESS), str(payload), str(out)]
        started.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    try:
        texts = [process.communicate(timeout=600)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    for process, text in zip(started, texts, strict=True):
        assert process.returncode == 0, text[-3000:]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has seen a few demonstrations, so that episodes have several turns."""
    folder = tmp_path_factory.mktemp("start") / "run"
    short = [*OVERRIDES, "engine=local", "sft.steps=60", "sft.episodes=100", "rl.steps=0", "eval.final=false"]
    LocalTrainer(load_recipe(RECIPE, [*short, "env.eval.limit=2"]), folder, quiet=True).run()
    return folder / "checkpoints" / "sft"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, start: Path) -> Callable[[str], Played]:
    compat.require()
    made: dict[str, Played] = {}

    def get(name: str) -> Played:
        if name not in made:
            made[name] = Played(tmp_path_factory.mktemp("parity") / name, start, VARIANTS[name])
        return made[name]

    return get


def change(before: dict[str, Any], after: dict[str, Any]) -> float:
    return float(np.sqrt(sum(((after[n].astype(np.float64) - before[n]) ** 2).sum() for n in before)))


def difference(one: dict[str, Any], other: dict[str, Any]) -> float:
    return float(np.sqrt(sum(((one[n].astype(np.float64) - other[n]) ** 2).sum() for n in one)))


@pytest.mark.parametrize("name", VARIANTS)
def test_one_update_is_the_local_trainers(name: str, played: Callable[[str], Played]) -> None:
    run = played(name)
    assert run.metrics["train/updates"] >= 2
    found = run.by_verl(1)
    moved = change(run.before, run.after)
    assert moved > 1e-3
    relative = difference(run.after, found) / moved
    print(f"{name}: weights moved by {moved:.4g}, the engines differ by {relative:.2g} of that")
    assert relative < 1e-4


def test_two_processes_give_the_update_of_one(played: Callable[[str], Played]) -> None:
    run = played("plain")
    one, two = run.by_verl(1), run.by_verl(2)
    worst = max(float(np.abs(one[name] - two[name]).max()) for name in one)
    print(f"two processes against one: largest difference of a weight {worst:.2g}")
    assert worst < 1e-5
