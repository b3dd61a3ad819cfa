"""The ALFWorld games and commands that both engines play: generated households, a seeded choice of commands.

Needs our package's tree and NumPy, so that the real engine's environment can read it too.
"""

from __future__ import annotations

from agentgym.environments.alfworld.engine import Game
from agentgym.environments.alfworld.generated import generated_problem, generated_tasks
from agentgym.environments.alfworld.replay import sample_actions
from agentgym.environments.alfworld.world import World
from agentgym.seeding import python_rng
from agentgym.types import Task

GAMES, STEPS = 2, 20


def jobs(games: int = GAMES, steps: int = STEPS) -> list[tuple[Task, list[str]]]:
    """Tasks, and what is done in each of them: up to the command that wins, if one does."""
    chosen = []
    for task in generated_tasks("generated", games, preset="full"):
        game = Game(World(generated_problem(task)))
        actions = sample_actions(game, python_rng("peers", task.id), steps)
        chosen.append((task, _until_won(game, actions)))
    return chosen


def _until_won(game: Game, actions: list[str]) -> list[str]:
    game.reset()
    for number, action in enumerate(actions, 1):
        game.step(action)
        if game.won:
            return actions[:number]
    return actions
