"""Episodes as bytes and back, without loss: JSON for what is text, packed arrays for tokens.

A record is two 4-byte lengths, the JSON, then for all token rows together ids (int32), turns (int32), logprobs
(float32) and mask (1 byte each), little-endian. Turns and tasks are lists in the field order that the file states, so
a later version can add fields.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

import numpy as np

from agentgym.errors import DataError
from agentgym.tokens import TokenRow
from agentgym.types import Episode, Task, Termination, Turn

LENGTHS = struct.Struct("<II")
TASK_FIELDS = tuple(field.name for field in fields(Task))
TURN_FIELDS = tuple(field.name for field in fields(Turn))
_task_values = attrgetter(*TASK_FIELDS)
_turn_values = attrgetter(*TURN_FIELDS)
_TUPLES = ("admissible", "milestones")


def _plain(value: Any) -> Any:
    """NumPy values as JSON has them; anything else is the caller's mistake."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON-compatible: {value!r:.80}")


_encode = json.JSONEncoder(default=_plain, separators=(",", ":"), check_circular=False).encode


def json_problem(value: Any) -> str:
    """Why JSON cannot hold ``value``; empty where it can."""
    try:
        _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        return str(error) or type(error).__name__
    return ""


def encode(episode: Episode) -> bytes:
    """One record. Raises TypeError, naming the episode, for info or data that JSON cannot hold."""
    rows = episode.rows
    document = {
        "task": _task_values(episode.task),
        "index": episode.index,
        "seed": episode.seed,
        "turns": [_turn_values(turn) for turn in episode.turns],
        "termination": episode.termination.value,
        "outcome": episode.outcome,
        "success": episode.success,
        "milestone_names": episode.milestone_names,
        "rows": [len(row) for row in rows],
        "policy": episode.policy,
        "error": episode.error,
        "info": episode.info,
    }
    try:
        text = _encode(document).encode()
    except (TypeError, ValueError) as error:
        raise TypeError(f"{episode.where} cannot be stored: {error}") from error
    parts = [
        np.ascontiguousarray(getattr(row, name), dtype).tobytes()
        for name, dtype in (("ids", "<i4"), ("turns", "<i4"), ("logprobs", "<f4"), ("mask", "?"))
        for row in rows
    ]
    arrays = b"".join(parts)
    return b"".join((LENGTHS.pack(len(text), len(arrays)), text, arrays))


def split(block: bytes) -> list[tuple[memoryview, memoryview]]:
    """The (JSON, arrays) parts of every record in a block of records."""
    view, at, out = memoryview(block), 0, []
    while at < len(view):
        text, arrays = LENGTHS.unpack_from(view, at)
        at += LENGTHS.size
        if at + text + arrays > len(view):
            raise DataError(f"a record of {text} + {arrays} bytes exceeds its block of {len(view)} bytes")
        out.append((view[at : at + text], view[at + text : at + text + arrays]))
        at += text + arrays
    return out


def decode(text: memoryview, arrays: memoryview, task_fields: Sequence[str], turn_fields: Sequence[str]) -> Episode:
    """The episode of one record. ``task_fields``/``turn_fields``: the order its file states."""
    document = json.loads(bytes(text))
    admissible, milestones = (turn_fields.index(name) for name in _TUPLES)
    turns = []
    for values in document["turns"]:
        if values[admissible] is not None:
            values[admissible] = tuple(values[admissible])
        values[milestones] = tuple(values[milestones])
        turns.append(Turn(**dict(zip(turn_fields, values, strict=True))))
    return Episode(
        task=Task(**dict(zip(task_fields, document["task"], strict=True))),
        index=document["index"],
        seed=document["seed"],
        turns=turns,
        termination=Termination(document["termination"]),
        outcome=document["outcome"],
        success=document["success"],
        milestone_names=tuple(document["milestone_names"]),
        rows=_rows(document["rows"], arrays),
        policy=document["policy"],
        error=document["error"],
        info=document["info"],
    )


def _rows(lengths: list[int], data: memoryview) -> list[TokenRow]:
    total = sum(lengths)
    if len(data) != 13 * total:
        raise DataError(f"{len(data)} bytes of token arrays, expected {13 * total}")
    ids = np.frombuffer(data, "<i4", total).astype(np.int32)
    turns = np.frombuffer(data, "<i4", total, 4 * total).astype(np.int32)
    logprobs = np.frombuffer(data, "<f4", total, 8 * total).astype(np.float32)
    mask = np.frombuffer(data, "?", total, 12 * total).copy()
    rows, at = [], 0
    for length in lengths:
        part = slice(at, at + length)
        rows.append(TokenRow(ids[part], mask[part], logprobs[part], turns[part]))
        at += length
    return rows
