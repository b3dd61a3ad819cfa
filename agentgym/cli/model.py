"""``agentgym model new tiny``: a small model and its tokenizer, made from an environment's own text."""

from __future__ import annotations

from pathlib import Path

import click

from agentgym.cli.common import default_tasks, pairs
from agentgym.errors import ConfigError


@click.group(short_help="Make small models.")
def model() -> None:
    """Make small models."""


@model.group(short_help="Make a model.")
def new() -> None:
    """Make a model."""


@new.command(short_help="A small Llama-style model from scratch.")
@click.option("--env", default="alfworld", show_default=True, help="Environment whose text the tokenizer learns.")
@click.option("--split", help="Split whose text is read [default: the first that is there].")
@click.option("--env-option", "env_options", multiple=True, metavar="KEY=VALUE", help="Option of the environment.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to write.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--hidden-size", type=click.IntRange(8), default=64, show_default=True)
@click.option("--layers", type=click.IntRange(1), default=2, show_default=True)
@click.option("--heads", type=click.IntRange(1), default=4, show_default=True)
@click.option("--tokenizer", type=click.Choice(["word", "bpe"]), default="word", show_default=True)
@click.option("--vocab-size", type=click.IntRange(16), default=4096, show_default=True, help="At most so many tokens.")
@click.option("--context", type=click.IntRange(64), default=4096, show_default=True, help="Longest sequence.")
def tiny(
    env: str,
    split: str | None,
    env_options: tuple[str, ...],
    out: Path,
    seed: int,
    **shape: int | str,
) -> None:
    """Write a randomly initialised Llama-style model with a tokenizer trained on the environment's text."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} exists and is not an empty folder; choose another --out")
    from agentgym.config.recipe import TinyModelSection
    from agentgym.policies.tiny import environment_texts, make_tiny
    from agentgym.registry import make

    size, heads = shape["hidden_size"], shape["heads"]
    if int(size) % int(heads):
        raise ConfigError(f"--hidden-size {size} is not a multiple of --heads {heads}")
    options = pairs(env_options, "--env-option")
    world = make(env, **options)
    try:
        texts = environment_texts(world, default_tasks(world, split, {}), seed)
    finally:
        world.close()
    make_tiny(out, texts, TinyModelSection.model_validate(shape), seed)
    click.echo(f"wrote {out}")
