"""Makes one game: the program that ``cache.py`` runs in a process of its own. Reads a recipe as JSON from stdin."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, Final

from agentgym.environments.textworld.kinds import KINDS, library_settings
from agentgym.environments.textworld.library import module
from agentgym.seeding import derive_seed

#: seeds tried before a recipe counts as impossible; TextWorld's generator fails for some maps
ATTEMPTS: Final = 50


def main() -> None:
    """Make the game of the recipe on stdin."""
    recipe = json.load(sys.stdin)
    make(recipe)


def make(recipe: Mapping[str, Any]) -> None:
    """``recipe``: either ``game``, ``settings``, ``split``, ``seed``, or ``json`` (a game file); and ``output``."""
    textworld = module()
    if "json" in recipe:
        with open("source.json", "w", encoding="utf-8") as file:
            file.write(recipe["json"])
        game = textworld.Game.load("source.json")
        textworld.generator.compile_game(game, _options(textworld, 0, recipe["output"]))
        return
    impossible = module("textworld.generator").QuestGenerationError
    for attempt in range(ATTEMPTS):
        seed = recipe["seed"] if attempt == 0 else derive_seed("textworld retry", recipe["seed"], attempt) % 2**31
        options = _options(textworld, seed, recipe["output"])
        try:
            game = _game(textworld, recipe, options)
        except impossible:
            continue
        textworld.generator.compile_game(game, options)
        return
    raise SystemExit(f"no quest with the settings {recipe['settings']} in {ATTEMPTS} tries; relax them")


def _options(textworld: Any, seed: int, output: str) -> Any:
    options = textworld.GameOptions()
    options.seeds = seed
    options.path = output
    options.file_ext = ".z8"
    return options


def _game(textworld: Any, recipe: Mapping[str, Any], options: Any) -> Any:
    kind, settings = recipe["game"], recipe["settings"]
    if KINDS[kind].challenge:
        _, make_game, _ = module("textworld.challenges").CHALLENGES[KINDS[kind].challenge]
        return make_game(library_settings(kind, settings, recipe["split"]), options)
    options.nb_rooms, options.nb_objects = settings["world_size"], settings["nb_objects"]
    chaining, length = options.chaining, settings["quest_length"]
    chaining.min_length = chaining.max_length = chaining.max_depth = length
    chaining.min_breadth = chaining.max_breadth = settings["quest_breadth"]
    return textworld.generator.make_game(options)
