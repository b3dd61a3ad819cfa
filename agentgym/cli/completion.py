"""``agentgym completion``: the script that makes a shell complete agentgym's commands, options and names."""

from __future__ import annotations

import click


@click.command(short_help="Print a shell's completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash   agentgym completion bash > ~/.local/share/bash-completion/completions/agentgym
    zsh    agentgym completion zsh > ~/.zfunc/_agentgym (on fpath)
    fish   agentgym completion fish > ~/.config/fish/completions/agentgym.fish
    """
    from click.shell_completion import get_completion_class

    from agentgym.cli import cli

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "agentgym", "_AGENTGYM_COMPLETE").source())
