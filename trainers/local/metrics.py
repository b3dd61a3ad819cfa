"""Metrics: one flat JSON object a line in ``metrics.jsonl``, the same numbers to the trackers, and live progress."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from agentgym.config.recipe import Recipe
from agentgym.tracking import MLflowTracker, TensorBoardTracker, Tracker, Trackers, WandbTracker, flat

#: what the live table shows, in order: metric, heading, format
SHOWN: tuple[tuple[str, str, str], ...] = (
    ("sft/loss", "loss", "{:.3f}"),
    ("sft/accuracy", "token acc", "{:.1%}"),
    ("train/success", "success", "{:.1%}"),
    ("train/outcome", "outcome", "{:.3f}"),
    ("train/invalid_rate", "invalid", "{:.1%}"),
    ("train/dead_groups", "dead", "{:.0f}"),
    ("train/turns", "turns", "{:.1f}"),
    ("loss/entropy", "entropy", "{:.3f}"),
    ("grad_norm", "grad", "{:.2f}"),
    ("time/rollout", "rollout s", "{:.1f}"),
    ("time/update", "update s", "{:.1f}"),
    ("eval/success", "eval", "{:.1%}"),
)


class MetricsLog:
    """Appends to ``metrics.jsonl``. On resume the file is cut back to where the checkpoint was written."""

    def __init__(self, run_dir: Path, offset: int = 0, trackers: Trackers | None = None) -> None:
        run_dir.mkdir(parents=True, exist_ok=True)
        self.path = run_dir / "metrics.jsonl"
        self._file = self.path.open("ab")
        if self._file.tell() > offset:
            self._file.truncate(offset)
            self._file.seek(0, os.SEEK_END)
        self._trackers = trackers

    @property
    def offset(self) -> int:
        """The file's length in bytes; goes into checkpoints."""
        return self._file.tell()

    def write(self, phase: str, step: int, values: Mapping[str, float]) -> dict[str, Any]:
        """One line. Non-finite numbers are written as null, so that every line is JSON."""
        line: dict[str, Any] = {"phase": phase, "step": step}
        for key, value in values.items():
            number = float(value)
            line[key] = round(number, 6) if math.isfinite(number) else None
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()
        if self._trackers is not None:
            self._trackers.log(phase, step, values)
        return line

    def close(self) -> None:
        """Sync and close."""
        os.fsync(self._file.fileno())
        self._file.close()
        if self._trackers is not None:
            self._trackers.close()


def trackers_of(recipe: Recipe, run_dir: Path, note: Callable[[str], None]) -> Trackers:
    """The trackers that a recipe asks for. Raises MissingDependency, with the line that installs it."""
    track = recipe.track
    config = flat(recipe.model_dump(mode="json"))
    makers: dict[str, Callable[[], Tracker]] = {
        "tensorboard": lambda: TensorBoardTracker(run_dir / "tensorboard"),
        "wandb": lambda: WandbTracker(run_dir, track.project, recipe.name, config, track.offline),
        "mlflow": lambda: MLflowTracker(run_dir, track.project, recipe.name, config, track.mlflow_uri),
    }
    return Trackers({name: makers[name] for name in dict.fromkeys(track.to)}, note)


def read_metrics(run_dir: Path) -> list[dict[str, Any]]:
    """All complete lines of a run's ``metrics.jsonl``."""
    path = run_dir / "metrics.jsonl"
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in lines]


class Progress:
    """One live table on a terminal, plain lines elsewhere. ``quiet``: nothing but notes."""

    def __init__(self, title: str, stream: TextIO | None = None, quiet: bool = False, rows: int = 12) -> None:
        self.title, self.quiet, self._rows = title, quiet, rows
        self.stream = stream or sys.stderr
        self._lines: list[tuple[str, dict[str, Any]]] = []
        self._phase = ""
        self._live: Any = None
        if not quiet and self.stream.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(file=self.stream), auto_refresh=False)
            self._live.start()

    def show(self, phase: str, step: int, total: int, values: Mapping[str, Any]) -> None:
        """The numbers of one step."""
        if self.quiet:
            return
        label = f"{phase} {step}/{total}"
        if self._live is None:
            shown = [f"{head} {form.format(values[key])}" for key, head, form in SHOWN if values.get(key) is not None]
            self.stream.write(f"{label}  {'  '.join(shown)}\n")
            self.stream.flush()
            return
        if phase != self._phase:
            self._phase, self._lines = phase, []
        self._lines = [*self._lines, (label, dict(values))][-self._rows :]
        self._live.update(self._table(), refresh=True)

    def _table(self) -> Any:
        from rich.table import Table

        heads = [column for column in SHOWN if any(values.get(column[0]) is not None for _, values in self._lines)]
        table = Table(title=self.title)
        table.add_column("step")
        for _, head, _ in heads:
            table.add_column(head, justify="right")
        for label, values in self._lines:
            cells = [form.format(values[key]) if values.get(key) is not None else "" for key, _, form in heads]
            table.add_row(label, *cells)
        return table

    def note(self, text: str) -> None:
        """A line that stays."""
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)
        else:
            self.stream.write(text + "\n")
            self.stream.flush()

    def close(self) -> None:
        """Leave the last table on the screen."""
        if self._live is not None:
            self._live.stop()
            self._live = None
