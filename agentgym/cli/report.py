"""``agentgym report``: a run's report as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from agentgym.errors import ConfigError


@click.command(short_help="Write a run's report.html.")
@click.argument("run", type=click.Path(path_type=Path))
def report(run: Path) -> None:
    """Write RUN/report.html: curves, success before and after with intervals, example episodes."""
    if not (run / "recipe.yaml").is_file():
        raise ConfigError(f"{run} is not a run folder (no recipe.yaml)")
    from agentgym.report import write_report

    click.echo(f"wrote {write_report(run)}")
