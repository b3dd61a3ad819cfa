"""``agentgym data``: fetch, import, pack, list and verify the official data sets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from agentgym.cli.common import json_option, print_json, print_table
from agentgym.errors import DataError


@click.group(short_help="Fetch, import, pack, list and verify official data.")
def data() -> None:
    """Official data sets under AGENTGYM_DATA. Nothing of agentgym needs them to run; the official splits do."""


@data.command("list", short_help="List the data sets and what is here.")
@json_option
def list_(as_json: bool) -> None:
    """List every data set: licence, where it comes from, and whether it is on this machine, with its version."""
    import os

    from agentgym.datasets import ROOT_VARIABLE, catalogue, manifest

    root = os.environ.get(ROOT_VARIABLE)
    rows: list[dict[str, Any]] = []
    for name, known in catalogue().items():
        folder = known.folder(Path(root)) if root else None
        found = manifest.read(folder) if folder is not None else None
        there = folder is not None and folder.is_dir()
        rows.append(
            {
                "name": name,
                "title": known.title,
                "licence": known.licence,
                "homepage": known.homepage,
                "folder": str(folder) if folder else None,
                "state": "verified files" if found else "files without manifest" if there else "not here",
                "version": found["version"] if found else None,
                "files": len(found["files"]) if found else None,
            }
        )
    if as_json:
        print_json(rows)
        return
    print_table([(r["name"], r["state"], r["version"] or "-", r["licence"]) for r in rows], _HEADER)
    if root is None:
        click.echo(f"{ROOT_VARIABLE} is not set", err=True)


_HEADER = ("data set", "here", "version", "licence")


@data.command(short_help="Download a data set.")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Accept the licence without being asked.")
@click.option("--sha256", default="", metavar="HASH", help="Expected SHA-256 of the download.")
def get(name: str, yes: bool, sha256: str) -> None:
    """Download NAME. Shows the licence first; goes on where an earlier download stopped."""
    from agentgym.datasets import data_root, dataset, store

    known, root = dataset(name), data_root()
    click.echo(f"{known.title}\nlicence: {known.licence}\nfrom:    {known.homepage}", err=True)
    if not known.by_hand and not yes:
        click.confirm("Download under this licence?", abort=True, err=True)
    _told(store.get(known, root, sha256, _progress()), root / name)


@data.command("import", short_help="Copy a data set from this machine.")
@click.argument("name")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
def import_(name: str, source: Path) -> None:
    """Take the files of NAME from SOURCE: a folder, a zip or tar archive, or one file."""
    from agentgym.datasets import data_root, dataset, store

    root = data_root()
    _told(store.import_(dataset(name), root, source), root / name)


@data.command(short_help="Compress a data set's files.")
@click.argument("name")
def pack(name: str) -> None:
    """Compress the JSON files of NAME with xz; the environments read them as they are."""
    from agentgym.datasets import data_root, dataset, store

    count, before, after = store.pack(dataset(name), data_root())
    click.echo(f"{count} files, {before:,} -> {after:,} bytes")


@data.command(short_help="Check a data set against its manifest.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@json_option
def verify(names: tuple[str, ...], as_json: bool) -> int:
    """Hash every file of the data sets (all that are here) again. Exit code 1 where one is missing or changed."""
    from agentgym.datasets import catalogue, data_root, dataset, manifest

    root = data_root()
    chosen = [dataset(name) for name in names] or [d for d in catalogue().values() if d.folder(root).is_dir()]
    if not chosen:
        raise DataError(f"{root} holds no data set")
    found = {known.name: manifest.verify(known.folder(root)) for known in chosen}
    if as_json:
        print_json(
            {name: [{"file": p.file, "what": p.what, **p.details} for p in some] for name, some in found.items()}
        )
    else:
        for name, problems in found.items():
            for problem in problems:
                click.echo(f"{name}: {problem.file} is {problem.what}")
            click.echo(f"{name}: {'ok' if not problems else f'{len(problems)} files differ'}")
    return int(any(p.what != "unlisted" for problems in found.values() for p in problems))


def _told(found: dict[str, Any], folder: Path) -> None:
    size = sum(entry["size"] for entry in found["files"].values())
    click.echo(f"{folder}: {len(found['files'])} files, {size:,} bytes, version {found['version']}")


def _progress() -> Callable[[int, int | None], None] | None:
    import sys
    import time

    if not sys.stderr.isatty():
        return None
    last = 0.0

    def show(done: int, total: int | None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > 0.2 or done == total:
            last = now
            share = f" of {total / 2**20:.1f}" if total else ""
            click.echo(f"\r{done / 2**20:.1f}{share} MiB", nl=done == total, err=True)

    return show
