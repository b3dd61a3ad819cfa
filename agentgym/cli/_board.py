"""``agentgym eval BOARD``: from the command line to a finished entry."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentgym.cli._progress import Progress
from agentgym.cli.common import nearest_recipe_file, shown
from agentgym.errors import ConfigError, nearest

if TYPE_CHECKING:
    from agentgym.cli._pipeline import PromptNotes
    from agentgym.config.recipe import Recipe
    from agentgym.leaderboards.board import Board
    from agentgym.leaderboards.entry import Entry, ModelIdentity, Training
    from agentgym.leaderboards.limits import Budget
    from agentgym.leaderboards.run import Chosen, Job, Player

#: options of ``agentgym eval`` that a board fixes
FIXED = (
    "split", "limit", "attempts", "temperature", "layout", "history", "admissible", "max_turns", "env_options",
    "task_options",
)  # fmt: skip


@dataclass(slots=True)
class Request:
    """What the command line asks for."""

    board: str
    model: str
    model_options: dict[str, Any]
    out: Path | None
    seed: int
    concurrency: int
    label: str
    overrides: tuple[str, ...]
    budget: Budget
    engine: str
    engine_options: dict[str, Any]


def chosen_board(what: str, given: dict[str, Any]) -> str | None:
    """The board that ``what`` names; None where it is an environment or a recipe.

    A name that is both a board's and an environment's is the board, unless an option is given that a board fixes.
    """
    from agentgym.leaderboards.catalogue import board_names, is_board_file
    from agentgym.registry import BUILT_IN

    if is_board_file(what):
        return what
    if what not in board_names():
        return None
    fixed = [name for name in FIXED if given.get(name) not in (None, ())]
    if what in BUILT_IN and fixed:
        click.echo(f"{what} is measured as an environment: the board {what} fixes {_option(fixed[0])}", err=True)
        return None
    return what


def check_fixed(board: str, given: dict[str, Any]) -> None:
    """ConfigError where an option is given that the board fixes."""
    fixed = [name for name in FIXED if given.get(name) not in (None, ())]
    if fixed:
        raise ConfigError(
            f"the board {board!r} fixes {', '.join(map(_option, fixed))}. To measure under other conditions make a "
            f"board of your own: agentgym boards {board} > mine.yaml, change it, agentgym leaderboard freeze mine.yaml"
        )


def run_board(request: Request, notes: Callable[[Path], PromptNotes | None], as_json: bool) -> int:
    """Measure and print; the exit code. ``notes(folder)`` makes the notes in prompts, if there are any."""
    from agentgym.leaderboards.catalogue import load_board, load_panel, load_tasks
    from agentgym.leaderboards.run import ENTRY, Job, Stopped, run

    board = load_board(request.board)
    if board.kind != "eval":
        raise ConfigError(f"the board {board.name!r} ranks credit methods: python benchmarks/credit/bench.py fills it")
    panel = load_panel(board, request.board)
    tasks = load_tasks(board, panel)
    identity, player = _player(request, board)
    out = request.out or default_folder(board, identity, request.seed)
    added = notes(out)
    job = Job(
        board, panel, tasks, identity, request.seed, request.concurrency, choices(board, request),
        added.pipeline if added is not None else None, added.facts if added is not None else None,
        training(request.model), request.budget, Progress(),
    )  # fmt: skip
    try:
        entry = run(job, player, out)
    except Stopped as stopped:
        raise Stopped(shown(str(stopped))) from stopped
    except KeyboardInterrupt:
        click.echo(f"what was played so far is in {out}; the same command goes on from there", err=True)
        raise
    finally:
        if added is not None:
            added.close()
    _print(entry, board, job, out / ENTRY, as_json)
    return int(entry.errors == entry.tasks * entry.attempts)


def _player(request: Request, board: Board) -> tuple[ModelIdentity, Player]:
    from agentgym.leaderboards.identity import identify
    from agentgym.leaderboards.run import LocalPlayer
    from agentgym.policies import load_policy

    if request.engine == "ray":
        from agentgym.leaderboards.cluster import RayPlayer

        identity = identify(request.model, request.model_options, request.label)
        return identity, RayPlayer(request.model, request.model_options, **request.engine_options)
    if Path(request.model).is_dir():  # nothing is downloaded: no progress bar
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    policy = load_policy(request.model, **request.model_options)
    return identify(request.model, request.model_options, request.label), LocalPlayer(policy)


def default_folder(board: Board, model: ModelIdentity, seed: int) -> Path:
    """``runs/eval/BOARD/MODEL``, with the first digits of the weights' hash and a seed that is not 0."""
    from agentgym.leaderboards.identity import file_name

    tail = f"-{model.hash[:8]}" if model.hash else ""
    return Path("runs") / "eval" / board.name / f"{file_name(model.label)}{tail}{f'-seed{seed}' if seed else ''}"


def choices(board: Board, request: Request) -> Chosen:
    """What the entry chooses where the board allows it: as the checkpoint was trained, then what ``--set`` says."""
    from agentgym.config.loader import load_recipe

    recipe = None
    trained = nearest_recipe_file(request.model)
    if trained is not None:
        recipe = load_recipe(str(trained))
        if recipe.env.name != board.environment:
            recipe = None
    data: dict[str, Any] = {}
    if recipe is not None and board.choices:
        data = _of_recipe(recipe, board)
        click.echo(f"{', '.join(board.choices)} as in {trained}", err=True)
        _warn(recipe, board)
    for override in request.overrides:
        key, equals, text = override.partition("=")
        if not equals or not any(key == name or key.startswith(f"{name}.") for name in board.choices):
            close = nearest(key, board.choices)
            raise ConfigError(
                f"--set {override!r}: the board {board.name!r} lets an entry choose "
                f"{', '.join(board.choices) or 'nothing'}{f'. Did you mean {close[0]!r}?' if close else ''}"
            )
        data[key] = text
    return _chosen(board, data)


def _of_recipe(recipe: Recipe, board: Board) -> dict[str, Any]:
    known = {
        "prompt.rewrite": recipe.prompt.rewrite, "prompt.system": recipe.prompt.system, "format": recipe.format,
        "limits.max_response_tokens": recipe.limits.max_response_tokens,
    }  # fmt: skip
    return {name: known[name] for name in board.choices}


def _warn(recipe: Recipe, board: Board) -> None:
    """Say where the board's prompts differ from those that the checkpoint was trained with."""
    for name in ("layout", "show_admissible", "history"):
        if name == "history" and board.prompt.layout == "chat":
            continue
        mine, theirs = getattr(recipe.prompt, name), getattr(board.prompt, name)
        if mine != theirs:
            click.echo(f"the board has prompt.{name} {theirs}, the checkpoint was trained with {mine}", err=True)


def _chosen(board: Board, data: dict[str, Any]) -> Chosen:
    from pydantic import ValidationError

    from agentgym.config import strict_yaml
    from agentgym.config.sections import FormatSection, PromptSection
    from agentgym.leaderboards.run import Chosen

    prompt, form, tokens = board.prompt.model_dump(), board.format.model_dump(), board.limits.max_response_tokens
    for key, value in data.items():
        found = strict_yaml.value(value, f"--set {key}") if isinstance(value, str) and key != "prompt.system" else value
        if key.startswith("prompt."):
            prompt[key.removeprefix("prompt.")] = found
        elif key == "format":
            form = found.model_dump() if isinstance(found, FormatSection) else found
        elif key.startswith("format."):
            form[key.removeprefix("format.")] = found
        else:
            if not isinstance(found, int) or found < 1:
                raise ConfigError(f"--set {key}: expected a number of tokens >= 1, got {found!r}")
            tokens = min(found, tokens)
    try:
        layout = PromptSection.model_validate(prompt, strict=True).build()
        return Chosen(layout, FormatSection.model_validate(form, strict=True).build(), tokens)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"--set {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def training(model: str) -> Training | None:
    """Where a checkpoint comes from: its run's recipe and the curves of its metrics file; None for other models."""
    import json

    from agentgym.config.loader import load_recipe
    from agentgym.leaderboards.entry import Training
    from agentgym.types import content_hash

    trained = nearest_recipe_file(model)
    metrics = trained.parent / "metrics.jsonl" if trained is not None else None
    if trained is None or metrics is None or not metrics.is_file():
        return None
    recipe = load_recipe(str(trained))
    curves: dict[str, list[tuple[float, float]]] = {}
    steps = 0
    for line in metrics.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue  # the torn last line of a run that was killed
        if row.get("phase") == "rl":
            steps = max(steps, int(row["step"]))
            for key in ("eval/success", "eval/outcome", "train/success"):
                if isinstance(row.get(key), int | float):
                    curves.setdefault(key, []).append((float(row["step"]), round(float(row[key]), 6)))
    return Training(
        recipe=recipe.name, recipe_hash=content_hash(recipe.model_dump(mode="json")), steps=steps, curves=curves
    )


def _print(entry: Entry, board: Board, job: Job, path: Path, as_json: bool) -> None:
    if as_json:
        click.echo(entry.to_json(), nl=False)
    else:
        from rich.console import Console

        from agentgym.leaderboards.tables import entry_table

        Console().print(entry_table(entry, board))
        cost = entry.cost
        money = f", {cost.money:.4f} in money" if cost.money else ""
        click.echo(f"{cost.prompt_tokens} prompt tokens, {cost.sampled_tokens} sampled tokens{money}")
        click.echo(f"wrote {path}; to a leaderboard: agentgym leaderboard add {path.parent}")
    for message in entry.error_messages:
        click.echo(f"error: {shown(message)}", err=True)
    if entry.errors:
        click.echo(
            f"agentgym: {entry.errors} of {entry.tasks * entry.attempts} episodes ended with an error; they count as "
            "unsolved. The same command plays them again",
            err=True,
        )


def _option(name: str) -> str:
    return {"env_options": "--env-option", "task_options": "--task-option"}.get(name, "--" + name.replace("_", "-"))
