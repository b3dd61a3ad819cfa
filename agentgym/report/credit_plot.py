"""A plot of what credit says about episodes: components as lines, the advantage as bars, one panel an episode."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentgym.errors import ConfigError

SUFFIXES = (".svg", ".png", ".pdf")
ACTION = 28  # characters of an action on the axis


def draw(episodes: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw episodes in the form of :meth:`agentgym.credit.explain.EpisodeCredit.to_dict`. Raises ConfigError."""
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"plot file {path}: the name must end with {', '.join(SUFFIXES)}")
    if not episodes:
        raise ConfigError("there is no episode to draw")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 2.9 * len(episodes)), layout="constrained")
    FigureCanvasAgg(figure)
    for axis, episode in zip(figure.subplots(len(episodes), 1, squeeze=False)[:, 0], episodes, strict=True):
        _panel(axis, episode)
    try:
        figure.savefig(path)
    except OSError as error:
        raise ConfigError(f"plot file {path}: {error.strerror or error}") from error


def _panel(axis: Any, episode: dict[str, Any]) -> None:
    turns = episode["turns"]
    at = [turn["turn"] for turn in turns]
    axis.bar(at, [turn["advantage"] for turn in turns], color="#b8c4d6", width=0.8, label="advantage")
    names = sorted({name for turn in turns for name in turn["components"]} - {"env"})
    for name in names:
        axis.plot(at, [turn["components"].get(name, 0.0) for turn in turns], marker="o", markersize=3, label=name)
    axis.axhline(0, color="#666", linewidth=0.6)
    refused = [turn["turn"] for turn in turns if not turn["grounded"]]
    axis.plot(refused, [0.0] * len(refused), "x", color="#a00", label="refused")
    axis.set_xticks(at, [_label(turn["action"]) for turn in turns], rotation=45, ha="right", fontsize=7)
    solved = "solved" if episode["success"] else f"failed, {episode['termination']}"
    axis.set_title(_plain(f"{episode['task']}, episode {episode['episode']}: {solved}"), fontsize=9)
    axis.legend(fontsize=7, ncols=4)


def _label(action: str | None) -> str:
    text = _plain(action if action is not None else "(none)")
    return text if len(text) <= ACTION else f"{text[: ACTION - 1]}…"


def _plain(text: str) -> str:
    """No control characters, and nothing that matplotlib would read as mathematics."""
    return "".join(c if c.isprintable() else " " for c in text).replace("$", r"\$")
