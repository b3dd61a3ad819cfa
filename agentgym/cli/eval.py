"""``agentgym eval``: a policy on a panel of tasks, every number with its interval."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentgym.cli._board import Request, check_fixed, chosen_board, run_board
from agentgym.cli._eval_recipe import changed, eval_recipe, judged
from agentgym.cli.common import (
    completing,
    default_tasks,
    json_option,
    nearest_recipe_file,
    options,
    pairs,
    print_json,
    shown,
)
from agentgym.cli.train import check_names
from agentgym.errors import ConfigError

if TYPE_CHECKING:
    from agentgym.cli._pipeline import PromptNotes
    from agentgym.config.recipe import Recipe
    from agentgym.evaluation import Report
    from agentgym.types import TaskSet

_settings = options(
    click.option("--split", help="Split of the environment."),
    click.option("--limit", type=click.IntRange(1), help="At most so many tasks."),
    click.option("--attempts", type=click.IntRange(1), help="Episodes for each task."),
    click.option("--seed", type=click.IntRange(0), help="Seed of the sampling."),
    click.option("--temperature", type=click.FloatRange(0), help="0 is greedy."),
    click.option("--layout", type=click.Choice(["chat", "window"]), help="How turns become a prompt."),
    click.option("--history", type=click.IntRange(0), help="Earlier turns that a window shows."),
    click.option("--admissible/--no-admissible", default=None, help="Show the admissible actions."),
    click.option("--max-turns", type=click.IntRange(1), help="Turn limit."),
    click.option("--concurrency", type=click.IntRange(1), help="Episodes in flight."),
    click.option("--judge-url", metavar="URL", help="Endpoint of the judge that notes ask."),
    click.option("--judge-model", metavar="NAME", help="The judge's model."),
)

_board_settings = options(
    click.option("--label", default="", help="Board: what its table calls the model."),
    click.option("--max-tokens", type=click.IntRange(1), help="Board: stop after so many tokens, prompts included."),
    click.option("--max-seconds", type=click.FloatRange(0, min_open=True), help="Board: stop after so long."),
    click.option("--max-cost", type=click.FloatRange(0, min_open=True), help="Board: stop at this cost."),
    click.option("--price-in", type=click.FloatRange(0), help="Board: price of a million prompt tokens."),
    click.option("--price-out", type=click.FloatRange(0), help="Board: price of a million sampled tokens."),
    click.option("--engine", type=click.Choice(["local", "ray"]), default="local", help="Board: who plays."),
    click.option("--engine-option", "engine_options", multiple=True, metavar="KEY=VALUE", help="Option of the engine."),
)
_ONLY_BOARDS = (
    "label", "max_tokens", "max_seconds", "max_cost", "price_in", "price_out", "engine", "engine_options",
)  # fmt: skip


@click.command(short_help="Measure a policy on a board or an environment, with intervals.")
@click.argument("what", metavar="BOARD_OR_ENV_OR_RECIPE", shell_complete=completing("board", "env", "recipe"))
@click.option("--model", required=True, help="Checkpoint folder, hub name, endpoint URL, random, expert or noop.")
@_settings
@click.option("--env-option", "env_options", multiple=True, metavar="KEY=VALUE", help="Option of the environment.")
@click.option("--task-option", "task_options", multiple=True, metavar="KEY=VALUE", help="Option of the split.")
@click.option("--model-option", "model_options", multiple=True, metavar="KEY=VALUE", help="Option of the policy.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Any other value of the recipe.")
@click.option(
    "--note",
    "notes",
    multiple=True,
    metavar="PART",
    help="Credit part that adds to prompts, as in a recipe: '{subgoal_hint: {source: judge}}'. Of several, "
    "the first that has something for a turn.",
)
@click.option("--no-notes", is_flag=True, help="Leave out the notes that the checkpoint was trained with.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the result and the episodes.")
@_board_settings
@json_option
def evaluate(
    what: str,
    model: str,
    env_options: tuple[str, ...],
    task_options: tuple[str, ...],
    model_options: tuple[str, ...],
    overrides: tuple[str, ...],
    notes: tuple[str, ...],
    no_notes: bool,
    out: Path | None,
    as_json: bool,
    **settings: Any,
) -> int:
    """Let MODEL attempt the tasks of a board, of an environment, or of a recipe's test set.

    A board fixes everything but the model; its episodes and entry.json go to --out (default: runs/eval/BOARD/MODEL),
    and the same command goes on where it was stopped. 'agentgym boards' lists them.

    Prompt layout, action format and limits are those of the recipe; for a checkpoint of a run, those it was trained
    with, and so are the notes that its credit parts put into prompts (lessons, subgoals), as they were then. An
    environment's errors count as failures and are shown; where no episode could be played the exit code is 1.
    """
    given = {**settings, "env_options": env_options, "task_options": task_options}
    board = chosen_board(what, given)
    if board is not None:
        check_fixed(board, given)
        request = _request(board, model, model_options, overrides, out, settings)
        recipe = judged(settings)
        return run_board(request, lambda folder: _notes(notes, no_notes, recipe, model, folder), as_json)
    for name in _ONLY_BOARDS:
        if settings.pop(name) not in (None, "", (), "local"):
            raise ConfigError(f"--{name.replace('_', '-').rstrip('s')} is for boards; {what!r} is none")
    recipe = eval_recipe(what, model)
    recipe = changed(recipe, settings, env_options, task_options, overrides)
    check_names(recipe, ("test",))
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} exists and is not an empty folder; choose another --out")
    added = _notes(notes, no_notes, recipe, model, out)
    if settings["judge_url"] and (added is None or added.judge is None):
        click.echo("no note asks a judge: --judge-url is not used", err=True)
    try:
        report, data = _measure(recipe, model, _options(recipe, model, model_options), out, added)
    finally:
        if added is not None:
            added.close()
    if as_json:
        print_json(data)
    else:
        from rich.console import Console

        Console().print(report.table())
    return _errors(report)


def _request(
    board: str,
    model: str,
    model_options: tuple[str, ...],
    overrides: tuple[str, ...],
    out: Path | None,
    settings: dict[str, Any],
) -> Request:
    from agentgym.leaderboards.limits import Budget

    made = pairs(model_options, "--model-option")
    made |= {name: settings[name] for name in ("price_in", "price_out") if settings[name] is not None}
    if settings["max_cost"] is not None and not (made.get("price_in") or made.get("price_out")):
        raise ConfigError("--max-cost needs the prices: --price-in and --price-out, per million tokens")
    budget = Budget(settings["max_tokens"], settings["max_cost"], settings["max_seconds"])
    return Request(
        board, model, made, out, settings["seed"] or 0, settings["concurrency"] or 64, settings["label"], overrides,
        budget, settings["engine"], pairs(settings["engine_options"], "--engine-option"),
    )  # fmt: skip


def _errors(report: Report) -> int:
    """Say which errors there were; the exit code, which is 1 where no episode at all could be played."""
    for message in report.error_messages:
        click.echo(f"error: {shown(message)}", err=True)
    if report.errors:
        counted = f"{report.errors} of {report.episodes} episodes ended with an error"
        click.echo(f"agentgym: {counted}; they count as unsolved", err=True)
    return int(report.errors == report.episodes)


def _notes(notes: tuple[str, ...], no_notes: bool, recipe: Recipe, model: str, out: Path | None) -> PromptNotes | None:
    """Those asked for, else those that the checkpoint was trained with."""
    from agentgym.cli._pipeline import chosen_notes, trained_notes

    if notes and no_notes:
        raise ConfigError("--note and --no-notes exclude each other")
    if no_notes:
        return None
    found = chosen_notes(notes, recipe.judge, out) if notes else trained_notes(model, recipe.judge, out)
    if found is not None:
        click.echo(shown(str(found)), err=True)
    return found


def _measure(
    recipe: Recipe, model: str, model_options: dict[str, Any], out: Path | None, notes: PromptNotes | None
) -> tuple[Report, dict[str, Any]]:
    """Play the test panel; the report, and its record. With ``out``, keep report.json, recipe.yaml and the episodes."""
    from agentgym.config.loader import save_recipe
    from agentgym.evaluation import evaluate as measure
    from agentgym.policies import load_policy
    from agentgym.store import EpisodeStore

    tasks = _panel(recipe)
    if Path(model).is_dir():  # nothing is downloaded: no progress bar
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    policy = load_policy(model, **model_options)
    store = None
    if out is not None:
        save_recipe(recipe, out / "recipe.yaml")
        store = EpisodeStore(out / "episodes.agym")
    try:
        report = measure(
            recipe.env.name,
            policy,
            tasks,
            attempts=recipe.eval.attempts,
            seed=recipe.seed,
            config=recipe.rollout_config(recipe.eval_sampling(), augmenter=notes.pipeline if notes else None),
            env_options=recipe.env.options,
            store=store,
        )
    except KeyboardInterrupt:
        kept = f" What was played so far is in {store.path}; choose another --out." if store is not None else ""
        click.echo(f"An evaluation has no --resume: run it again.{kept}", err=True)
        raise
    finally:
        if store is not None:
            store.close()
    data = _record(report, notes)
    if out is not None:
        text = json.dumps(data, indent=2, ensure_ascii=False)
        (out / "report.json").write_text(text + "\n", encoding="utf-8")
    return report, data


def _panel(recipe: Recipe) -> TaskSet:
    from agentgym.registry import make

    source = recipe.env.test
    world = make(recipe.env.name, **recipe.env.options)
    tasks = default_tasks(world, source.split, source.options)[: source.limit]
    world.close()
    return tasks


def _record(report: Report, notes: PromptNotes | None) -> dict[str, Any]:
    """The result record: ``setup.notes`` says which notes prompts got, ``notes`` what came of it."""
    if notes is None:
        return report.to_dict()
    report.setup["notes"] = notes.facts
    figures = notes.figures(report)
    failed = figures.get("judge_failed_turns", 0)
    tail = f"; {failed} went without because the judge failed" if failed else ""
    click.echo(f"{figures['turns_with_note']} of {figures['turns']} turns had a note{tail}", err=True)
    return report.to_dict() | {"notes": figures}


def _options(recipe: Recipe, model: str, given: tuple[str, ...]) -> dict[str, Any]:
    """The policy's options; a checkpoint that was trained among admissible actions draws among them again."""
    found = pairs(given, "--model-option")
    trained = nearest_recipe_file(model)
    if recipe.model.constrain and trained is not None and not {"constrain", "choice"} & found.keys():
        found["constrain"] = True
    return found
