"""Whole runs of the verl engine on CPUs: Ray, FSDP2 over gloo, the torch rollout server. In ``make test-verl``.

Every run is the command of a user, in a process of its own, with a deadline.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from safetensors.numpy import load_file

from agentgym.trainers.verl import compat, export

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
QUEST = [
    "quest/k2", "model.constrain=false", "model.tiny.hidden_size=32", "sft.steps=60", "sft.episodes=100",
    "rl.steps=3", "rl.groups=4", "rl.group_size=4", "rl.minibatch=6", "limits.max_turns=6", "rl.lr=1e-3",
    "credit=[{grounding_penalty: {penalty: 0.5}}]", "estimator.name=discounted_return", "rl.old_logprobs=trainer",
    "eval.every=0", "env.eval.limit=4", "env.test.limit=4", "checkpoint={every: 1, keep: 3}",
]  # fmt: skip
TROUBLE = [
    "quest/k2", "env.name=engine_toy:Trouble", "env.train={split: train, options: {n: 4}}", "sft.steps=0",
    "env.eval={split: calm, options: {n: 2}, limit: 2}", "env.test={split: calm, options: {n: 2}, limit: 2}",
    "model.constrain=false", "model.tiny.hidden_size=32", "model.tiny.vocab_size=512", "rl.groups=4", "rl.group_size=2",
    "limits={reset_timeout: 3, max_response_tokens: 8}", "credit=['engine_toy:Length']",
    "estimator.name=discounted_return", "eval.every=0", "checkpoint.every=0", "prompt.rewrite=[]",
]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def _verl() -> None:
    compat.require()


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), str(HERE), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "RAY_worker_niceness": "0"}


class Run:
    """``agentgym train`` in a process of its own; all its processes end with :meth:`end`."""

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        self.folder = folder
        self.log = folder.with_suffix(".log")
        command = [sys.executable, "-m", "agentgym", "train", *arguments, "engine=verl", "--output", str(folder)]
        self.began, self.peak = time.monotonic(), 0.0
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, env=environment(), stdout=log, stderr=subprocess.STDOUT)

    def wait(self, seconds: float = 900, until: Callable[[], Any] = lambda: False) -> int | None:
        """Until the end, or until ``until``; notes the peak memory of all its processes (PSS, in GB)."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None and not until():
            assert time.monotonic() < deadline, f"still running after {seconds} s:\n{self.text()[-3000:]}"
            self.peak = max(self.peak, memory(self.process.pid))
            time.sleep(1.0)
        return self.process.poll()

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def metrics(self) -> list[dict[str, Any]]:
        file = self.folder / "metrics.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def steps(self) -> list[dict[str, Any]]:
        return [line for line in self.metrics() if line["step"] > 0]

    def end(self) -> None:
        for process in family(self.process.pid):
            process.kill()
        self.process.wait(30)


def family(pid: int) -> list[psutil.Process]:
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def memory(pid: int) -> float:
    total = 0.0
    for process in family(pid):
        try:
            total += process.memory_full_info().pss / 1e9
        except (psutil.Error, AttributeError):
            continue
    return total


def weights(folder: Path) -> dict[str, Any]:
    return load_file(folder / "model.safetensors")


def apart(one: dict[str, Any], other: dict[str, Any]) -> float:
    return max(float(np.abs(one[name].astype(np.float64) - other[name]).max()) for name in one)


def model_of(run: Path, step: int) -> Path:
    return run / "verl" / f"global_step_{step}" / "actor" / "huggingface"


def resumed(run: Run, folder: Path, arguments: list[str], step: int) -> Run:
    """A copy of a run that had got no further than the checkpoint before ``step``, resumed to its end."""
    shutil.copytree(run.folder, folder, symlinks=True)
    shutil.rmtree(folder / "verl" / f"global_step_{step}")
    (folder / "verl" / "latest_checkpointed_iteration.txt").write_text(str(step - 1))
    again = Run(folder, [*arguments, "--resume"])
    try:
        assert again.wait() == 0, again.text()[-4000:]
    finally:
        again.end()
    return again


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Warm start, three steps, final evaluation."""
    run = Run(tmp_path_factory.mktemp("verl") / "run", QUEST)
    try:
        assert run.wait() == 0, run.text()[-4000:]
    finally:
        run.end()
    print(f"three steps: {time.monotonic() - run.began:.0f} s, peak memory {run.peak:.1f} GB")
    return run


class TestThreeSteps:
    def test_rollout_and_actor_agree_on_every_trained_token(self, trained: Run) -> None:
        steps = trained.steps()
        assert [line["step"] for line in steps] == [1, 2, 3]
        for line in steps:
            assert line["train/rows"] > 0
            assert line["gap/logprob_max"] < 1e-5
            assert line["training/rollout_probs_diff_max"] < 1e-5

    def test_the_weights_moved_and_reached_the_rollout(self, trained: Run) -> None:
        start = weights(trained.folder / "start" / "checkpoints" / "sft")
        assert apart(start, weights(model_of(trained.folder, 1))) > 1e-4
        assert apart(weights(model_of(trained.folder, 1)), weights(model_of(trained.folder, 3))) > 1e-4

    def test_nothing_was_evicted_or_failed(self, trained: Run) -> None:
        for line in trained.steps():
            assert line["train/episodes"] == 16
            assert line["train/errors"] == 0
            assert not any("evicted" in key for key in line)

    def test_the_local_trainer_does_the_same(self, trained: Run, tmp_path: Path) -> None:
        """Same tasks, seeds, episodes, advantages, losses and, to rounding, weights."""
        start = trained.folder / "start" / "checkpoints" / "sft"
        recipe = [*QUEST, "sft.steps=0", f"model.path={start}", "eval.final=false"]
        command = [sys.executable, "-m", "agentgym", "train", *recipe, "--output", str(tmp_path / "local")]
        subprocess.run(command, env=environment(), check=True, timeout=600)
        lines = [json.loads(line) for line in (tmp_path / "local" / "metrics.jsonl").read_text().splitlines()]
        local = [line for line in lines if line["phase"] == "rl" and line["step"] > 0]
        for ours, theirs in zip(trained.steps(), local, strict=True):
            for key in ("train/tokens", "train/sampled_tokens", "train/outcome", "train/rows", "train/turns"):
                assert ours[key] == theirs[key], key
            assert ours["loss/policy"] == pytest.approx(theirs["loss/policy"], abs=2e-5)
        moved = apart(weights(start), weights(tmp_path / "local" / "checkpoint"))
        off = apart(weights(tmp_path / "local" / "checkpoint"), weights(model_of(trained.folder, 3)))
        print(f"after three steps the engines' weights differ by {off:.2g}; they moved by {moved:.2g}")
        assert off < 1e-3 * moved

    def test_the_export_is_a_model_for_eval(self, trained: Run, tmp_path: Path) -> None:
        assert (trained.folder / "checkpoint").resolve() == model_of(trained.folder, 3).resolve()
        results = json.loads((trained.folder / "evaluations.json").read_text())
        assert results[0]["tasks"] == 4
        command = [sys.executable, "-m", "agentgym", "eval", "quest/k2", "--model", str(trained.folder / "checkpoint")]
        found = subprocess.run(
            [*command, "--limit", "2", "--out", str(tmp_path / "eval")], env=environment(), timeout=300,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert found.returncode == 0, found.stderr[-2000:]

    def test_a_resumed_run_continues_exactly(self, trained: Run, tmp_path: Path) -> None:
        run = resumed(trained, tmp_path / "resumed", [*QUEST, "eval.final=false"], 3)
        before, after = trained.steps()[2], run.steps()[2]
        assert [line["step"] for line in run.steps()] == [1, 2, 3]
        for key in (key for key in before if key.startswith(("train/", "credit/"))):
            assert after[key] == pytest.approx(before[key], abs=1e-6), key
        assert apart(weights(model_of(trained.folder, 3)), weights(model_of(run.folder, 3))) < 1e-6


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model for the toy environment, made of its calm tasks."""
    folder = tmp_path_factory.mktemp("base")
    calm = [*TROUBLE[1:], "env.train={split: calm, options: {n: 4}}"]
    code = (
        "import sys; from pathlib import Path; from agentgym.config.loader import load_recipe;"
        "from agentgym.trainers.local.model import base_folder;"
        "base_folder(load_recipe(sys.argv[1], sys.argv[3:]), Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, TROUBLE[0], str(folder), *calm]
    subprocess.run(command, env=environment(), check=True, timeout=300)
    return folder / "base"


class TestTrouble:
    def test_hanging_and_raising_environments_go_on_and_a_killed_worker_ends_the_run(
        self, base: Path, tmp_path: Path
    ) -> None:
        run = Run(tmp_path / "run", [*TROUBLE, f"model.path={base}", "rl.steps=1000"])
        try:
            code = run.wait(until=lambda: len(run.steps()) >= 2)
            assert code is None, run.text()[-4000:]
            for line in run.steps():
                assert line["train/errors"] == 4  # two tasks of four, two episodes each
                assert line["train/end/env_error"] == 0.5
                assert line["train/rows"] > 0
            workers = [p for p in family(run.process.pid) if "WorkerDict" in " ".join(p.cmdline())]
            assert workers
            workers[0].kill()
            killed = time.monotonic()
            assert run.wait(60) not in (0, None)
            seconds = time.monotonic() - killed
        finally:
            run.end()
        print(f"the run ended {seconds:.0f} s after its worker was killed")
        assert seconds < 30
        assert "WorkerDict" in run.text()
        assert "died" in run.text()

    def test_an_exception_in_the_agent_loop_ends_the_run(self, tmp_path: Path) -> None:
        modules = "agentgym.trainers.verl.plugin,engine_broken"
        variable = f"verl.ray_kwargs.ray_init.runtime_env.env_vars.VERL_USE_EXTERNAL_MODULES={modules}"
        run = Run(tmp_path / "run", [*TROUBLE, "rl.steps=2", "env.train={split: calm, options: {n: 4}}", variable])
        try:
            assert run.wait() not in (0, None)
        finally:
            run.end()
        assert "the agent loop raised RuntimeError: broken on purpose" in run.text()


#: LoRA, GAE with verl's value model, IGPO's log-probabilities and SPA's hidden states from the actor
MORE = [
    *TROUBLE, "rl.steps=2", "env.train={split: calm, options: {n: 4}}", "model.lora={r: 4, alpha: 8}",
    "credit=['engine_toy:Length', {igpo: {}}, {spa: {trunk: policy, warmup_episodes: 8, sum_preserving: false, "
    "weight: 1.0, refit_every: 1, fit: {epochs: 1}}}]",
    "estimator={name: gae, options: {gamma: 0.9}}", "rl.warmup_from=policy", "rl.old_logprobs=trainer",
    "rl.kl_coef=0.01", "rl.lr=1e-2", "checkpoint={every: 1, keep: 3}",
]  # fmt: skip


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
