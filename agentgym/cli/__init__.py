"""The command line. Start-up imports click and nothing else heavy: a command's module loads when it runs.

Exit codes: 0 done; 1 failed; 2 wrong usage or configuration; 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from agentgym import __version__
from agentgym.errors import AgentGymError, ConfigError, UnknownNameError, nearest

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: command -> (module, attribute, the line that ``agentgym --help`` shows)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "train": ("train", "train", "Train an agent by a recipe."),
    "eval": ("eval", "evaluate", "Measure a policy on a board or an environment, with intervals."),
    "boards": ("leaderboard", "boards", "List the boards, or print one."),
    "leaderboard": ("leaderboard", "leaderboard", "Entries of boards: add, verify, list, compare, build, serve."),
    "play": ("play", "play", "Play an environment yourself."),
    "view": ("view", "view", "Read stored episodes: as text, as a page, in the browser."),
    "credit": ("credit", "credit", "List credit modules; explain the credit of recorded episodes."),
    "report": ("report", "report", "Write a run's report.html."),
    "new": ("new", "new", "Write a package with an environment or a credit module of your own."),
    "check": ("check", "check", "Check that an environment keeps the contract."),
    "envs": ("listings", "envs", "List the environments."),
    "recipes": ("listings", "recipes", "List the shipped recipes, or print one."),
    "tasks": ("tasks", "tasks", "List the tasks of a split."),
    "generate": ("tasks", "generate", "Write generated ALFWorld games to a folder."),
    "data": ("data", "data", "Fetch, import, pack, list and verify official data."),
    "serve": ("serve", "serve", "Serve an environment, a model, or a corpus, over HTTP."),
    "model": ("model", "model", "Make small models."),
    "swe": ("swe", "swe", "Make, read and prove software-engineering tasks."),
    "clean": ("clean", "clean", "Remove what killed runs left: processes, cgroups, containers, folders."),
    "completion": ("completion", "completion", "Print a shell's completion script."),
    "doctor": ("doctor", "doctor", "Check this machine, with the line that fixes each finding."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are invoked; unknown names get the nearest one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Commands in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, attribute, _ = entry
        found = getattr(importlib.import_module(f"agentgym.cli.{module}"), attribute)
        assert isinstance(found, click.Command)
        return found

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands with their lines from the table: completing one imports none."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=line) for name, (_, _, line) in COMMANDS.items() if name.startswith(incomplete)
        ]
        return found if found or not incomplete.startswith("-") else super().shell_complete(ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, from the table: nothing is imported."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Look the command up; suggest the nearest when there is none."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = nearest(args[0], COMMANDS)
            hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
            ctx.fail(f"there is no command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="agentgym")
@click.option("--debug", is_flag=True, help="Show tracebacks of errors. May stand anywhere on the line.")
def cli(debug: bool) -> None:
    """Train LLM agents by multi-turn reinforcement learning, and measure them."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    args = list(sys.argv[1:] if argv is None else argv)
    sys.exit(run(args))


def run(args: list[str]) -> int:
    """Run one command line; returns the exit code. User errors become one clear message on stderr."""
    end = args.index("--") if "--" in args else len(args)
    debug = "--debug" in args[:end]
    args = [arg for i, arg in enumerate(args) if i >= end or arg != "--debug"]
    with contextlib.suppress(FileNotFoundError):  # the present folder was deleted
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())  # so that module:Class finds the user's own file
    try:
        result: Any = cli.main(args, prog_name="agentgym", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("agentgym: stopped", err=True)
        return 130
    except click.ClickException as error:
        if debug:
            raise
        error.show()
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (AgentGymError, OSError) as error:
        if debug:
            raise
        click.echo(f"agentgym: {_message(error)}", err=True)
        return 2 if isinstance(error, (ConfigError, UnknownNameError)) else 1


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__
