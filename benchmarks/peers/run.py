"""Our library beside its peers: the same work, one core each, one after the other, one table.

    python benchmarks/peers/run.py             # make bench-peers: all, results in benchmarks/results/peers.json
    python benchmarks/peers/run.py --quick     # two short repetitions, nothing kept: does it all work?
    python benchmarks/peers/run.py --show      # the table of the last run

Each peer is installed at a pinned version in a virtual environment of its own (``.venv-peers/NAME``), once. A figure is
CPU time on one core, or where the row says so wall time on all; the median of 7 repetitions with minimum and maximum.
Both times are in the results file. What a peer cannot do
is a dash, with the reason in the file. A peer that cannot be installed or fails is shown and does not stop the others.
"""

from __future__ import annotations

import argparse
import datetime
import difflib
import json
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plan import SIDES, WORKS, Side, Work
from steps import clean, endpoint, measured
from table import ratio, render
from venvs import provide, python_of

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "benchmarks" / "results" / "peers.json"


def chosen(names: Sequence[str], known: Sequence[str], what: str) -> list[str]:
    """The names asked for, in the plan's order; all where none are."""
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            sys.exit(f"bench-peers: unknown {what} {name!r}{hint} Known: {', '.join(known)}")
    return [name for name in known if name in names or not names]


def say(text: str) -> None:
    """Progress, away from the table."""
    print(text, file=sys.stderr, flush=True)


def compare(
    sides: Sequence[Side], works: Sequence[Work], venvs: Path, repeats: int, least: float, install: bool = True
) -> dict[str, Any]:
    """Install, measure, compare: ``{sides: {name: ...}, rows: [{work, title, cells}]}``."""
    peers: dict[str, Any] = {}
    for side in sides:
        peers[side.name] = {"note": side.note} if side.note else {}
        if side.packages:
            say(f"{side.name}: {' '.join(side.packages)}")
            peers[side.name] |= provide(side, venvs, install)
            say(f"{side.name}: {peers[side.name]['status']}")
    rows = []
    with endpoint(any(work.server for work in works)) as url:
        for work in works:
            cells: dict[str, Any] = {}
            for side in sides:
                if peers[side.name].get("status") == "failed":
                    cells[side.name] = {"failed": "not installed"}
                    continue
                cell = measured(side, work, python_of(side, venvs), repeats, least, url)
                peers[side.name].setdefault("versions", {}).update(cell.pop("versions", {}))
                cells[side.name] = cell
                say(f"{work.key}, {side.name}: {cell.get('cpu_us', cell)}")
            base, time = cells.get(SIDES[0].name, {}), "wall_us" if work.wall else "cpu_us"
            for cell in cells.values():
                cell |= {} if (times := ratio(cell, base, time)) is None else {"ratio": times}
            rows.append({"work": work.key, "title": work.title, "time": time, "cells": cells})
    return {"sides": peers, "rows": rows}


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    facts = {"cpus": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    return {**facts, "model": models[0] if models else "unknown"}


def load() -> list[float]:
    """The machine's load over 1, 5 and 15 minutes: wall times mean nothing above the number of its cores."""
    return [round(value, 2) for value in os.getloadavg()]


def rounded(value: Any) -> Any:
    """Four significant digits."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two short repetitions; kept only with --out")
    parser.add_argument("--peers", nargs="+", default=[], metavar="NAME", help="only these columns")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORK", help="only these rows")
    parser.add_argument("--venvs", type=Path, default=ROOT / ".venv-peers", help="folder of virtual environments")
    parser.add_argument("--no-install", action="store_true", help="do without peers that are not installed")
    parser.add_argument("--show", action="store_true", help="measure nothing: print the table of the results file")
    parser.add_argument("--out", type=Path, help=f"results file (default {RESULT.relative_to(ROOT)})")
    return parser.parse_args(arguments)


def show(file: Path) -> int:
    """The table of an earlier run."""
    if not file.is_file():
        sys.exit(f"bench-peers: no results in {file}; run without --show first")
    document = json.loads(file.read_text(encoding="utf-8"))
    print(render(document["rows"], list(document["sides"])))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; 1 if a peer is missing or broke."""
    options = parse(arguments)
    if options.show:
        return show(options.out or RESULT)
    names = chosen(options.peers, [side.name for side in SIDES], "peer")
    keys = chosen(options.only, [work.key for work in WORKS], "work")
    sides = [side for side in SIDES if side.name in names]
    works = [work for work in WORKS if work.key in keys]
    before, begun = load(), datetime.datetime.now(datetime.UTC)
    repeats, least = (2, 0.01) if options.quick else (7, 0.2)
    found = compare(sides, works, options.venvs, repeats, least, not options.no_install)
    flags = ["--quick"] * options.quick + (["--peers", *names] if options.peers else [])
    flags += ["--only", *keys] if options.only else []
    document = {
        "benchmark": "peers",
        "what": "microseconds a unit, one side after the other, on one core (rows of wall_us: all): median, minimum "
        "and maximum of the repetitions",
        "command": shlex.join(["python", "benchmarks/peers/run.py", *flags]),
        "date": begun.strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": (datetime.datetime.now(datetime.UTC) - begun).total_seconds(),
        "machine": machine(),
        "load": {"before": before, "after": load()},
        "repeats": repeats,
        **found,
    }
    text = clean(json.dumps(rounded(document), indent=2, ensure_ascii=False), (ROOT, options.venvs.resolve()))
    print(render(found["rows"], names))
    for name, facts in found["sides"].items():
        if facts.get("status") == "failed":
            print(f"{name} is not installed: {facts['error'].splitlines()[-1]}")
    target = options.out or (None if options.quick else RESULT)
    if target:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text + "\n", encoding="utf-8")
        say(f"written to {target}")
    return int(any("failed" in cell for row in found["rows"] for cell in row["cells"].values()))


if __name__ == "__main__":
    sys.exit(main())
