"""A run that is killed -9 again and again ends with the same weights, bit for bit, as one left alone."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

HERE = Path(__file__).parent
#: lengths of metrics.jsonl, in lines, after which the run is killed: in the warm start, in RL, during the final panels
KILLS = (2, 10, 18, 21)


def start(folder: Path) -> subprocess.Popen[bytes]:
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, str(HERE / "toy_run.py"), str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=env,
    )


def finish(process: subprocess.Popen[bytes]) -> str:
    _, errors = process.communicate(timeout=500)
    assert process.returncode == 0, errors.decode()[-3000:]
    return errors.decode()


def lines(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def metrics(folder: Path) -> list[dict[str, float]]:
    """All metrics but times, which differ between runs."""
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("time/")} for line in found]


def kill_at(folder: Path, target: int, delay: float) -> None:
    process = start(folder)
    deadline = time.monotonic() + 300
    while process.poll() is None and lines(folder) < target and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def same_weights(one: Path, other: Path) -> None:
    for name in ("model.safetensors", "trainer/optimizer.safetensors"):
        a, b = load_file(one / "checkpoint" / name), load_file(other / "checkpoint" / name)
        assert a.keys() == b.keys()
        for key in a:
            assert torch.equal(a[key], b[key]), f"{name}: {key} differs"


@pytest.mark.timeout(1200)
def test_killed_runs_end_bit_for_bit_the_same(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(start(whole))
    rng = random.Random(7)
    for target in KILLS:
        kill_at(killed, target, rng.random() * 0.3)
    finish(start(killed))
    assert (whole / "checkpoint").resolve().name == (killed / "checkpoint").resolve().name == "step-000005"
    same_weights(whole, killed)
    assert metrics(whole) == metrics(killed)
    results = [json.loads((f / "evaluations.json").read_text()) for f in (whole, killed)]
    for one, other in zip(*results, strict=True):
        assert {k: v for k, v in one.items() if "seconds" not in k} == {
            k: v for k, v in other.items() if "seconds" not in k
        }


@pytest.mark.timeout(600)
def test_ctrl_c_saves_and_says_how_to_resume(tmp_path):
    process = start(tmp_path / "run")
    while process.poll() is None and lines(tmp_path / "run") < 18:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors.decode()[-2000:]
    assert f"agentgym train {tmp_path / 'run'} --resume" in errors.decode().splitlines()[-1]
    assert "resuming from" in finish(start(tmp_path / "run"))
