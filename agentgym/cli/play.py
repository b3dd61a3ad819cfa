"""``agentgym play``: a person in the policy's place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from agentgym.cli.common import completing, default_tasks, environment_options, pairs, shown
from agentgym.errors import AgentGymError, failed_code

if TYPE_CHECKING:
    from agentgym.environment import Environment
    from agentgym.types import Observation, Step

HELP = "An action or its number. :expert shows a hint, :undo takes a turn back, :actions lists, :quit ends."


@click.command(short_help="Play an environment yourself.")
@click.argument("env", shell_complete=completing("env"))
@click.option("--split", help="Split [default: the first that is there].")
@click.option("--task", "task_key", help="Task by position, id or name [default: 0].", default="0")
@environment_options
def play(
    env: str, split: str | None, task_key: str, env_options: tuple[str, ...], task_options: tuple[str, ...]
) -> None:
    """Play a task of ENV. At the prompt: an action, its number, or :expert, :undo, :actions, :help, :quit."""
    from agentgym.registry import make

    world = make(env, **pairs(env_options, "--env-option"))
    try:
        tasks = default_tasks(world, split, pairs(task_options, "--task-option"))
        position = _number(task_key)
        task = tasks[position] if position is not None and position < len(tasks) else tasks.find(task_key)
        click.echo(f"{shown(task.name)}  ({len(tasks)} tasks in {shown(tasks.name or task.split)})\n{HELP}\n")
        Game(world, _ask(world, "reset", task)).loop()
    finally:
        world.close()


def _number(text: str) -> int | None:
    """The number that ``text`` is; None: it is none, or longer than any count of tasks or actions."""
    return int(text) if text.isdecimal() and len(text) < 10 else None


def _ask(world: Environment, method: str, *arguments: Any) -> Any:
    """Call the environment; what its author got wrong is an error with its line."""
    try:
        return getattr(world, method)(*arguments)
    except AgentGymError:
        raise
    except Exception as error:
        raise failed_code(f"environment {world.spec.name!r}: {method}", error) from error


@dataclass
class Game:
    """One game at the terminal."""

    world: Environment
    observation: Observation
    past: list[tuple[Any, Observation, int]] = field(default_factory=list)
    turns: int = 0

    def loop(self) -> None:
        """Ask, act, show, until the game is over or the player leaves."""
        self.show(listed=True)
        while True:
            try:
                line = str(click.prompt("", prompt_suffix="> ", default="", show_default=False)).strip()
            except click.Abort:  # end of input
                click.echo()
                return
            if line == ":quit":
                return
            if line and self.act(line):
                return

    def show(self, listed: bool) -> None:
        """The present observation, and the numbered actions."""
        click.echo(shown(self.observation.text))
        if listed and self.observation.admissible:
            for number, action in enumerate(self.observation.admissible, 1):
                click.echo(f"  {number:3d} {shown(action)}")

    def act(self, line: str) -> bool:
        """Do what ``line`` says; True when the game is over."""
        if line == ":help":
            click.echo(HELP)
        elif line == ":actions":
            self.show(listed=True)
        elif line == ":expert":
            click.echo(f"hint: {shown(_ask(self.world, 'expert') or 'none')}")
        elif line == ":undo":
            self.undo()
        elif line.startswith(":"):
            click.echo(f"there is no {shown(line)}. {HELP}")
        else:
            return self.step(line)
        return False

    def undo(self) -> None:
        """Back to the state before the last action."""
        if not self.past:
            reason = "nothing to undo" if self.world.spec.snapshots else f"{self.world.spec.name} has no snapshots"
            click.echo(shown(reason))
            return
        state, _, self.turns = self.past.pop()
        self.observation = _ask(self.world, "restore", state)
        self.show(listed=True)

    def step(self, line: str) -> bool:
        """Execute an action or its number."""
        listed = self.observation.admissible or ()
        if line.isdecimal():
            number = _number(line) or 0
            if not 1 <= number <= len(listed):
                click.echo(f"there is no action {line[:20]}; :actions lists them")
                return False
            line = listed[number - 1]
            click.echo(f"> {shown(line)}")
        if self.world.spec.snapshots:
            self.past.append((_ask(self.world, "snapshot"), self.observation, self.turns))
        outcome: Step = _ask(self.world, "step", line)
        self.observation = outcome.observation
        self.turns += 1
        self.show(listed=not outcome.terminated)
        if outcome.milestones:
            click.echo(f"[{len(outcome.milestones)} of {len(self.world.milestone_names)} milestones]")
        if outcome.terminated:
            click.echo(f"{'Solved' if outcome.success else 'Over, not solved'} after {self.turns} turns.")
        return outcome.terminated
