"""``agentgym train``: resolve a recipe, choose the run folder, train."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentgym.cli.common import completing
from agentgym.errors import ConfigError

if TYPE_CHECKING:
    from agentgym.config.recipe import EnvSection, MixSection, Recipe, TaskSource

LOCK = ".lock"  # in a run folder: held by the process that trains there
#: what the local trainer offers to credit in every run; named here, since to import the trainer is to import torch
TRAINER_SERVICES = ("scorer", "features", "trunk", "policy", "critic")


@click.command(short_help="Train an agent by a recipe.")
@click.argument("recipe", shell_complete=completing("recipe"))
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--output", type=click.Path(path_type=Path), help="Run folder [default: runs/NAME-TIME].")
@click.option("--resume", is_flag=True, help="Go on with the run in --output, or with the newest run of this recipe.")
@click.option("--dry-run", is_flag=True, help="Check and print the resolved recipe; train nothing.")
def train(recipe: str, overrides: tuple[str, ...], output: Path | None, resume: bool, dry_run: bool) -> None:
    """Train by RECIPE: a shipped name ('agentgym recipes'), a YAML file, or a run folder together with --resume.

    Any value of the recipe can be set after it:

        agentgym train alfworld/tiny rl.lr=1e-4 rl.steps=20 seed=1
    """
    from agentgym.config.loader import load_recipe

    given = Path(recipe)
    if (given / "recipe.yaml").is_file():
        if not resume:
            raise ConfigError(f"{recipe} is a run; add --resume to go on with it")
        output = output or given
        recipe = str(given / "recipe.yaml")
    resolved = load_recipe(recipe, overrides)
    check_names(resolved)
    check_credit(resolved)
    if dry_run:
        click.echo(_resolved(resolved, output), nl=False)
        return
    folder = run_folder(resolved, output, resume)
    if resolved.engine == "verl":
        from agentgym.trainers.verl import compat, launch

        compat.require()  # before the run folder is made
        click.echo(f"run folder: {folder}")
        with sole_trainer(folder), disk_errors(folder):
            launch.train(resolved, folder, resume=resume)
        return
    from agentgym.trainers.local.trainer import LocalTrainer

    click.echo(f"run folder: {folder}")
    with sole_trainer(folder), disk_errors(folder):
        LocalTrainer(resolved, folder, resume=resume).run()


def _resolved(recipe: Recipe, output: Path | None) -> str:
    """The recipe as YAML or, for the verl engine, verl's configuration made from it."""
    if recipe.engine == "verl":
        from agentgym.trainers.verl import show

        return show.text(recipe, (output or Path(recipe.output or f"runs/{recipe.name}")).resolve())
    from agentgym.config.loader import recipe_text

    return recipe_text(recipe)


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """A disk that refuses is an OSError, also where safetensors says it in words of its own."""
    try:
        yield
    except Exception as error:
        found = re.search(r"\(os error (\d+)\)", str(error))
        if isinstance(error, OSError) or not found:
            raise
        raise OSError(int(found[1]), os.strerror(int(found[1])), str(folder)) from error


@contextlib.contextmanager
def sole_trainer(folder: Path) -> Iterator[None]:
    """Hold the run folder's lock, which ends with the process; two trainers would tear each other's checkpoints."""
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{folder} is in use: another process trains there. Stop that one first.") from None
        except OSError:
            pass  # a file system without locks
        yield


def check_names(recipe: Recipe, parts: tuple[str, ...] = ("train", "eval", "test", "extra_tests")) -> None:
    """Refuse names that no registry knows before anything is made. ``parts``: the task sources that will be used."""
    sources = {part: getattr(recipe.env, part) for part in ("train", "eval", "test")}
    sources |= {f"extra_tests.{index}": source for index, source in enumerate(recipe.env.extra_tests)}
    _check_environment("env", recipe.env, {k: v for k, v in sources.items() if k.partition(".")[0] in parts})
    for index, mixed in enumerate(recipe.mix if "train" in parts else ()):
        tests = {"test": mixed.test} if mixed.test is not None else {}
        _check_environment(f"mix.{index}", mixed, {"train": mixed.train, **tests})


def _check_environment(where: str, section: EnvSection | MixSection, sources: dict[str, TaskSource]) -> None:
    from agentgym.errors import unknown
    from agentgym.registry import check_options, environment_class

    found = environment_class(section.name)
    check_options(found, section.name, section.options)
    for part, source in sources.items():
        if source.split not in found.spec.splits:
            raise ConfigError(f"{where}.{part}.split: {unknown('split', source.split, found.spec.splits)}")


def check_credit(recipe: Recipe) -> None:
    """Refuse unknown credit modules, estimators and their options, and a judge that is needed but not named."""
    from agentgym.credit import CreditPipeline, Services

    words = (*TRAINER_SERVICES, *(["judge"] if recipe.judge.url is not None else []))
    CreditPipeline.from_recipe(recipe, Services(dict.fromkeys(words)))


def run_folder(recipe: Recipe, output: Path | None, resume: bool) -> Path:
    """The folder of this run. An existing run is never overwritten."""
    chosen = output or (Path(recipe.output) if recipe.output else None)
    if resume:
        return _existing(recipe, chosen)
    folder = chosen or Path("runs") / f"{recipe.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file, expected a folder for the run")
    if folder.is_dir() and any(path.name != LOCK for path in folder.iterdir()):
        raise ConfigError(f"{folder} is not empty. Add --resume to go on with that run, or choose another --output.")
    return folder


def _existing(recipe: Recipe, chosen: Path | None) -> Path:
    if chosen is not None:
        if not (chosen / "recipe.yaml").is_file():
            raise ConfigError(f"{chosen} holds no run to resume (no recipe.yaml)")
        return chosen
    runs = [path.parent for path in Path("runs").glob(f"{recipe.name}-*/recipe.yaml")]
    if not runs:
        raise ConfigError(f"there is no run of {recipe.name!r} under runs/ to resume; name it with --output")
    return max(runs, key=lambda folder: (folder / "recipe.yaml").stat().st_mtime)
