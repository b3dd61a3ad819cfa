"""Draws the learning study: success against CPU time and against episodes, means with 95 % intervals over runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from scipy import stats

matplotlib.rcParams["svg.hashsalt"] = "agentgym"  # the same file for the same numbers

POINTS = 25


def draw(result: dict[str, Any], path: Path) -> None:
    """Two panels, one line a method; dashed where the method reads milestones of the environment."""
    methods = sorted(result["methods"].items(), key=lambda item: -item[1]["success"])
    figure = Figure(figsize=(13, 5), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.subplots(1, 2, sharey=True)
    colours = matplotlib.colormaps["tab20"]
    for axis, key, label in zip(axes, ("cpu", "episodes"), ("CPU seconds of RL", "episodes"), strict=True):
        for number, (name, method) in enumerate(methods):
            grid, mean, half = _band([run["curve"] for run in method["runs"]], key)
            style = "--" if method["oracle"] else "-"
            text = f"{name}{' (oracle)' if method['oracle'] else ''} {method['success']:.2f}"
            axis.plot(grid, mean, style, color=colours(number), label=text)
            axis.fill_between(grid, mean - half, mean + half, color=colours(number), alpha=0.08, linewidth=0)
        axis.set_xlabel(label)
        axis.grid(alpha=0.25)
        axis.set_ylim(0, 1)
    axes[0].set_ylabel("success on 64 validation tasks")
    axes[0].legend(fontsize=8, title="final, on 128 test tasks", title_fontsize=8)
    figure.suptitle("Quest, 4 chests in 6 rooms, one reward at the end; mean and 95 % interval over runs")
    figure.savefig(path, metadata={"Date": None})


def _band(curves: list[list[dict[str, float]]], key: str) -> tuple[Any, Any, Any]:
    """A grid up to where every run has come, the mean of the runs there, and half the interval."""
    grid = np.linspace(0, min(curve[-1][key] for curve in curves), POINTS)
    values = np.array([np.interp(grid, [p[key] for p in c], [p["success"] for p in c]) for c in curves])
    if len(values) < 2:
        return grid, values[0], np.zeros(POINTS)
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(axis=0, ddof=1) / len(values) ** 0.5
    return grid, values.mean(axis=0), half
