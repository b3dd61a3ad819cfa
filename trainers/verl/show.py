"""What ``agentgym train RECIPE engine=verl --dry-run`` prints: verl's configuration for the recipe."""

from __future__ import annotations

from pathlib import Path

from agentgym.config import strict_yaml
from agentgym.config.recipe import Recipe
from agentgym.errors import MissingDependency
from agentgym.trainers.verl import compat, translate
from agentgym.trainers.verl.scope import Machine
from agentgym.trainers.verl.translate import Start


def text(recipe: Recipe, folder: Path) -> str:
    """The whole configuration where verl is installed, else the part that differs from verl's defaults; YAML.

    Raises ConfigError for what the engine cannot honour and for ``verl`` keys that verl does not have, either way.
    """
    machine = Machine.here(recipe.model.device)
    tree = translate.settings(recipe, folder, machine, planned_start(recipe, folder))
    try:
        compat.require()
    except MissingDependency as missing:
        tree["data"].pop("agentgym")
        head = f"{str(missing).rstrip('.')}\nWithout it: only what this recipe sets; verl's own defaults are not shown."
        return "".join(f"# {line}\n" for line in head.splitlines()) + strict_yaml.dump(tree)
    from agentgym.trainers.verl.launch import prepare

    prepare(machine)
    from agentgym.trainers.verl.config import compose, shown

    return shown(compose(tree))


def planned_start(recipe: Recipe, folder: Path) -> Start:
    """Where training would begin, without making anything."""
    if not recipe.sft.steps:
        return Start(recipe.model.path or str(folder / "base"))
    begun = str(folder / "start" / "checkpoints" / "sft")
    if recipe.model.lora is None:
        return Start(begun)
    return Start(recipe.model.path or str(folder / "start" / "base"), begun)
