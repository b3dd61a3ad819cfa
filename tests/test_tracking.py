"""Trackers against the real clients where they are installed, and what a failing one does to a run: nothing."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentgym.errors import MissingDependency
from agentgym.tracking import MLflowTracker, TensorBoardTracker, Trackers, WandbTracker, flat, run_id, tags

ROOT = Path(__file__).parent.parent
VALUES = {"loss": 0.5, "train/success": 0.25, "mix/toy:A (b)/groups": 3.0, "broken": math.nan}
TAGS = {"rl/loss": 0.5, "train/success": 0.25, "mix/toy:A (b)/groups": 3.0}


def client(name: str) -> Any:
    """The client, or a skip for a contributor who has none; required where CI says so."""
    if os.environ.get("AGENTGYM_REQUIRE_TRACKERS"):
        return __import__(name)
    return pytest.importorskip(name)


def test_tags_have_a_phase_and_finite_values() -> None:
    assert tags("rl", VALUES) == TAGS
    assert flat({"a": {"b": 1, "c": {"d": []}}, "e": {}}) == {"a.b": 1, "a.c.d": [], "e": {}}


def test_tensorboard(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tracker = TensorBoardTracker(tmp_path)
    tracker.log("rl", 7, TAGS)
    tracker.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in TAGS} == {
        tag: [(7, value)] for tag, value in TAGS.items()
    }


def test_mlflow_in_a_file_and_a_second_time(tmp_path: Path) -> None:
    client("mlflow")
    from mlflow.tracking import MlflowClient

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    for step in (0, 1):  # a resumed run goes on under the same name
        tracker = MLflowTracker(tmp_path, "study", "tiny", {"rl.lr": 0.1, "env.[x]": "y" * 900}, uri)
        tracker.log("rl", step, TAGS)
        tracker.close()
    found = MlflowClient(tracking_uri=uri)
    experiment = found.get_experiment_by_name("study")
    (run,) = found.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["rl.lr"] == "0.1"
    assert [m.step for m in found.get_metric_history(run.info.run_id, "train/success")] == [0, 1]
    assert run.data.metrics["mix/toy:A _b_/groups"] == 3.0


def test_wandb_offline(tmp_path: Path) -> None:
    client("wandb")
    code = (  # in a process of its own: W&B's service outlives the run that started it
        "import sys; from pathlib import Path; from agentgym.tracking import WandbTracker\n"
        "tracker = WandbTracker(Path(sys.argv[1]), 'study', 'tiny', {'rl.lr': 0.1}, offline=True)\n"
        "tracker.log('sft', 0, {'sft/loss': 1.0})\n"
        "tracker.log('rl', 0, {'train/success': 0.25})\n"
        "tracker.close()\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=200, cwd=ROOT)
    (log,) = (tmp_path / "wandb").glob(f"offline-run-*-{run_id(tmp_path)}/run-{run_id(tmp_path)}.wandb")
    written = log.read_bytes()
    for text in (b"train/success", b"rl/step", b"sft/loss"):
        assert text in written


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_missing_client_is_named_with_its_extra(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (name, f"{name}.tracking"):
        monkeypatch.setitem(sys.modules, module, None)
    make = {
        "wandb": lambda: WandbTracker(tmp_path, "p", "n", {}, True),
        "mlflow": lambda: MLflowTracker(tmp_path, "p", "n", {}, None),
    }[name]
    with pytest.raises(MissingDependency, match=rf"agentgym-turns\[{name}\]"):
        Trackers({name: make}, print)


class Broken:
    def log(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        raise OSError("no network\nsecond line")

    def close(self) -> None:
        raise RuntimeError


def test_a_tracker_that_fails_is_noted_once_and_counted() -> None:
    def refuse() -> Broken:
        raise ValueError("wrong key")

    notes: list[str] = []
    trackers = Trackers({"a": Broken, "b": refuse}, notes.append)
    for step in range(3):
        trackers.log("rl", step, VALUES)
    trackers.close()
    assert trackers.failures == {"a": 4, "b": 1}
    assert notes == [
        "WARNING: b does not take metrics (ValueError: wrong key); the run goes on",
        "WARNING: a does not take metrics (OSError: no network); the run goes on",
        "a failed 4 times; metrics.jsonl has everything",
    ]
