"""The credit board: methods of credit assignment, ranked by how well they know what a turn was worth.

``benchmarks/credit/bench.py`` measures; this turns its result file into entries of the board ``credit-bench``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentgym.errors import DataError
from agentgym.leaderboards.board import Board
from agentgym.leaderboards.entry import Entry, ModelIdentity, Number
from agentgym.leaderboards.identity import code_version

#: figure of a bench record -> metric of the board
METRICS = {
    "spearman": "spearman", "sign": "sign", "cosine": "cosine", "bias": "bias", "variance": "variance",
    "noise": "noise", "batch_cosine": "step", "ms_per_1000": "ms",
}  # fmt: skip
BENCH = "percentile bootstrap"


def bench_settings(results: Mapping[str, Any]) -> dict[str, Any]:
    """What a credit board fixes: the bench's settings and the environments it played."""
    return {**results["settings"], "environments": sorted(results["environments"])}


def credit_entries(results: Mapping[str, Any], board: Board) -> Iterator[Entry]:
    """One entry for each method. ``numbers`` are plain means over environments, ``kinds`` those of each with intervals.

    DataError where ``results`` is no result file of the credit bench. Results under other settings than the board's
    become stale entries.
    """
    try:
        made_for = board.model_copy(update={"settings": bench_settings(results)})
        by_method: dict[str, list[Mapping[str, Any]]] = {}
        for record in results["records"]:
            by_method.setdefault(record["method"], []).append(record)
        for method, records in by_method.items():
            yield _entry(method, records, results, made_for)
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"not a result file of benchmarks/credit/bench.py: {error!r}") from error


def _entry(method: str, records: list[Mapping[str, Any]], results: Mapping[str, Any], board: Board) -> Entry:
    first = records[0]
    kinds = {str(record["env"]): _numbers(record, results) for record in records}
    numbers = {}
    for name in METRICS.values():
        values = [found[name].value for found in kinds.values() if name in found]
        known = [value for value in values if value is not None]
        if known:
            numbers[name] = Number(
                value=sum(known) / len(known), n=len(known), clusters=len(known), method="mean of environments"
            )
    return Entry(
        kind="credit", board=board.name, board_hash=board.hash, protocol=board.protocol,
        model=ModelIdentity(label=method, kind="method", name=method, options=dict(first["options"])),
        code_version=code_version(), seed=int(results["settings"]["seed"]), tasks=len(records), attempts=1,
        settings={key: first[key] for key in ("kind", "oracle", "credit", "estimator", "options")},
        numbers=numbers, kinds=kinds, note=str(first["note"]), created=f"{results['date']}T00:00:00Z",
    )  # fmt: skip


def _numbers(record: Mapping[str, Any], results: Mapping[str, Any]) -> dict[str, Number]:
    facts = results["environments"][record["env"]]
    units = int(facts["tasks"] if record["env"] == "household" else facts["batches"])
    out = {}
    for key, name in METRICS.items():
        found = record.get(key)
        if found is not None:
            out[name] = Number(
                value=found["mean"], low=found["low"], high=found["high"], n=units, clusters=units, method=BENCH
            )
    return out


def read_results(path: Path) -> dict[str, Any]:
    """The bench's result file. DataError where it is none."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}") from error
    if not isinstance(data, dict) or data.get("benchmark") != "credit_bench":
        raise DataError(f"{path}: expected a result file of benchmarks/credit/bench.py (benchmark: credit_bench)")
    return data
