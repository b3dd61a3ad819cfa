"""``agentgym clean``: remove what killed runs left."""

from __future__ import annotations

import click

from agentgym.cli.common import json_option, print_json, shown


@click.command(short_help="Remove what killed runs left: processes, cgroups, containers, folders.")
@json_option
def clean(as_json: bool) -> int:
    """Remove what sandboxes of killed runs left on this machine and on its Docker engine.

    Only what belongs to runs of this user whose process is gone is touched; live runs are left alone. Every start of
    a sandbox does the same. Exit code 1 where something could not be removed.
    """
    from agentgym.sandbox import leftovers

    lines = leftovers.reap(hooks=tuple(leftovers.HOOKS))
    if as_json:
        print_json(lines)
    else:
        for line in lines:
            click.echo(shown(line))
        click.echo(f"{len(lines)} leftovers" if lines else "nothing was left over")
    return int(any(line.startswith("cannot") for line in lines))
