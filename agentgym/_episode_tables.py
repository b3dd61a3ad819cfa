"""Episodes as tables: one row an episode, a turn, or a token row. Used by :class:`agentgym.store.EpisodeStore`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from agentgym.types import Episode

BATCH = 256  # episodes a record batch

_STRINGS = pa.list_(pa.string())
_KEY = [("episode", pa.int64()), ("task_id", pa.string()), ("index", pa.int64())]

SCHEMAS = {
    "episodes": pa.schema([
        *_KEY, ("env", pa.string()), ("task", pa.string()), ("split", pa.string()), ("kind", pa.string()),
        ("task_seed", pa.int64()), ("seed", pa.int64()), ("termination", pa.string()), ("outcome", pa.float64()),
        ("success", pa.bool_()), ("turns", pa.int64()), ("sampled_tokens", pa.int64()), ("invalid_actions", pa.int64()),
        ("milestone_names", _STRINGS), ("policy", pa.string()), ("error", pa.string()), ("info", pa.string()),
    ]),
    "turns": pa.schema([
        *_KEY, ("turn", pa.int64()), ("observation", pa.string()), ("response", pa.string()), ("action", pa.string()),
        ("next_observation", pa.string()), ("state_key", pa.string()), ("admissible", _STRINGS), ("valid", pa.bool_()),
        ("grounded", pa.bool_()), ("terminated", pa.bool_()), ("milestones", _STRINGS),
        ("rewards", pa.map_(pa.string(), pa.float64())), ("row", pa.int32()), ("start", pa.int32()),
        ("end", pa.int32()), ("finish_reason", pa.string()), ("prompt_tokens", pa.int64()),
        ("sampled_tokens", pa.int64()), ("info", pa.string()),
    ]),
    "rows": pa.schema([
        *_KEY, ("row", pa.int32()), ("ids", pa.list_(pa.int32())), ("mask", pa.list_(pa.bool_())),
        ("logprobs", pa.list_(pa.float32())), ("turns", pa.list_(pa.int32())),
    ]),
}  # fmt: skip


def _episode_rows(number: int, episode: Episode) -> Iterator[dict[str, Any]]:
    task = episode.task
    yield {
        "episode": number, "task_id": task.id, "index": episode.index, "env": task.env, "task": task.name,
        "split": task.split, "kind": task.kind, "task_seed": task.seed, "seed": episode.seed,
        "termination": episode.termination.value, "outcome": episode.outcome, "success": episode.success,
        "turns": len(episode.turns), "sampled_tokens": sum(turn.sampled_tokens for turn in episode.turns),
        "invalid_actions": episode.invalid_actions, "milestone_names": list(episode.milestone_names),
        "policy": episode.policy, "error": episode.error, "info": json.dumps(episode.info),
    }  # fmt: skip


def _turn_rows(number: int, episode: Episode) -> Iterator[dict[str, Any]]:
    names = [name for name in SCHEMAS["turns"].names if name not in ("episode", "task_id", "index", "turn")]
    for turn in episode.turns:
        row = {name: getattr(turn, name) for name in names}
        row.update(episode=number, task_id=episode.task.id, index=episode.index, turn=turn.index)
        row["rewards"] = list(turn.rewards.items())
        row["info"] = json.dumps(turn.info)
        yield row


def _token_rows(number: int, episode: Episode) -> Iterator[dict[str, Any]]:
    for at, row in enumerate(episode.rows):
        yield {
            "episode": number, "task_id": episode.task.id, "index": episode.index, "row": at,
            "ids": row.ids, "mask": row.mask, "logprobs": row.logprobs, "turns": row.turns,
        }  # fmt: skip


_MAKERS = {"episodes": _episode_rows, "turns": _turn_rows, "rows": _token_rows}


def _batches(episodes: Iterable[Episode], table: str) -> Iterator[pa.RecordBatch]:
    if table not in SCHEMAS:
        raise ValueError(f"table must be one of {', '.join(SCHEMAS)}, got {table!r}")
    schema, maker = SCHEMAS[table], _MAKERS[table]
    rows: list[dict[str, Any]] = []
    for number, episode in enumerate(episodes):
        rows.extend(maker(number, episode))
        if (number + 1) % BATCH == 0:
            yield pa.RecordBatch.from_pylist(rows, schema)
            rows = []
    yield pa.RecordBatch.from_pylist(rows, schema)


def arrow(episodes: Iterable[Episode], table: str) -> pa.Table:
    """The whole table in memory."""
    return pa.Table.from_batches(list(_batches(episodes, table)))


def parquet(episodes: Iterable[Episode], path: str | os.PathLike[str], table: str) -> None:
    """The table in a Parquet file, batch by batch."""
    batches = _batches(episodes, table)
    with pq.ParquetWriter(os.fspath(path), SCHEMAS[table]) as writer:
        for batch in batches:
            writer.write_batch(batch)
