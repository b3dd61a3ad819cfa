"""``agentgym check``: the contract, tried on an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentgym.cli.common import completing, environment_options, json_option, options, pairs, print_json, shown

if TYPE_CHECKING:
    from agentgym.check import Finding, Report


@click.command(short_help="Check that an environment keeps the contract.")
@click.argument("env", shell_complete=completing("env"))
@environment_options
@options(
    click.option("--split", help="Check this split only [default: all, episodes of the first that is there]."),
    click.option("--tasks", "count", default=4, show_default=True, type=click.IntRange(1, 1000), help="Tasks played."),
    click.option("--turns", default=30, show_default=True, type=click.IntRange(1), help="Turns of an episode."),
    click.option("--deadline", default=60.0, show_default=True, type=click.FloatRange(1), metavar="SECONDS",
                 help="That one family of checks may take."),
    click.option("--strict", is_flag=True, help="Warnings fail too."),
)  # fmt: skip
@json_option
def check(
    env: str,
    env_options: tuple[str, ...],
    task_options: tuple[str, ...],
    split: str | None,
    count: int,
    turns: int,
    deadline: float,
    strict: bool,
    as_json: bool,
) -> int:
    """Check ENV: types, determinism, independence, snapshots, endings, hostile actions, tasks, speed.

    Every finding says what was expected, what was seen, where, and how to mend it. It runs in a process of its own, so
    that an environment that hangs or crashes is a finding too. Exit code 0: no errors; 1: errors.
    """
    from agentgym.check import Settings
    from agentgym.check import check as run

    settings = Settings(
        count, turns, deadline / 4, pairs(env_options, "--env-option"), pairs(task_options, "--task-option"), split
    )
    report = run(
        env, settings, deadline, lambda family: None if as_json else click.echo(f"checking {family}", err=True)
    )
    if as_json:
        print_json(report.to_dict())
    else:
        _show(report, strict)
    return int(not report.ok(strict))


def _show(report: Report, strict: bool) -> None:
    from agentgym.check import LEVELS

    for level in LEVELS:
        for finding in report.of(level):
            _show_finding(finding)
    measured = "; ".join(f"{name} {value:g}" for name, value in report.measured.items())
    if measured:
        click.echo(f"measured: {measured}")
    counts = ", ".join(f"{len(report.of(level))} {level}s" for level in LEVELS)
    click.echo(f"{shown(report.env)}: {counts}; {len(report.ran)} families in {report.seconds:.1f} s")
    if report.ok(strict):
        click.echo(f"Next: agentgym eval {shown(report.env)} --model random")
    else:
        click.echo(f"Next: mend the first finding, then agentgym check {shown(report.env)}")


def _show_finding(finding: Finding) -> None:
    times = f" (and {finding.times - 1} more)" if finding.times > 1 else ""
    click.echo(f"{finding.level} {finding.code}: {shown(finding.where)}{times}")
    for name in ("expected", "seen", "mend"):
        click.echo(f"    {name + ':':<10}{shown(getattr(finding, name))}")
