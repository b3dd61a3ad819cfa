"""The episode store: exact, streaming, and unharmed by crashes (pitfall 58)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from fakes import Counter, SeededPolicy, tasks_for
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym import Episode, EpisodeStore, Task, Termination, TokenRow, rollout
from agentgym.errors import AgentGymError, DataError
from agentgym.types import Turn

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
infos = st.dictionaries(st.text(), json_values, max_size=3)
names = st.lists(st.text(), max_size=3).map(tuple)
finite = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def token_rows(draw):
    length = draw(st.integers(0, 12))
    mask = np.asarray(draw(st.lists(st.booleans(), min_size=length, max_size=length)), np.bool_)
    ids = draw(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=length, max_size=length))
    logprobs = draw(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=length,
                             max_size=length))  # fmt: skip
    turns = draw(st.lists(st.integers(0, 2**31 - 1), min_size=length, max_size=length))
    return TokenRow(
        np.asarray(ids, np.int32), mask, np.asarray(logprobs, np.float32),
        np.where(mask, np.asarray(turns, np.int32), np.int32(-1)).astype(np.int32),
    )  # fmt: skip


@st.composite
def episodes(draw):
    rows = draw(st.lists(token_rows(), max_size=3))
    turns = []
    for index in range(draw(st.integers(0, 4))):
        row = draw(st.integers(-1, len(rows) - 1))
        end = draw(st.integers(0, len(rows[row].ids))) if row >= 0 else 0
        turns.append(
            Turn(
                index, draw(st.text()), draw(st.text()), draw(st.none() | st.text()), draw(st.text()),
                draw(st.text()), draw(st.none() | names), draw(st.booleans()), draw(st.booleans()),
                draw(st.booleans()), draw(names), draw(st.dictionaries(st.text(), finite, max_size=3)), row,
                draw(st.integers(0, end)), end, draw(st.sampled_from(["stop", "length"])),
                draw(st.integers(0, 9999)), draw(st.integers(0, 9999)), draw(infos),
            )
        )  # fmt: skip
    termination = draw(st.sampled_from(Termination))
    return Episode(
        Task("env", draw(st.text(min_size=1)), draw(st.text()), draw(st.integers(0, 2**63)), draw(st.text()),
             draw(json_values)),
        draw(st.integers(0, 99)), draw(st.integers(0, 2**63)), turns, termination, draw(finite),
        draw(st.booleans()) and termination is Termination.ENV_DONE, draw(names), rows, draw(st.text()),
        draw(st.text()), draw(infos),
    )  # fmt: skip


def row_bytes(episode):
    return [(r.ids.dtype, r.ids.tobytes(), r.mask.dtype, r.mask.tobytes(), r.logprobs.dtype, r.logprobs.tobytes(),
             r.turns.dtype, r.turns.tobytes()) for r in episode.rows]  # fmt: skip


def same(left, right):
    assert left.task == right.task
    assert left.turns == right.turns
    assert row_bytes(left) == row_bytes(right)
    for name in ("index", "seed", "termination", "outcome", "success", "milestone_names", "policy", "error", "info"):
        value, other = getattr(left, name), getattr(right, name)
        assert (value, type(value)) == (other, type(other)), name


def some(count=6):
    groups = rollout(Counter, SeededPolicy(), tasks_for("x", count))
    return [episode for group in groups for episode in group]


@settings(max_examples=60, deadline=None)
@given(batch=st.lists(episodes(), min_size=1, max_size=3))
def test_round_trip_is_exact(batch, tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "e.agym"
    with EpisodeStore(path) as store:
        for episode in batch:
            store.append(episode)
    read = list(EpisodeStore(path))
    assert len(read) == len(batch)
    for left, right in zip(batch, read, strict=True):
        same(left, right)


def test_len_index_iteration_and_later_appends(tmp_path):
    written = some()
    store = EpisodeStore(tmp_path / "deep" / "e.agym", flush_seconds=0)
    for episode in written[:3]:
        store.append(episode)
    assert len(store) == 3
    same(store[0], written[0])
    same(store[-1], written[2])
    with pytest.raises(IndexError, match="episode 3 of 3"):
        store[3]
    store.close()
    with EpisodeStore(store.path, flush_seconds=100) as again:
        for episode in written[3:]:
            again.append(episode)
        assert [e.task.name for e in again] == [e.task.name for e in written]  # reading flushes
        for at, episode in enumerate(written):
            same(again[at], episode)


def test_rollout_writes_every_episode(tmp_path):
    store = EpisodeStore(tmp_path / "e")
    groups = rollout(Counter, SeededPolicy(), tasks_for("x", 4), n=2, store=store)
    stored = sorted((e.task.name, e.index) for e in EpisodeStore(tmp_path / "e"))
    assert stored == sorted((e.task.name, e.index) for g in groups for e in g)


def test_second_writer_is_refused_readers_are_not(tmp_path):
    written = some(3)
    with EpisodeStore(tmp_path / "e", flush_seconds=0) as store:
        store.append(written[0])
        other = EpisodeStore(tmp_path / "e")
        assert len(other) == 1
        with pytest.raises(AgentGymError, match="being written by another"):
            other.append(written[1])
        store.append(written[1])
        assert [e.task.name for e in other] == ["t0", "t1"]  # a reader sees what came later
    other.append(written[2])
    other.close()
    assert len(EpisodeStore(tmp_path / "e")) == 3


def test_torn_end_at_every_length_is_cut_and_reported(tmp_path):
    path, written = tmp_path / "e", some(3)
    with EpisodeStore(path, flush_seconds=0) as store:
        store.append(written[0])
        whole = path.stat().st_size
        store.append(written[1])
    data = path.read_bytes()
    for cut in [whole + 1, whole + 19, whole + 20, whole + 21, len(data) - 1]:
        path.write_bytes(data[:cut])
        reader = EpisodeStore(path)
        assert len(reader) == 1
        assert reader.torn_bytes == cut - whole
        reader.close()
        with EpisodeStore(path, flush_seconds=0) as store:
            store.append(written[2])
            assert store.repaired_bytes == cut - whole
        assert [e.task.name for e in EpisodeStore(path)] == ["t0", "t2"]


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 15, 16, 40])
def test_writer_that_died_in_the_header_left_an_empty_store(tmp_path, length):
    with EpisodeStore(tmp_path / "whole") as store:
        store.lock()
    path = tmp_path / "torn"
    path.write_bytes((tmp_path / "whole").read_bytes()[:length])
    assert len(EpisodeStore(path)) == 0


def test_folder_in_place_of_a_store_is_named(tmp_path):
    with pytest.raises(DataError, match="is not a file"):
        len(EpisodeStore(tmp_path))


def test_last_frame_of_right_length_and_wrong_content_is_torn_too(tmp_path):
    path, written = tmp_path / "e", some(2)
    with EpisodeStore(path, flush_seconds=0) as store:
        store.append(written[0])
        whole = path.stat().st_size
        store.append(written[1])
    data = path.read_bytes()
    path.write_bytes(data[: whole + 20] + b"\0" * (len(data) - whole - 20))
    with EpisodeStore(path) as store:
        store.lock()
        assert store.repaired_bytes == len(data) - whole
        assert len(store) == 1


@pytest.mark.parametrize("where", ["mark", "length", "payload"])
def test_damage_in_the_middle_names_file_and_offset(tmp_path, where):
    path = tmp_path / "e"
    with EpisodeStore(path, flush_seconds=0) as store:
        store.lock()
        start = path.stat().st_size
        for episode in some(3):
            store.append(episode)
    data = bytearray(path.read_bytes())
    at = start + {"mark": 0, "length": 4, "payload": 40}[where]
    data[at] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(DataError, match=rf"{path}: damaged at offset {start}"):
        list(EpisodeStore(path))
    assert path.read_bytes() == data  # reading repairs nothing


@pytest.mark.parametrize("content", [b"hello world, this is a text file", b"short", b"AGYMEPIS" + b"\xff" * 40])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match="not an episode store"):
        len(EpisodeStore(path))


def test_a_short_foreign_file_is_not_overwritten(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"short")
    with pytest.raises(DataError, match="not an episode store"):
        EpisodeStore(path).lock()
    assert path.read_bytes() == b"short"


def test_missing_file(tmp_path):
    with pytest.raises(DataError, match="no episode store at"):
        len(EpisodeStore(tmp_path / "nothing"))
    assert not (tmp_path / "nothing").exists()


def test_newer_schema_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("agentgym._frames.SCHEMA", 2)
    with EpisodeStore(tmp_path / "e") as store:
        store.lock()
    monkeypatch.undo()
    with pytest.raises(DataError, match="schema 2"):
        len(EpisodeStore(tmp_path / "e"))


def test_what_json_cannot_hold_is_refused_by_name(tmp_path):
    (episode,) = some(1)
    episode.info["bad"] = object()
    with EpisodeStore(tmp_path / "e") as store, pytest.raises(TypeError, match="task 't0' episode 0 cannot be stored"):
        store.append(episode)


def test_numpy_scalars_in_info_become_plain(tmp_path):
    (episode,) = some(1)
    episode.info.update(a=np.float32(0.5), b=np.int64(3), c=np.arange(2), d=np.bool_(True))
    with EpisodeStore(tmp_path / "e") as store:
        store.append(episode)
        assert store[0].info == {**episode.info, "a": 0.5, "b": 3, "c": [0, 1], "d": True}


def test_full_disk_loses_nothing_and_leaves_no_half_frame(tmp_path, monkeypatch):
    written = some(2)
    store = EpisodeStore(tmp_path / "e", flush_seconds=0)
    store.append(written[0])
    real = os.pwrite

    def full(fd, data, offset):
        real(fd, data[:7], offset)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space"):
        store.append(written[1])
    monkeypatch.undo()
    store.close()  # now there is room again
    assert [e.task.name for e in EpisodeStore(tmp_path / "e")] == ["t0", "t1"]


KILLED = """
    import sys, time
    sys.path[:0] = {path!r}
    from agentgym import EpisodeStore
    from fakes import Counter, tasks_for
    from agentgym.rollouts import record
    store = EpisodeStore(sys.argv[1], flush_seconds=0.2)
    for number, task in enumerate(tasks_for("x", 100000)):
        store.append(record(Counter(), task, "0123"))
        if number == 500:
            while store._waiting:  # the timer writes it
                time.sleep(0.02)
            print("ready", flush=True)
"""


def test_kill_9_loses_at_most_what_was_waiting(tmp_path):
    root, path = Path(__file__).parents[1], tmp_path / "e"
    code = textwrap.dedent(KILLED).format(path=[str(root), str(root / "tests")])
    process = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    with EpisodeStore(path) as store:
        before = len(store)
        assert before >= 501
        store.append(some(1)[0])
        assert [e.task.name for e in store][:-1] == [f"t{i}" for i in range(before)]


def test_tables_join_on_episode(tmp_path):
    written = some(4)
    with EpisodeStore(tmp_path / "e") as store:
        for episode in written:
            store.append(episode)
        frame = store.to_pandas()
        assert frame["outcome"].tolist() == [e.outcome for e in written]
        assert frame["termination"].tolist() == ["env_done"] * 4
        turns = store.to_pandas("turns")
        assert len(turns) == 16
        assert turns["observation"][5] == written[1].turns[1].observation
        assert dict(turns["rewards"][0]) == written[0].turns[0].rewards
        rows = store.to_arrow("rows").to_pylist()
        assert rows[0]["ids"] == written[0].rows[0].ids.tolist()
        assert rows[0]["logprobs"] == written[0].rows[0].logprobs.tolist()
        store.to_parquet(tmp_path / "turns.parquet", "turns")
        with pytest.raises(ValueError, match="episodes, turns, rows"):
            store.to_arrow("tokens")  # type: ignore[arg-type]
    import pyarrow.parquet as pq

    assert pq.read_table(tmp_path / "turns.parquet").num_rows == 16
