"""What the verl engine refuses before anything is made, and how it sizes a run. No verl is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.config.loader import load_recipe
from agentgym.errors import ConfigError
from agentgym.trainers.verl.scope import Machine, rollout_backend, window
from agentgym.trainers.verl.translate import Start, settings

CPU, GPU = Machine(cuda=False), Machine(cuda=True, flash=True)
PLAIN = ("engine=verl", "model.constrain=false")


def refused(*overrides: str, machine: Machine = CPU) -> str:
    recipe = load_recipe("quest/k2", [*PLAIN, *overrides])
    with pytest.raises(ConfigError) as caught:
        settings(recipe, Path("/runs/x"), machine, Start("/models/m"))
    return str(caught.value)


def test_a_models_folder_says_its_window(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 1234}')
    assert window(load_recipe("quest/k2", [*PLAIN, f"model.path={tmp_path}"])) == 1234


def test_rollout_backend() -> None:
    recipe = load_recipe("quest/k2", PLAIN)
    assert (rollout_backend(recipe, CPU), rollout_backend(recipe, GPU)) == ("torch", "vllm")
    chosen = load_recipe("quest/k2", [*PLAIN, "cluster.rollout=vllm"])
    assert rollout_backend(chosen, CPU) == "vllm"


@pytest.mark.parametrize(
    ("override", "word"),
    [
        ("model.constrain=true", "model.constrain"),
        ("rl.steps=0", "rl.steps"),
        ("mix=[{name: bandit}]", "mix"),
        ("rl.resample=1", "rl.resample"),
        ("rl.reference_every=2", "rl.reference_every"),
        ("rl.max_seconds=10", "rl.max_seconds"),
        ("model.lora={r: 4, dropout: 0.1}", "dropout"),
        ("cluster={gpus: 2, tensor_parallel: 2}", "cluster.rollout=vllm"),
        ("limits.max_episode_tokens=6", "max_response_tokens"),
    ],
)
def test_what_the_engine_cannot_honour(override: str, word: str) -> None:
    assert word in refused(override)


def test_tensor_parallel_must_divide_the_gpus() -> None:
    assert "divide" in refused("cluster={gpus: 3, tensor_parallel: 2, rollout: vllm}", machine=GPU)


def test_a_hub_model_without_a_token_limit() -> None:
    assert "limits.max_episode_tokens" in refused("model.path=Org/Model", "sft.steps=0")
