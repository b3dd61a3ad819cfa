"""Whole runs of the verl engine for tests: the command of a user in a process of its own, watched to its end."""

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
from safetensors.numpy import load_file

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
        deadline, measured = time.monotonic() + seconds, 0.0
        while self.process.poll() is None and not until():
            assert time.monotonic() < deadline, f"still running after {seconds} s:\n{self.text()[-3000:]}"
            if time.monotonic() > measured + 5:  # to sum up all processes' memory takes a good part of a second
                self.peak, measured = max(self.peak, memory(self.process.pid)), time.monotonic()
            time.sleep(0.5)
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
