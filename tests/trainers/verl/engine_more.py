"""Runs of the verl engine with everything that may stand beside the policy. In ``make test-verl``."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from engine_runs import TROUBLE, Run, apart, environment, resumed
from safetensors.numpy import load_file

from agentgym.trainers.verl import compat, export

#: LoRA, GAE with verl's value model, IGPO's log-probabilities and SPA's hidden states from the actor
MORE = [
    *TROUBLE, "rl.steps=2", "env.train={split: calm, options: {n: 4}}", "model.lora={r: 4, alpha: 8}",
    "credit=['engine_toy:Length', {igpo: {}}, {spa: {trunk: policy, warmup_episodes: 8, sum_preserving: false, "
    "weight: 1.0, refit_every: 1, fit: {epochs: 1}}}]",
    "estimator={name: gae, options: {gamma: 0.9}}", "rl.warmup_from=policy", "rl.old_logprobs=trainer",
    "rl.kl_coef=0.01", "rl.lr=1e-3", "checkpoint={every: 1, keep: 3}",
    "limits={reset_timeout: 3, max_response_tokens: 150}",  # most responses of an untrained model end by then
]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def _verl() -> None:
    compat.require()


@pytest.fixture(scope="module")
def more(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Run(tmp_path_factory.mktemp("more") / "run", MORE)
    try:
        assert run.wait() == 0, run.text()[-4000:]
    finally:
        run.end()
    print(f"two steps with adapter and critic: {time.monotonic() - run.began:.0f} s, peak memory {run.peak:.1f} GB")
    return run


class TestMore:
    def test_adapters_a_critic_the_scorer_and_a_learned_model(self, more: Run) -> None:
        assert [line["step"] for line in more.steps()] == [1, 2]
        for line in more.steps():
            assert line["gap/logprob_max"] < 1e-5
            assert np.isfinite(line["critic/loss"])
            assert line["credit/info_gain/std"] > 0
            assert line["credit/spa/std"] > 0
            assert line["credit/spa/fallback"] == 0
        assert more.steps()[1]["loss/kl"] > 0

    def test_the_exported_adapter_is_a_model_for_eval(self, more: Run, tmp_path: Path) -> None:
        folder = more.folder / "checkpoint"
        assert folder.resolve().name == export.ADAPTER
        tensors = load_file(folder / "adapter_model.safetensors")
        assert all(np.abs(array).max() > 0 for name, array in tensors.items() if "lora_B" in name)
        command = [sys.executable, "-m", "agentgym", "eval", "engine_toy:Trouble", "--split", "calm", "--limit", "2"]
        found = subprocess.run(
            [*command, "--model", str(folder), "--out", str(tmp_path / "eval")], env=environment(), timeout=300,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert found.returncode == 0, found.stderr[-2000:]

    def test_a_resumed_run_continues_exactly(self, more: Run, tmp_path: Path) -> None:
        """Adapter, value model, both optimisers, and SPA's model and memory."""
        run = resumed(more, tmp_path / "resumed", [*MORE, "eval.final=false"], 2)
        before, after = more.steps()[1], run.steps()[1]
        for key in (key for key in before if key.startswith(("train/", "credit/", "critic/", "loss/"))):
            assert after[key] == pytest.approx(before[key], abs=1e-6), key
        places = [place / "verl" / "global_step_2" / "actor" / export.ADAPTER for place in (more.folder, run.folder)]
        one, other = (load_file(place / "adapter_model.safetensors") for place in places)
        assert apart(one, other) < 1e-6
