"""The curves of a run as inline SVG that follows the page's text colour, light or dark."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from agentgym.report.run import series
from agentgym.web.text import visible

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

Metrics = list[dict[str, Any]]
INK = "#010203"  # stands for the page's text colour until the SVG is written
COLOURS = ("#2f7ed8", "#e0761f", "#2a9d62", "#c44569", "#8a63d2", "#8a8d91")  # readable on white and on near-black


@dataclass(frozen=True, slots=True)
class FigureView:
    """One plot. ``svg`` is None where the run recorded none of its metrics."""

    title: str
    note: str
    svg: Markup | None


def figures(metrics: Metrics) -> list[FigureView]:
    """All curves, in the order shown."""
    lines: list[tuple[str, str, str, Mapping[str, str]]] = [
        ("Train outcome", "mean outcome of the training episodes", "rl", {"train/outcome": "outcome"}),
        ("Warm-start loss", "per sampled token", "sft", {"sft/loss": "loss"}),
        ("Loss", "policy-gradient loss and its parts", "rl", {"loss/total": "total", "loss/policy": "policy"}),
        (
            "KL",
            "k3 estimate per token, to the reference and to the sampling policy",
            "rl",
            {"loss/kl": "to reference", "ratio/kl_old": "to sampler"},
        ),
        (
            "Gap between sampler and trainer",
            "largest difference of a token's log-probability; 0: both agree",
            "rl",
            {"gap/logprob_max": "gap"},
        ),
        ("Entropy", "of the next-token distribution", "rl", {"loss/entropy": "entropy"}),
        ("Gradient norm", "before clipping", "rl", {"grad_norm": "norm"}),
        ("Dead groups", "share of groups without contrast", "rl", {"credit/dead_groups": "dead"}),
        ("Turns", "per episode", "rl", {"train/turns": "train", "eval/turns": "panel"}),
        (
            "Invalid and refused",
            "share of turns",
            "rl",
            {"train/invalid_rate": "invalid", "train/refused_rate": "refused", "eval/invalid_rate": "invalid, panel"},
        ),
    ]
    out = [_figure("Success", "on the panel, with 95 % intervals, and in training", metrics, _success)]
    out += [
        _figure(title, note, metrics, partial(_lines, phase=phase, keys=keys)) for title, note, phase, keys in lines
    ]
    out.append(_figure("Sampled tokens", "per training episode", metrics, _tokens))
    out.append(_figure("Reward components", "mean sum per episode; each apart", metrics, _components))
    out.append(_figure("Seconds", "of each step, by activity", metrics, _seconds))
    return out


def _lines(ax: Axes, metrics: Metrics, phase: str, keys: Mapping[str, str]) -> bool:
    drawn = 0
    for key, label in keys.items():
        x, y = series(metrics, key, phase)
        if x:
            ax.plot(x, y, color=COLOURS[drawn % len(COLOURS)], label=label, linewidth=1.5, marker=_marker(x))
            drawn += 1
    return drawn > 0


def _success(ax: Axes, metrics: Metrics) -> bool:
    x, y = series(metrics, "eval/success")
    if x:
        _, lows = series(metrics, "eval/success_low")
        _, highs = series(metrics, "eval/success_high")
        if len(lows) == len(highs) == len(x):
            ax.fill_between(x, lows, highs, color=COLOURS[0], alpha=0.2, linewidth=0)
        ax.plot(x, y, color=COLOURS[0], label="panel", linewidth=1.8, marker="o", markersize=3.5)
    tx, ty = series(metrics, "train/success")
    if tx:
        ax.plot(tx, ty, color=COLOURS[5], label="train", linewidth=1)
    ax.set_ylim(0, 1.02)
    return bool(x or tx)


def _tokens(ax: Axes, metrics: Metrics) -> bool:
    x, tokens = series(metrics, "train/sampled_tokens")
    counts = dict(zip(*series(metrics, "train/episodes"), strict=True))
    points = [(step, total / counts[step]) for step, total in zip(x, tokens, strict=True) if counts.get(step)]
    if points:
        ax.plot(*zip(*points, strict=True), color=COLOURS[0], label="tokens", linewidth=1.5, marker=_marker(points))
    return bool(points)


def _components(ax: Axes, metrics: Metrics) -> bool:
    pattern = re.compile(r"credit/(.+)/mean")
    found = sorted({match[1] for line in metrics for key in line if (match := pattern.fullmatch(key))})
    return _lines(ax, metrics, "rl", {f"credit/{name}/mean": visible(name) for name in found})


def _seconds(ax: Axes, metrics: Metrics) -> bool:
    activities = ("rollout", "credit", "update", "eval")
    columns = {name: dict(zip(*series(metrics, f"time/{name}"), strict=True)) for name in activities}
    columns = {name: values for name, values in columns.items() if values}
    steps = sorted({step for values in columns.values() for step in values})
    if not steps:
        return False
    stacks = [[values.get(step, 0.0) for step in steps] for values in columns.values()]
    ax.stackplot(steps, stacks, labels=list(columns), colors=COLOURS, alpha=0.85, step="mid")
    return True


def _marker(points: list[Any]) -> str:
    return "o" if len(points) == 1 else ""


def _figure(title: str, note: str, metrics: Metrics, draw: Callable[[Axes, Metrics], bool]) -> FigureView:
    """Draw one plot without pyplot, so that no global state or display is touched."""
    import matplotlib
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "svg.fonttype": "none", "text.parse_math": False, "svg.hashsalt": title,
        "font.size": 9, "font.family": "sans-serif",
        "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK,
    }  # fmt: skip
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(4.6, 2.7))
        ax = figure.add_axes((0.11, 0.165, 0.87, 0.80))  # fixed: a layout engine would double the time
        if not draw(ax, metrics):
            return FigureView(title, note, None)
        ax.set_xlabel("step")
        ax.ticklabel_format(axis="y", scilimits=(-3, 5))
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(True, color=COLOURS[5], alpha=0.25, linewidth=0.5)
        if len(ax.get_legend_handles_labels()[1]) > 1:
            ax.legend(frameon=False, fontsize=8)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return FigureView(title, note, inline_svg(text.getvalue(), title))


def inline_svg(svg: str, title: str) -> Markup:
    """Matplotlib's SVG as a part of an HTML page: no prologue, metadata or namespace addresses; ids of its own."""
    from markupsafe import Markup, escape

    slug = re.sub(r"\W+", "-", title.lower())
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", body)
    body = re.sub(r'\bid="', f'id="{slug}-', body)
    body = body.replace("url(#", f"url(#{slug}-").replace('xlink:href="#', f'href="#{slug}-')
    body = body.replace(INK, "currentColor")
    return Markup(body.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1))
