"""``agentgym credit``: which credit modules there are, and what they say about recorded episodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentgym.cli.common import json_option, print_json, print_table, shown
from agentgym.cli.view import store_file
from agentgym.errors import ConfigError

if TYPE_CHECKING:
    from agentgym.credit import CreditPipeline
    from agentgym.credit.explain import EpisodeCredit
    from agentgym.credit.protocols import Services
    from agentgym.types import Group

WIDTH = 21  # of the bar column; odd, so that zero has a place


@click.group(short_help="List credit modules; explain the credit of recorded episodes.")
def credit() -> None:
    """Credit assignment: from one late outcome to a reward for every turn."""


@credit.command("list", short_help="List credit modules and estimators.")
@json_option
def list_(as_json: bool) -> None:
    """List the credit modules (recipe key 'credit') and the advantage estimators ('estimator')."""
    from agentgym.credit.registry import catalogue

    found = catalogue()
    if as_json:
        print_json(found)
        return
    for kind, title in (("module", "credit modules (credit: [...])"), ("estimator", "estimators (estimator: ...)")):
        click.echo(f"{title}\n")
        rows = [(e["name"], ", ".join(e["needs"]) or "-", e["what"]) for e in found if e["kind"] == kind]
        print_table(rows, ("name", "needs", "what it is"))
        click.echo()


@credit.command(short_help="Show every turn's components and advantage.")
@click.argument("episodes", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--module", "modules", multiple=True, metavar="MODULE", help="As in a recipe: spa, or '{spa: {alpha: 2}}'."
)
@click.option(
    "--estimator", default="", metavar="NAME", help="As in a recipe: gigpo, or '{name: gigpo, options: {...}}'."
)
@click.option("--task", help="Only the group of the task with this name or id.")
@click.option("--limit", type=click.IntRange(1), default=8, show_default=True, help="Show so many episodes.")
@click.option(
    "--model", type=click.Path(exists=True, path_type=Path), help="Checkpoint for modules that need a policy."
)
@click.option("--judge-url", help="Endpoint for modules that need a judge.")
@click.option("--judge-model", default="", help="The judge's model.")
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw the shown episodes to an SVG or PNG."
)
@json_option
def explain(
    episodes: Path, modules: tuple[str, ...], estimator: str, task: str | None, limit: int, model: Path | None,
    judge_url: str | None, judge_model: str, plot: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Assign credit to the episodes stored at EPISODES and show it turn by turn.

    Without --module and --estimator those of the run that the episodes belong to are taken, with what they had learnt
    by its last checkpoint. Modules that learn and have learnt nothing are fitted on the episodes themselves.
    """
    from agentgym.credit.explain import explain as explained
    from agentgym.credit.explain import group
    from agentgym.store import EpisodeStore

    path = store_file(episodes)
    with EpisodeStore(path) as store:
        groups = group(store)
    if not groups:
        raise ConfigError(f"{path} holds no episodes")
    services = make_services(model, judge_url, judge_model)
    pipeline, fitted = make_pipeline(path, modules, estimator, services)
    rows, result = explained(groups, pipeline, fit=not fitted)
    chosen = _chosen(rows, groups, task)
    if plot is not None:
        from agentgym.report.credit_plot import draw

        draw([row.to_dict() for row in chosen[:limit]], plot)
    if as_json:
        print_json({"metrics": result.metrics, "episodes": [row.to_dict() for row in chosen[:limit]]})
        return
    for row in chosen[:limit]:
        _table(row, pipeline)
    if len(chosen) > limit:
        click.echo(f"{len(chosen) - limit} more episodes; see --limit and --task")
    _closing(result.metrics, plot)


def make_pipeline(
    path: Path, modules: tuple[str, ...], estimator: str, services: Services
) -> tuple[CreditPipeline, bool]:
    """The pipeline asked for, or the run's own with its state; and whether it has learnt already."""
    from agentgym.cli._pipeline import run_pipeline
    from agentgym.cli.common import nearest_recipe_file
    from agentgym.config import strict_yaml
    from agentgym.credit import CreditPipeline

    if not modules and not estimator:
        recipe_file = nearest_recipe_file(str(path.parent))
        if recipe_file is None:
            raise ConfigError(f"{path} belongs to no run; name a --module, an --estimator or both")
        return run_pipeline(recipe_file, services)
    specs = [strict_yaml.value(text, f"--module {text!r}") for text in modules]
    chosen = strict_yaml.value(estimator or "grpo", f"--estimator {estimator!r}")
    section = {"name": chosen} if isinstance(chosen, str) else chosen
    if not isinstance(section, dict) or not {"name"} <= set(section) <= {"name", "options"}:
        raise ConfigError(f"--estimator {estimator!r}: expected a name, or {{name: ..., options: {{...}}}}")
    return CreditPipeline(specs, section["name"], section.get("options"), services=services), False


def make_services(model: Path | None, judge_url: str | None, judge_model: str) -> Services:
    """What the options offer to credit modules."""
    from agentgym.credit.protocols import Services

    offered: dict[str, Any] = {}
    if judge_url:
        from agentgym.judge import Judge

        offered["judge"] = Judge(judge_url, model=judge_model)
    if model is not None:
        from agentgym.policies import load_policy
        from agentgym.policies.scorers import HFFeatures, HFScorer

        policy: Any = load_policy(str(model))
        offered |= {"scorer": HFScorer(policy.model, policy.tokenizer), "features": HFFeatures(policy.model)}
    return Services(offered)


def _chosen(rows: list[EpisodeCredit], groups: list[Group], task: str | None) -> list[EpisodeCredit]:
    if task is None:
        return rows
    from agentgym.types import TaskSet

    found = TaskSet((some.task for some in groups), "these episodes").find(task)
    return [row for row in rows if row.episode.task.id == found.id]


def _table(row: EpisodeCredit, pipeline: CreditPipeline) -> None:
    episode = row.episode
    mark = "solved" if episode.success else "failed"
    click.echo(f"{shown(episode.task.name)}, episode {episode.index}: {mark}, {episode.termination.value}, ", nl=False)
    click.echo(f"outcome {episode.outcome:g}")
    names = sorted({name for turn in row.turns for name in turn.components} - {"env"})
    largest = max((abs(turn.advantage) for turn in row.turns), default=0.0)
    lines = [
        (
            str(turn.turn), *(f"{turn.components.get(name, 0.0):+.3f}" for name in names), f"{turn.advantage:+.3f}",
            _bar(turn.advantage, largest), _action(turn.action, turn.valid, turn.grounded),
        )
        for turn in row.turns
    ]  # fmt: skip
    paid = [f"{name}*" if name in pipeline.paid else name for name in names]
    print_table(lines, ("turn", *paid, "advantage", "", "action"))
    click.echo()


def _action(action: str | None, valid: bool, grounded: bool) -> str:
    text = " ".join(shown(action).split())[:60] if action is not None else "(none)"
    return text + ("" if valid else "  [invalid]") + ("" if grounded else "  [refused]")


def _bar(value: float, largest: float) -> str:
    """The advantage as a bar left or right of the middle."""
    half = WIDTH // 2
    length = round(half * abs(value) / largest) if largest else 0
    left = "#" * length if value < 0 else ""
    right = "#" * length if value > 0 else ""
    return f"{left:>{half}}|{right:<{half}}"


def _closing(metrics: dict[str, float], plot: Path | None) -> None:
    told = {name.removeprefix("credit/"): value for name, value in metrics.items()}
    for name in sorted(told):
        if "/" in name or name in ("dead_groups", "zero_advantage_turns", "singleton_groups", "dropped_episodes"):
            click.echo(f"{name:40s} {told[name]:.4g}")
    click.echo("* paid: enters the returns; the other components are recorded only")
    if plot is not None:
        click.echo(f"plot: {plot}")
