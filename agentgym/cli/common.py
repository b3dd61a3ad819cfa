"""What several commands share: options, key=value pairs, tables, escaped text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentgym.errors import ConfigError

if TYPE_CHECKING:
    from agentgym.environment import Environment
    from agentgym.types import TaskSet

Function = TypeVar("Function", bound=Callable[..., Any])


def options(*decorators: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """Several click options as one decorator, in reading order."""

    def apply(function: Function) -> Function:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

environment_options = options(
    click.option("--env-option", "env_options", multiple=True, metavar="KEY=VALUE", help="Option of the environment."),
    click.option("--task-option", "task_options", multiple=True, metavar="KEY=VALUE", help="Option of the split."),
)


def completing(*kinds: str) -> Callable[..., list[Any]]:
    """Shell completion over names: any of ``env``, ``recipe``, ``board``; files where none begins like that."""

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        found = sorted({name for kind in kinds for name in _names(kind) if name.startswith(incomplete)})
        return [CompletionItem(name) for name in found] or [CompletionItem(incomplete, type="file")]

    return complete


def _names(kind: str) -> Sequence[str]:
    if kind == "env":
        from agentgym.registry import names

        return names()
    if kind == "recipe":
        from agentgym.config.loader import recipe_names

        return recipe_names()
    from agentgym.leaderboards.catalogue import board_names

    return board_names()


def pairs(items: Iterable[str], what: str) -> dict[str, Any]:
    """``["rooms=2"]`` as ``{"rooms": 2}``; values are YAML."""
    from agentgym.config import strict_yaml

    out: dict[str, Any] = {}
    for item in items:
        key, equals, text = item.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"{what} {item!r}: expected key=value")
        out[key.strip()] = strict_yaml.value(text, f"{what} {item!r}")
    return out


def print_json(data: Any) -> None:
    """Data on stdout as indented JSON."""
    text = json.dumps(data, indent=2, ensure_ascii=False, default=str)
    click.echo(text.encode("utf-8", "backslashreplace").decode())  # a lone surrogate as JSON's own escape


def print_table(rows: Sequence[Sequence[str]], header: Sequence[str]) -> None:
    """Columns padded with spaces; plain text, so that pipes and files get the same."""
    table = [list(header), *[list(map(str, row)) for row in rows]]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    for row in table:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def shown(text: str) -> str:
    """``text`` with control characters escaped, so that no episode can drive the terminal. Keeps newlines and tabs."""
    return "".join(c if c in "\n\t" or c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def call(function: Callable[..., Any], options_: dict[str, Any], what: str) -> Any:
    """``function(**options_)``; an option it does not take is a ConfigError that names those it takes."""
    import inspect

    from agentgym.errors import nearest

    parameters = inspect.signature(function).parameters.values()
    known = [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        for key in options_:
            if key not in known:
                close = nearest(key, known)
                hint = f"Did you mean {close[0]!r}?" if close else f"It takes: {', '.join(known) or 'none'}."
                raise ConfigError(f"{what} has no option {key!r}. {hint}")
    return function(**options_)


def default_tasks(world: Environment, split: str | None, task_options: dict[str, Any]) -> TaskSet:
    """The tasks of ``split``; None: of the first split whose data is there (generated ones need none)."""
    from agentgym.errors import DataError

    names = [split] if split else list(world.spec.splits)
    for name in names:
        try:
            return _tasks(world, name, task_options)
        except DataError:
            if name == names[-1]:
                raise
    raise ConfigError(f"environment {world.spec.name!r} names no split in its spec")


def _tasks(world: Environment, split: str, task_options: dict[str, Any]) -> TaskSet:
    """``world.tasks(split)``; what the environment's author got wrong is an error with its line."""
    from agentgym.errors import AgentGymError, failed_code
    from agentgym.types import TaskSet

    what = f"environment {world.spec.name!r}: tasks({split!r})"
    try:
        found = call(world.tasks, {"split": split, **task_options}, f"split {split!r}")
    except AgentGymError:
        raise
    except Exception as error:
        raise failed_code(what, error) from error
    if not isinstance(found, TaskSet):
        raise AgentGymError(f"{what} returned {type(found).__name__}, expected a TaskSet")
    if not len(found):
        raise AgentGymError(f"{what} holds no task")
    return found


def nearest_recipe_file(model: str) -> Path | None:
    """The ``recipe.yaml`` of the run that a checkpoint folder belongs to, if ``model`` is such a folder."""
    folder = Path(model)
    if not folder.is_dir():
        return None
    for place in (folder, *folder.resolve().parents[:3]):
        candidate = place / "recipe.yaml"
        if candidate.is_file():
            return candidate
    return None
