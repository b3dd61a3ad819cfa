"""``agentgym envs`` and ``agentgym recipes``."""

from __future__ import annotations

from typing import Any

import click

from agentgym.cli.common import json_option, print_json, print_table


@click.command(short_help="List the environments.")
@json_option
def envs(as_json: bool) -> None:
    """List every environment: built in, from installed packages, with splits and turn limits."""
    from agentgym.errors import AgentGymError
    from agentgym.registry import environment_class, names

    found: list[dict[str, Any]] = []
    for name in names():
        try:
            spec = environment_class(name).spec
        except (AgentGymError, ImportError) as error:
            found.append({"name": name, "error": str(error)})
            continue
        found.append(
            {
                "name": name,
                "description": spec.description,
                "splits": list(spec.splits),
                "max_turns": spec.max_turns,
                "snapshots": spec.snapshots,
                "kinds": list(spec.kinds),
            }
        )
    if as_json:
        print_json(found)
        return
    for env in found:
        click.echo(env["name"])
        if "error" in env:
            click.echo(f"    not available: {env['error']}")
            continue
        click.echo(f"    {env['description'] or 'no description'}")
        click.echo(f"    splits: {', '.join(env['splits'])}; at most {env['max_turns']} turns")


@click.command(short_help="List the shipped recipes, or print one.")
@click.argument("name", required=False)
@click.option("--schema", is_flag=True, help="Print the JSON schema of recipe files.")
@json_option
def recipes(name: str | None, schema: bool, as_json: bool) -> None:
    """List the shipped recipes. With NAME: print that recipe's file, comments included."""
    from agentgym.config.loader import find_recipe, recipe_schema, shipped_recipes

    if schema:
        print_json(recipe_schema())
        return
    if name:
        click.echo(find_recipe(name).read_text(encoding="utf-8"), nl=False)
        return
    rows = [(recipe_name, recipe.description) for recipe_name, recipe in shipped_recipes()]
    if as_json:
        print_json([{"name": recipe_name, "description": text} for recipe_name, text in rows])
    else:
        print_table(rows, ("recipe", "what it trains"))
