"""The memory's file: whole steps, one writer, damage set aside, not one byte changed in evaluation."""

from __future__ import annotations

import logging
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentgym._sqlite import HEADER
from agentgym.credit.retro.embeddings import HashedEmbedder
from agentgym.credit.retro.entries import Lesson
from agentgym.credit.retro.memory import LessonMemory
from agentgym.errors import ConfigError, DataError


def lesson(text: str, task_id: str = "a") -> Lesson:
    return Lesson((task_id,), "put a mug in the desk", text, "train", "rules", 3, True)


def written(path: Path, *texts: str, **options: Any) -> LessonMemory:
    made = LessonMemory(path, **options)
    for text in texts:
        made.add(lesson(text))
    made.commit()
    return made


def snapshot(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def test_what_was_committed_comes_back_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lessons.sqlite"
    made = written(path, "open it first", "Ünïcode 猫 lesson")
    made.update([made.search("put a mug in the desk")[0].id], True)
    made.commit()
    rows = made.rows()
    made.add(lesson("never committed"))
    made.close()
    again = LessonMemory(path)
    assert again.rows() == rows
    assert {row["count"] for row in rows} == {1, 2}
    assert [one.id for one in again.search("put a mug in the desk", 3)] == [
        one.id for one in made.search("put a mug in the desk", 9) if one.text != "never committed"
    ]
    assert again.damaged == 0


def test_evicted_lessons_leave_the_file(tmp_path: Path) -> None:
    made = written(tmp_path / "m", *(f"lesson {i}" for i in range(9)), max_entries=3)
    rows = made.rows()
    made.close()
    assert len(rows) == 3
    assert LessonMemory(tmp_path / "m").rows() == rows


def test_reading_and_freezing_leave_every_byte(tmp_path: Path) -> None:
    made = written(tmp_path / "m", "open it first", "look around")
    live = snapshot(tmp_path)
    assert live["m-wal"]  # the writer is open and its last step is still in the WAL
    reader = LessonMemory(tmp_path / "m", writable=False)
    assert reader.rows() == made.rows()
    assert len(reader.search("put a mug in the desk", 3, "eval")) == 2
    assert snapshot(tmp_path) == live
    made.freeze()
    still = snapshot(tmp_path)
    assert set(still) == {"m", "m.lock"}
    assert len(made.search("put a mug in the desk", 3, "eval")) == 2
    other = LessonMemory(tmp_path / "m", HashedEmbedder(64), max_entries=1, writable=False)  # would rewrite, may not
    other.commit()
    assert len(other.search("put a mug in the desk", 3, "eval")) == 2
    assert snapshot(tmp_path) == still


def test_reading_what_is_not_there_creates_nothing(tmp_path: Path) -> None:
    reader = LessonMemory(tmp_path / "m", writable=False)
    assert (len(reader), reader.search("x"), list(tmp_path.iterdir())) == (0, [], [])


@pytest.mark.parametrize("damage", ["garbage", "torn", "overwritten", "schema"])
def test_a_damaged_file_is_set_aside_and_counted(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "m"
    written(path, *(f"lesson number {i}" for i in range(60))).close()
    raw = path.read_bytes()
    if damage == "garbage":
        path.write_bytes(HEADER + b"garbage" * 999)
    elif damage == "torn":
        path.write_bytes(raw[: len(raw) // 2])
    elif damage == "overwritten":
        path.write_bytes(raw[:20000] + b"\xff" * 20000 + raw[40000:])
    else:
        with sqlite3.connect(path) as db:
            db.execute("ALTER TABLE lessons RENAME COLUMN utility TO worth")
        db.close()
    broken = path.read_bytes()
    with caplog.at_level(logging.WARNING):
        reader = LessonMemory(path, writable=False)
        assert (len(reader), reader.damaged) == (0, 1)
        assert path.read_bytes() == broken
        made = LessonMemory(path)
    assert "damaged" in caplog.text
    assert (len(made), made.damaged) == (0, 1)
    assert (tmp_path / "m.damaged-1").read_bytes() == broken
    made.add(lesson("a new beginning"))
    made.commit()
    made.close()
    assert len(LessonMemory(path)) == 1


@pytest.mark.parametrize("writable", [True, False])
def test_a_file_that_never_was_a_memory_is_left_alone(tmp_path: Path, writable: bool) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n")
    with pytest.raises(ConfigError, match=r"notes\.txt is no SQLite file; give another path"):
        LessonMemory(path, writable=writable)
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]
    assert path.read_text() == "my notes\n"


def test_a_second_damage_does_not_overwrite_the_first(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / "m").write_bytes(HEADER + b"%d" % number * 5000)
        LessonMemory(tmp_path / "m").close()
    assert (tmp_path / "m.damaged-1").read_bytes() == HEADER + b"1" * 5000
    assert (tmp_path / "m.damaged-2").read_bytes() == HEADER + b"2" * 5000


@pytest.mark.parametrize(
    "change", ["utility = 7.5", "count = 0", "task_ids = '[]'", "task_ids = 'x'", "text = ''", "utility = 'much'"]
)
def test_a_damaged_row_is_passed_over_and_counted(tmp_path: Path, change: str) -> None:
    written(tmp_path / "m", "open it first", "look around").close()
    with sqlite3.connect(tmp_path / "m") as db:
        db.execute(f"UPDATE lessons SET {change} WHERE text LIKE 'open%'")
    db.close()
    made = LessonMemory(tmp_path / "m")
    assert ([one.text for one in made], made.damaged) == (["look around"], 1)


def test_foreign_and_newer_files_are_refused_untouched(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other") as db:
        db.execute("CREATE TABLE people (name TEXT)")
    db.close()
    written(tmp_path / "newer", "open it first").close()
    with sqlite3.connect(tmp_path / "newer") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    before = (tmp_path / "other").read_bytes(), (tmp_path / "newer").read_bytes()
    for writable in (True, False):
        with pytest.raises(ConfigError, match="another application"):
            LessonMemory(tmp_path / "other", writable=writable)
        with pytest.raises(ConfigError, match="version 99"):
            LessonMemory(tmp_path / "newer", writable=writable)
        with pytest.raises(ConfigError, match="is a folder"):
            LessonMemory(tmp_path, writable=writable)
    assert ((tmp_path / "other").read_bytes(), (tmp_path / "newer").read_bytes()) == before


WRITER = """
import sys
from pathlib import Path
from agentgym.credit.retro.entries import Lesson
from agentgym.credit.retro.memory import LessonMemory
memory = LessonMemory(Path(sys.argv[1]))
memory.add(Lesson(("a",), "put a mug in the desk", "committed by another process"))
memory.commit()
memory.add(Lesson(("a",), "put a mug in the desk", "never committed"))
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_second_writer_is_refused_and_a_killed_one_loses_only_its_open_step(tmp_path: Path) -> None:
    path = tmp_path / "m"
    other = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(ConfigError, match="another training run"):
            LessonMemory(path)
        assert [one.text for one in LessonMemory(path, writable=False)] == ["committed by another process"]
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    made = LessonMemory(path)
    assert ([one.text for one in made], made.damaged) == (["committed by another process"], 0)
    with pytest.raises(ConfigError, match="another training run"):  # the same process is no exception
        LessonMemory(path)


def test_a_full_disk_is_one_clear_error_and_the_file_keeps_its_last_step(tmp_path: Path) -> None:
    made = written(tmp_path / "m", "open it first")
    db = made._file._db  # type: ignore[union-attr]
    pages = db.execute("PRAGMA page_count").fetchone()[0]  # type: ignore[union-attr]
    db.execute(f"PRAGMA max_page_count = {pages}")  # type: ignore[union-attr]
    for i in range(200):
        made.add(lesson(f"lesson number {i}"))
    with pytest.raises(DataError, match="disk full"):
        made.commit()
    db.execute("PRAGMA max_page_count = 1000000")  # type: ignore[union-attr]
    reader = LessonMemory(tmp_path / "m", writable=False)
    assert [one.text for one in reader] == ["open it first"]
    made.commit()  # space was made: nothing of the refused step is lost
    made.close()
    assert len(LessonMemory(tmp_path / "m")) == 201


def test_an_uncreatable_path_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="could not be created"):
        LessonMemory(tmp_path / "file" / "m")


def test_another_embedder_embeds_the_lessons_anew(tmp_path: Path) -> None:
    written(tmp_path / "m", "open it first").close()
    small = LessonMemory(tmp_path / "m", HashedEmbedder(64))
    assert small.search("put a mug in the desk")[0].text == "open it first"
    small.commit()
    small.close()
    with sqlite3.connect(tmp_path / "m") as db:
        assert db.execute("SELECT length(vector) FROM lessons").fetchall() == [(256,)]
        assert db.execute("SELECT value FROM meta WHERE key = 'embedder'").fetchall() == [("hashed-1-64",)]
    db.close()


def test_going_back_to_a_checkpoint_reaches_the_file_with_the_next_commit(tmp_path: Path) -> None:
    made = written(tmp_path / "m", "of the checkpoint")
    rows = made.rows()
    made.add(lesson("after it"))
    made.commit()
    made.close()
    again = LessonMemory(tmp_path / "m")
    assert len(again) == 2
    again.replace_all(rows)
    again.commit()
    again.close()
    assert LessonMemory(tmp_path / "m").rows() == rows
