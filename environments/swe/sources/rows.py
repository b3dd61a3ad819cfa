"""Rows of public data sets as tasks: SWE-bench, SWE-bench-Verified, SWE-Gym, SWE-smith, R2E-Gym.

Files are JSON Lines, JSON (a list) or Parquet. A row that cannot be a task is refused with its file, number and field;
the others are read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym.environments.swe.schema import SWETask, parse_task
from agentgym.environments.swe.sources import convert
from agentgym.errors import ConfigError, DataError, unknown

#: name -> function from a row to the fields of a task
FORMATS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "swe-bench": convert.swe_bench,
    "swe-gym": convert.swe_gym,
    "swe-smith": convert.swe_smith,
    "r2e-gym": convert.r2e_gym,
    "agentgym": dict,
}
MAX_FILE = 4 * 2**30


@dataclass
class Loaded:
    """The tasks of a file in its order; ``refused``: one message for each row that is none; ``formats``: how many rows
    were of which format."""

    tasks: list[SWETask] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    formats: dict[str, int] = field(default_factory=dict)


def detect(row: Mapping[str, Any]) -> str:
    """The format of a row by the fields that only it has. Raises DataError where none fits."""
    if "source" in row:
        return "agentgym"
    if "expected_output_json" in row or {"docker_image", "commit_hash"} <= row.keys():
        return "r2e-gym"
    if "FAIL_TO_PASS" in row and "test_patch" not in row and ("image_name" in row or "base_commit" not in row):
        return "swe-smith"
    if {"FAIL_TO_PASS", "test_patch", "base_commit"} <= row.keys():
        # SWE-bench writes the lists as JSON strings and names the commit of the environment; SWE-Gym does neither
        as_text = isinstance(row["FAIL_TO_PASS"], str)
        return "swe-bench" if as_text or "environment_setup_commit" in row else "swe-gym"
    raise DataError(
        "not a row of SWE-bench, SWE-Gym, SWE-smith or R2E-Gym, nor a task of ours: it has the fields "
        + ", ".join(sorted(map(str, row))[:12])
    )


def load(path: Path, form: str = "auto", split: str = "") -> Loaded:
    """Every row of a file as a task. ``form``: a name of FORMATS, or ``auto`` to look at each row.

    Raises DataError where the file itself cannot be read, UnknownNameError for an unknown format. Rows never raise:
    they are in ``refused``. A second row of the same instance_id is refused, too.
    """
    if form != "auto" and form not in FORMATS:
        raise unknown("format of task rows", form, ["auto", *FORMATS])
    out = Loaded()
    seen: dict[str, str] = {}
    for place, row in _rows(path):
        try:
            if isinstance(row, DataError):
                raise row
            kind = detect(row) if form == "auto" else form
            out.formats[kind] = out.formats.get(kind, 0) + 1
            fields = FORMATS[kind](row)
            task = parse_task({**fields, "split": split} if split else fields)
            if task.instance_id in seen:
                raise DataError(f"software task {task.instance_id!r} stands in {seen[task.instance_id]} already")
            seen[task.instance_id] = place
            out.tasks.append(task)
        except DataError as error:
            out.refused.append(f"{place}: {error}")
    return out


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any] | DataError]]:
    """Each row with the place that an error names; a row that is no mapping is a DataError in its stead."""
    try:
        if path.stat().st_size > MAX_FILE:
            raise DataError(f"{path}: larger than {MAX_FILE >> 30} GiB; split it")
        if path.suffix == ".parquet":
            yield from _parquet(path)
        elif path.suffix in (".jsonl", ".ndjson"):
            yield from _lines(path)
        elif path.suffix == ".json":
            yield from _json(path)
        else:
            raise ConfigError(f"{path}: expected .jsonl, .json or .parquet")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def _lines(path: Path) -> Iterator[tuple[str, Mapping[str, Any] | DataError]]:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                yield f"{path}:{number}", _decoded(line)


def _decoded(line: bytes) -> Mapping[str, Any] | DataError:
    try:
        return _mapping(json.loads(line.decode("utf-8")))
    except UnicodeDecodeError as error:
        return DataError(f"not UTF-8 (byte {error.start})")
    except (json.JSONDecodeError, RecursionError) as error:
        return DataError(f"not JSON: {getattr(error, 'msg', 'nested too deeply')}")


def _mapping(row: Any) -> Mapping[str, Any] | DataError:
    return row if isinstance(row, dict) else DataError(f"a row is a mapping of fields, got {row!r:.80}")


def _json(path: Path) -> Iterator[tuple[str, Mapping[str, Any] | DataError]]:
    try:
        data = json.loads(path.read_bytes().decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 (byte {error.start})") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise DataError(f"{path}: not JSON: {error}") from None
    rows = data if isinstance(data, list) else [data]
    for number, row in enumerate(rows, 1):
        yield f"{path}, row {number}", _mapping(row)


def _parquet(path: Path) -> Iterator[tuple[str, Mapping[str, Any] | DataError]]:
    from pyarrow import ArrowException, parquet

    try:
        with parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=256):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}, row {number}", _mapping(row)
    except ArrowException as error:
        raise DataError(f"{path}: not a Parquet file that can be read: {str(error).splitlines()[0]}") from None
