"""The recipe that ``agentgym eval`` measures by: of the name given, of the checkpoint's run, of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agentgym.cli.common import nearest_recipe_file, pairs, shown
from agentgym.errors import UnknownNameError, unknown

if TYPE_CHECKING:
    from agentgym.config.recipe import Recipe
    from agentgym.environment import Environment

#: option of this command -> key of the recipe that it sets
_KEYS = {
    "split": "env.test.split",
    "limit": "env.test.limit",
    "attempts": "eval.attempts",
    "seed": "seed",
    "temperature": "eval.temperature",
    "layout": "prompt.layout",
    "history": "prompt.history",
    "admissible": "prompt.show_admissible",
    "max_turns": "limits.max_turns",
    "concurrency": "concurrency",
    "judge_url": "judge.url",
    "judge_model": "judge.model",
}


def eval_recipe(what: str, model: str) -> Recipe:
    """The settings: of the recipe named, else of the run that the checkpoint belongs to, else the defaults."""
    from agentgym.config.loader import load_recipe, recipe_from_dict, recipe_names

    if what in recipe_names() or what.endswith((".yaml", ".yml")):
        return load_recipe(what)
    found = _class(what)
    trained = nearest_recipe_file(model)
    if trained is not None:
        click.echo(f"prompt, format and limits as in {trained}", err=True)
        recipe = load_recipe(str(trained))
        if recipe.env.name == what:
            return recipe
        return recipe_from_dict({**recipe.model_dump(), "env": _environment(what, found.spec.splits)}, str(trained))
    return recipe_from_dict({**found.spec.recipe, "env": _environment(what, found.spec.splits)})


def _class(what: str) -> type[Environment]:
    """The environment; for an unknown name the error names the nearest boards too."""
    from agentgym.leaderboards.catalogue import board_names
    from agentgym.registry import environment_class, names

    try:
        return environment_class(what)
    except UnknownNameError:
        if ":" in what:
            raise
        hint = "Run 'agentgym boards' or 'agentgym envs' for all, or give module:Class."
        raise unknown("board or environment", what, {*names(), *board_names()}, hint) from None


def _environment(name: str, splits: tuple[str, ...]) -> dict[str, Any]:
    split = "generated_test" if "generated_test" in splits else splits[-1]
    return {"name": name, **{part: {"split": split} for part in ("train", "eval", "test")}}


def changed(
    recipe: Recipe,
    settings: dict[str, Any],
    env_options: tuple[str, ...],
    task_options: tuple[str, ...],
    overrides: tuple[str, ...],
) -> Recipe:
    """The recipe with what the command line sets. Another split has the options that the recipe gives it elsewhere."""
    from agentgym.config.loader import apply_override
    from agentgym.config.problems import Origin, validated

    data = recipe.model_dump()
    test = data["env"]["test"]
    if settings.get("split") not in (None, test["split"]):
        test.update(options=_split_options(data["env"], settings["split"]), limit=None)
    test["options"] = {**test["options"], **pairs(task_options, "--task-option")}
    data["env"]["options"] = {**data["env"]["options"], **pairs(env_options, "--env-option")}
    for name, value in settings.items():
        if value is not None:
            place = data
            *parents, last = _KEYS[name].split(".")
            for parent in parents:
                place = place[parent]
            place[last] = value
    origin = Origin("command line")
    for override in overrides:
        apply_override(data, origin, override)
    return validated(data, origin)


def _split_options(env: dict[str, Any], split: str) -> dict[str, Any]:
    """The options that the recipe gives a split elsewhere; where nowhere, none, and that is said."""
    for source in (env["eval"], env["train"], *env["extra_tests"]):
        if source["split"] == split:
            return dict(source["options"])
    if env["test"]["options"]:
        left = shown(", ".join(f"{key}={value}" for key, value in env["test"]["options"].items()))
        click.echo(f"the recipe has no split {shown(split)}: without {left} of its test set; --task-option", err=True)
    return {}


def judged(settings: dict[str, Any]) -> Recipe:
    """A recipe of defaults with the judge that the command line names: all that notes want of it."""
    from agentgym.config.loader import recipe_from_dict

    found = {name: settings[f"judge_{name}"] for name in ("url", "model") if settings[f"judge_{name}"]}
    return recipe_from_dict({"judge": found}, "command line")
