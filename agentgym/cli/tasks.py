"""``agentgym tasks`` lists a split; ``agentgym generate`` writes generated games as files."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import click

from agentgym.cli.common import (
    completing,
    default_tasks,
    environment_options,
    json_option,
    pairs,
    print_json,
    print_table,
)
from agentgym.errors import ConfigError


@click.command(short_help="List the tasks of a split.")
@click.argument("env", shell_complete=completing("env"))
@click.argument("split")
@click.option("--limit", type=click.IntRange(1), help="At most so many.")
@environment_options
@json_option
def tasks(
    env: str,
    split: str,
    limit: int | None,
    env_options: tuple[str, ...],
    task_options: tuple[str, ...],
    as_json: bool,
) -> None:
    """List the tasks of SPLIT of ENV: id, type, seed and name, in the split's fixed order."""
    from agentgym.registry import make

    world = make(env, **pairs(env_options, "--env-option"))
    try:
        found = default_tasks(world, split, pairs(task_options, "--task-option"))
    finally:
        world.close()
    rows = [(task.id, task.kind, str(task.seed), task.name) for task in islice(found, limit)]
    if as_json:
        print_json([dict(zip(("id", "kind", "seed", "name"), row, strict=True)) for row in rows])
        return
    print_table(rows, ("id", "kind", "seed", "name"))
    click.echo(f"{len(rows)} of {len(found)} tasks, panel {found.hash}", err=True)


@click.command(short_help="Write generated ALFWorld games to a folder.")
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option("--split", default="generated", show_default=True, help="generated, generated_valid or generated_test.")
@click.option("--count", type=click.IntRange(1), default=10, show_default=True, help="How many games.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the list of games.")
@click.option("--preset", default="full", show_default=True, help="tiny, small or full.")
@click.option("--knob", "knobs", multiple=True, metavar="KEY=VALUE", help="Difficulty, e.g. objects=[3,6].")
def generate(out: Path, split: str, count: int, seed: int, preset: str, knobs: tuple[str, ...]) -> None:
    """Write generated games as OUT/TASK/TRIAL/game.tw-pddl, which the real ALFWorld loads too.

    The same SPLIT, SEED and difficulty give the same games on every machine; the splits share none.
    """
    from agentgym.environments.alfworld.generated import generated_problem, generated_tasks
    from agentgym.environments.alfworld.pddl import write_game

    if out.is_dir() and any(out.iterdir()):
        raise ConfigError(f"{out} is not empty; choose another folder")
    made = generated_tasks(split, n=count, seed=seed, preset=preset, **pairs(knobs, "--knob"))
    for task in made:
        write_game(generated_problem(task), out / task.name)
    click.echo(f"wrote {count} games to {out}")
