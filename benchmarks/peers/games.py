"""The ALFWorld game and the commands that both engines play: a generated household, a seeded choice of commands.

Needs our package's tree and NumPy, so that the real engine's environment can read it too.
"""

from __future__ import annotations

from agentgym.environments.alfworld.engine import Game
from agentgym.environments.alfworld.generated import generated_problem, generated_tasks
from agentgym.environments.alfworld.replay import sample_actions
from agentgym.environments.alfworld.world import World
from agentgym.seeding import python_rng
from agentgym.types import Task

STEPS = 20


def job() -> tuple[Task, list[str]]:
    """A generated household of full size, and what is done in it: up to the command that wins, if one does."""
    task = generated_tasks("generated", 1, preset="full")[0]
    game = Game(World(generated_problem(task)))
    actions = sample_actions(game, python_rng("peers", task.id), STEPS)
    game.reset()
    for number, action in enumerate(actions, 1):
        game.step(action)
        if game.won:
            return task, actions[:number]
    return task, actions
