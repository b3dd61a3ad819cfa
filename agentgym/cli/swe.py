"""``agentgym swe``: make, read and prove software-engineering tasks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentgym.cli.common import json_option, options, print_json
from agentgym.errors import ConfigError

if TYPE_CHECKING:
    from agentgym.environments.swe.sources.mutant import Examined
    from agentgym.environments.swe.sources.validate import Proof

_OUT = click.Path(dir_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

_sandbox = options(
    click.option("--sandbox", default="auto", show_default=True, help="Backend: auto, bubblewrap or docker."),
    click.option("--unsafe-local", is_flag=True, help="Run foreign code as plain subprocesses, with all your rights."),
)
_jobs = click.option("--jobs", type=click.IntRange(1, 256), help="So many at a time. [default: one for each core]")
_with = click.option("--with", "extra", multiple=True, metavar="PACKAGE", help="A package that the tests need.")


def _backend(name: str, unsafe_local: bool) -> str:
    from agentgym.errors import unknown

    if unsafe_local:
        return "unsafe-local"
    if name not in ("auto", "bubblewrap", "docker"):
        if name == "unsafe-local":
            raise ConfigError("--sandbox unsafe-local isolates nothing; if you mean it, give --unsafe-local instead")
        raise unknown("sandbox backend", name, ["auto", "bubblewrap", "docker"])
    return name


def _cores(jobs: int | None) -> int:
    return jobs or len(os.sched_getaffinity(0))


@click.group(short_help="Make, read and prove software-engineering tasks.")
def swe() -> None:
    """Make, read and prove software-engineering tasks (docs/swe-tasks.md)."""


@swe.command(short_help="Prove every task of a file.")
@click.argument("file", type=_FILE)
@click.option("--limit", type=click.IntRange(1), help="Only the first so many.")
@_jobs
@_sandbox
@json_option
def validate(file: Path, limit: int | None, jobs: int | None, sandbox: str, unsafe_local: bool, as_json: bool) -> None:
    """Prove every task of FILE: the base fails what it must, the known fix passes, doing nothing earns nothing.

    Exit code 0: every task is valid. 1: one is invalid, or could not be checked here.
    """
    from agentgym.environments.swe.schema import read_tasks
    from agentgym.environments.swe.sources.validate import prove_all
    from agentgym.sandbox.grading import Grader

    backend = _backend(sandbox, unsafe_local)
    tasks = read_tasks(file)[:limit]
    grader = Grader(backend, options={"unsafe_local": True} if unsafe_local else None)
    proofs = prove_all(tasks, file.parent, grader, _cores(jobs), None if as_json else _tell_proof)
    counts = {verdict: sum(p.verdict == verdict for p in proofs) for verdict in ("valid", "invalid", "unchecked")}
    if as_json:
        print_json({"file": str(file), **counts, "tasks": [proof.to_dict() for proof in proofs]})
    else:
        click.echo(", ".join(f"{count} {verdict}" for verdict, count in counts.items()), err=True)
    if counts["valid"] != len(proofs) or not proofs:
        raise click.exceptions.Exit(1)


def _tell_proof(proof: Proof) -> None:
    from agentgym.cli.common import shown

    click.echo(shown(f"{proof.verdict:9} {proof.task} ({proof.seconds:.1f} s)"))
    for line in [*proof.problems, *([proof.skipped] if proof.skipped else []), *[f"note: {n}" for n in proof.notes]]:
        click.echo(shown(f"          {line}"))


@swe.command(short_help="Make tasks by putting bugs into a package.")
@click.argument("package")
@click.option("--out", type=_OUT, required=True, help="File for the tasks; verdicts go to OUT.log.")
@click.option("--n", "count", type=click.IntRange(1), default=20, show_default=True, help="So many tasks.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Which bugs, in which order.")
@_jobs
@click.option("--resume/--fresh", default=True, help="Go on where an earlier run was stopped (default), or start over.")
@click.option("--max-failing", type=click.FloatRange(0, 1), default=0.5, show_default=True,
              help="Drop bugs that more than this share of the tests notices.")  # fmt: skip
@click.option("--timeout", type=click.FloatRange(1), default=120.0, show_default=True,
              help="Seconds that a grader gives one run of a task's tests.")  # fmt: skip
@click.option(
    "--hide-tests/--show-tests", default=True, help="Take the failing tests out of what the agent gets (default)."
)
@_with
@_sandbox
@json_option
def mutate(package: str, out: Path, count: int, seed: int, jobs: int | None, resume: bool, max_failing: float,
           timeout: float, hide_tests: bool, extra: tuple[str, ...], sandbox: str, unsafe_local: bool, as_json: bool
           ) -> None:  # fmt: skip
    """Put bugs into PACKAGE (NAME==VERSION, a source distribution or a folder) and keep those that its tests notice.

    The same PACKAGE and --seed give the same tasks whatever --jobs, and however often the run is killed and resumed.
    """
    from agentgym.environments.swe.sources import campaign, subject
    from agentgym.environments.swe.sources.mutant import Rules

    made = subject.prepare(package, seed, extra, _backend(sandbox, unsafe_local))
    if not as_json:
        click.echo(
            f"{made.fetched.label}: {len(made.baseline.passing)} tests pass unharmed in {made.baseline.cpu:.1f} s, "
            f"{len(made.edits)} bugs to try",
            err=True,
        )
        for line in made.skipped:
            click.echo(f"left alone: {line}", err=True)
    rules = Rules(subject.source_of(made, out), max_failing, hide_tests, timeout)

    def tell(index: int, examined: Examined) -> None:
        edit = made.edits[index]
        where = f"{edit.path}:{edit.lines[0]} {edit.function}"
        click.echo(f"{examined.verdict:12} {edit.kind:18} {where}  {examined.detail}".rstrip(), err=True)

    done = campaign.run(made, rules, out, count, _cores(jobs), resume, None if as_json else tell)
    summary: dict[str, Any] = {"file": str(out), "tasks": len(done.tasks), "tried": sum(done.counts.values()),
                               "resumed": done.resumed, "verdicts": dict(done.counts)}  # fmt: skip
    if as_json:
        print_json(summary)
    else:
        click.echo(
            f"{len(done.tasks)} tasks in {out} ({', '.join(f'{k} {v}' for k, v in sorted(done.counts.items()))})"
        )
    if len(done.tasks) < count:
        click.echo(
            f"agentgym: only {len(done.tasks)} of {count} tasks: all {done.candidates} bugs were tried", err=True
        )
        raise click.exceptions.Exit(1)


@swe.command(short_help="Make a task of two releases of a package.")
@click.argument("package")
@click.argument("old")
@click.argument("new")
@click.option("--out", type=_OUT, required=True, help="File for the task; appended to, if it is there.")
@_with
@_sandbox
def pair(package: str, old: str, new: str, out: Path, extra: tuple[str, ...], sandbox: str, unsafe_local: bool) -> None:
    """Make a task of releases OLD and NEW of PACKAGE: old source, new tests; the fix is the new source."""
    from agentgym.environments.swe.schema import read_tasks, task_lines
    from agentgym.environments.swe.sources.pair import release_pair

    there = read_tasks(out) if out.exists() else []
    task = release_pair(package, old, new, extra, _backend(sandbox, unsafe_local))
    if any(known.instance_id == task.instance_id for known in there):
        click.echo(f"{task.instance_id} is in {out} already")
        return
    _write(out, "".join(task_lines([*there, task])))
    click.echo(f"{task.instance_id}: {len(task.FAIL_TO_PASS)} F2P, {len(task.PASS_TO_PASS)} P2P, in {out}")


@swe.command("import", short_help="Read rows of SWE-bench, SWE-Gym, SWE-smith or R2E-Gym.")
@click.argument("file", type=_FILE)
@click.option("--out", type=_OUT, required=True, help="File for the tasks.")
@click.option("--format", "form", default="auto", show_default=True,
              help="swe-bench, swe-gym, swe-smith, r2e-gym, agentgym; auto looks at each row.")  # fmt: skip
@click.option("--split", default="", help="Split that the tasks shall belong to.")
@click.option("--force", is_flag=True, help="Overwrite OUT.")
@json_option
def import_(file: Path, out: Path, form: str, split: str, force: bool, as_json: bool) -> None:
    """Read FILE (.jsonl, .json, .parquet) and write its rows as tasks.

    Rows that cannot be tasks are named with their field and left out; then the exit code is 1.
    """
    from agentgym.environments.swe.schema import task_lines
    from agentgym.environments.swe.sources.rows import load

    if out.exists() and not force:
        raise ConfigError(f"{out} exists; choose another --out, or --force to overwrite it")
    loaded = load(file, form, split)
    _write(out, "".join(task_lines(loaded.tasks)))
    if as_json:
        print_json({"file": str(out), "tasks": len(loaded.tasks), "formats": loaded.formats, "refused": loaded.refused})
    else:
        for line in loaded.refused:
            click.echo(f"refused: {line}", err=True)
        kinds = ", ".join(f"{n} {k}" for k, n in sorted(loaded.formats.items()))
        click.echo(f"{len(loaded.tasks)} tasks in {out}, {len(loaded.refused)} rows refused ({kinds})")
    if loaded.refused or not loaded.tasks:
        raise click.exceptions.Exit(1)


def _write(out: Path, text: str) -> None:
    """The whole file or none of it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    new = out.with_name(f".{out.name}.new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, out)
