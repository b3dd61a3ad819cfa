"""Where a run's metrics go besides ``metrics.jsonl``: TensorBoard, Weights & Biases, MLflow, through their own clients.

A tracker never decides a run: what it raises is noted once and counted, and the run goes on without it. Steps of the
warm start and of RL both begin at 0, so every metric carries its phase's own step axis.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from agentgym.errors import MissingDependency


class Tracker(Protocol):
    """One destination of metrics."""

    def log(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        """The finite numbers of a step, by tag (:func:`tags`)."""
        ...

    def close(self) -> None:
        """Hand over what is held back."""
        ...


def tags(phase: str, values: Mapping[str, float]) -> dict[str, float]:
    """Metric names with a phase where they have none: ``loss`` of the warm start is ``sft/loss``. Finite ones only."""
    found = {key if "/" in key else f"{phase}/{key}": float(value) for key, value in values.items()}
    return {key: value for key, value in found.items() if math.isfinite(value)}


class TensorBoardTracker:
    """Event files in ``RUN/tensorboard``."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder), flush_secs=30)

    def log(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        """One scalar a tag."""
        for key, value in values.items():
            self._writer.add_scalar(key, value, step)

    def close(self) -> None:
        """Write the rest."""
        self._writer.close()


class WandbTracker:
    """Weights & Biases. ``offline``: kept in ``RUN/wandb`` for ``wandb sync``. A resumed run goes on under its id."""

    def __init__(self, folder: Path, project: str, name: str, config: Mapping[str, Any], offline: bool) -> None:
        try:
            import wandb
        except ImportError as error:
            raise MissingDependency("track.to wandb needs the extra: pip install 'agentgym-turns[wandb]'") from error
        self._run: Any = wandb.init(
            project=project, name=name, id=run_id(folder), resume=None if offline else "allow", dir=str(folder),
            mode="offline" if offline else None, config=dict(config), settings=wandb.Settings(silent=True),
        )  # fmt: skip
        for phase in ("sft", "rl"):
            self._run.define_metric(f"{phase}/step", hidden=True)

    def log(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        """One row, with the phase's own step beside W&B's running one."""
        self._run.log({**values, f"{phase}/step": step})

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


class MLflowTracker:
    """MLflow, at ``uri`` or where MLFLOW_TRACKING_URI says, else in ``RUN/mlflow.db``."""

    def __init__(self, folder: Path, project: str, name: str, config: Mapping[str, Any], uri: str | None) -> None:
        try:
            from mlflow.tracking import MlflowClient
        except ImportError as error:
            raise MissingDependency("track.to mlflow needs the extra: pip install 'agentgym-turns[mlflow]'") from error
        import os

        uri = uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.resolve() / 'mlflow.db'}"
        self._client: Any = MlflowClient(tracking_uri=uri)
        found = self._client.get_experiment_by_name(project)
        experiment = found.experiment_id if found is not None else self._client.create_experiment(project)
        key = run_id(folder)
        old = self._client.search_runs([experiment], f"tags.agentgym_run = '{key}'", max_results=1)
        if old:
            self._id = old[0].info.run_id
            return
        self._id = self._client.create_run(experiment, run_name=name, tags={"agentgym_run": key}).info.run_id
        for item, value in config.items():
            self._client.log_param(self._id, re.sub(r"[^\w./ -]", "_", item), str(value)[:500])

    def log(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        """One metric a tag; characters that MLflow refuses become underscores."""
        import time

        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(re.sub(r"[^\w./: -]", "_", key), value, now, step) for key, value in values.items()]
        self._client.log_batch(self._id, metrics=metrics)

    def close(self) -> None:
        """Mark the run as finished."""
        self._client.set_terminated(self._id)


class Trackers:
    """Several trackers as one that never raises. ``note`` is told of the first failure of each."""

    def __init__(self, makers: Mapping[str, Callable[[], Tracker]], note: Callable[[str], None]) -> None:
        self._note = note
        self._live: dict[str, Tracker] = {}
        self.failures = dict.fromkeys(makers, 0)
        for name, make in makers.items():
            try:
                self._live[name] = make()
            except MissingDependency:
                raise
            except Exception as error:
                self._failed(name, error)

    def log(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        """The numbers of a step to all of them."""
        found = tags(phase, values)
        for name, tracker in self._live.items():
            try:
                tracker.log(phase, step, found)
            except Exception as error:
                self._failed(name, error)

    def close(self) -> None:
        """Close all; says how much one has missed."""
        for name, tracker in self._live.items():
            try:
                tracker.close()
            except Exception as error:
                self._failed(name, error)
        for name, count in self.failures.items():
            if count > 1:
                self._note(f"{name} failed {count} times; metrics.jsonl has everything")

    def _failed(self, name: str, error: Exception) -> None:
        self.failures[name] += 1
        if self.failures[name] == 1:
            text = (str(error).splitlines() or [""])[0]
            self._note(f"WARNING: {name} does not take metrics ({type(error).__name__}: {text}); the run goes on")


def run_id(folder: Path) -> str:
    """A name of a run that a resumed one finds again: a hash of its folder's place."""
    return hashlib.blake2b(str(folder.resolve()).encode(), digest_size=8).hexdigest()


def flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as dotted keys."""
    out: dict[str, Any] = {}
    for key, value in data.items():
        out |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) and value else {f"{prefix}{key}": value}
    return out
