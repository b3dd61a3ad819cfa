"""``agentgym new``: a small package of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentgym.cli.common import json_option, print_json

if TYPE_CHECKING:
    from agentgym.scaffold import Made

_into = click.option(
    "--into", type=click.Path(path_type=Path), default=".", show_default=True, help="Folder to write it in."
)


@click.group(short_help="Write a package with an environment or a credit module of your own.")
def new() -> None:
    """Write a small package that works: one file to edit, its test, a README, an entry point."""


@new.command("env", short_help="A package with an environment.")
@click.argument("name")
@_into
@json_option
def env_(name: str, into: Path, as_json: bool) -> None:
    """Write the package NAME with an environment. Nothing is overwritten."""
    from agentgym.scaffold import create

    made = create("env", name, into)
    if as_json:
        _json(made)
        return
    _files(made)
    click.echo(f"Next: cd {made.folder} && agentgym check {made.path}")
    click.echo(f"Then: pip install -e . makes it known as {made.name!r}; README.md has the rest.")


@new.command("credit", short_help="A package with a credit module.")
@click.argument("name")
@_into
@json_option
def credit_(name: str, into: Path, as_json: bool) -> None:
    """Write the package NAME with a credit module. Nothing is overwritten."""
    from agentgym.credit.registry import ESTIMATORS, REWARDERS
    from agentgym.scaffold import create
    from agentgym.scaffold.make import TAKEN

    TAKEN.update(REWARDERS, ESTIMATORS)
    made = create("credit", name, into)
    if as_json:
        _json(made)
        return
    _files(made)
    click.echo(f"Next: cd {made.folder} && agentgym train quest/k2 'credit=[outcome, {made.path}]' --dry-run")
    click.echo(f"Then: pip install -e . makes it known as {made.name!r}; README.md has the rest.")


def _json(made: Made) -> None:
    print_json({"folder": str(made.folder), "name": made.name, "path": made.path, "files": list(map(str, made.files))})


def _files(made: Made) -> None:
    for path in made.files:
        click.echo(f"wrote {path}")
