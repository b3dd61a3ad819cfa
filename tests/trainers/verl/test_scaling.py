"""The scaling page's numbers come from the formulas; the formulas from hand calculation; the recipes match the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.config.loader import load_recipe
from agentgym.trainers.verl import scaling
from agentgym.trainers.verl.scaling import CASES, GIB, GPU, QWEN, Layout, Load, Speed

PAGE = Path(__file__).parents[3] / "docs" / "scaling.md"


def test_the_page_holds_the_tables() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for table in scaling.tables().strip().split("\n\n"):
        assert table in page


@pytest.mark.parametrize("name", CASES)
def test_the_recipes_are_the_layouts_of_the_page(name: str) -> None:
    recipe, (model, layout, load) = load_recipe(name), CASES[name]
    cluster = recipe.cluster
    assert cluster.nodes * cluster.gpus == layout.gpus
    assert (cluster.tensor_parallel, cluster.memory, cluster.offload) == (layout.tensor_parallel, layout.memory, False)
    assert recipe.rl.micro_tokens == layout.micro_tokens
    assert recipe.rl.micro_batch is None
    assert bool(recipe.rl.kl_coef) == layout.reference
    assert recipe.model.gradient_checkpointing == layout.checkpointing
    assert recipe.model.path == f"Qwen/{model.name}-Instruct"
    assert load.episodes == recipe.rl.groups * recipe.rl.group_size
    assert load.turns == recipe.limits.max_turns
    assert load.window == (recipe.prompt.layout == "window")
    assert scaling.fits(model, layout, GPU)


def test_memory_of_a_7b_model_by_hand() -> None:
    found = scaling.training_bytes(QWEN["7B"], Layout(8, 2, 0.5, 8192, reference=True))
    assert found["weights"] == pytest.approx(4 * 7.616e9 / 8)
    assert found["gradients and optimiser"] == pytest.approx(12 * 7.616e9 / 8)
    assert found["activations"] == pytest.approx(2 * 8192 * 3584 * (28 + 34))
    assert found["logits"] == pytest.approx(12 * 8192 * 152_064)
    assert scaling.kv_bytes_per_token(QWEN["7B"]) == 57_344  # 28 layers x 512 x keys and values x 2 bytes


def test_too_big_a_model_does_not_fit() -> None:
    assert not scaling.fits(QWEN["7B"], Layout(1), GPU)
    assert not scaling.fits(QWEN["32B"], Layout(8, 1), GPU)
    assert scaling.fits(QWEN["7B"], Layout(1, 1, 0.4, 4096, lora=40e6), GPU)


def test_more_gpus_never_need_more_memory_each() -> None:
    sums = [sum(scaling.training_bytes(QWEN["14B"], Layout(gpus)).values()) for gpus in (1, 2, 4, 8, 16)]
    assert sums == sorted(sums, reverse=True)


def test_offloading_frees_the_rollout_only() -> None:
    here, away = Layout(8), Layout(8, offload=True)
    assert scaling.rollout_bytes(QWEN["7B"], away, GPU)["trainer's shards"] == 0
    assert scaling.training_bytes(QWEN["7B"], here) == scaling.training_bytes(QWEN["7B"], away)


def test_a_steps_seconds_by_hand() -> None:
    load, speed = Load(8, 10, 100, 20), Speed(flops=1e15, bandwidth=1e12, mfu=0.5, mbu=0.5, sync=1e10)
    found = scaling.step_seconds(QWEN["0.5B"], Layout(1), load, speed, GPU)
    assert load.tokens == 9600
    assert found["update"] == pytest.approx(10 * 0.494e9 * 9600 / 5e14)
    assert found["prefill"] == pytest.approx(2 * 0.494e9 * 9600 / 5e14)
    read = 2 * 0.494e9 + 8 * 12_288 * 1200 / 2
    assert found["decode"] == pytest.approx(10 * 20 * read / 5e11)
    assert scaling.rates({"all": 60.0}, load) == (160.0, 60.0)


def test_a_window_is_shorter_than_a_chat() -> None:
    assert Load(1, 10, 90, 10).context == 1000
    assert Load(1, 10, 90, 10, window=True).context == 100
    assert GIB == 2**30
