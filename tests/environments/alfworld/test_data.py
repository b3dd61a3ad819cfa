"""Official games on disk: both layouts, order, ids, and every way in which files can be wrong."""

from __future__ import annotations

import json
import lzma
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym.environments.alfworld import ALFWorld
from agentgym.environments.alfworld.data import kind_of
from agentgym.environments.alfworld.pddl import problem_text
from agentgym.environments.alfworld.problem import KINDS, Problem
from agentgym.errors import ConfigError, DataError, UnknownNameError
from agentgym.types import Task

Small = Callable[[str], Problem]
Row = dict[str, Any]


@pytest.fixture
def rows(small: Small) -> list[Row]:
    """One game per task type, in no particular order."""
    made = []
    for kind in sorted(KINDS, reverse=True):
        problem = small(kind)
        name = f"{kind}-Mug-None-Place-1/trial_{kind}"
        made.append({"id": name, "task": problem.task, "problem": problem_text(problem), "walkthrough": ["look"]})
    return made


def write_pack(folder: Path, rows: list[Row], split: str = "train") -> Path:
    path = folder / "alfworld" / f"{split}.jsonl.xz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    return path


def write_official(folder: Path, rows: list[Row], split: str = "train") -> None:
    for row in rows:
        path = folder / "alfworld" / "json_2.1.1" / split / row["id"] / "game.tw-pddl"
        path.parent.mkdir(parents=True)
        line = json.dumps({"rhs": f"Your task is to: {row['task']}"})
        game = {"pddl_domain": "", "grammar": f'"task": [{line}]', "pddl_problem": row["problem"], "solvable": True}
        path.write_text(json.dumps({**game, "walkthrough": row["walkthrough"]}), encoding="utf-8")


def test_packs_are_sorted_named_and_playable(tmp_path: Path, rows: list[Row]) -> None:
    write_pack(tmp_path, rows)
    env = ALFWorld(data=str(tmp_path))
    tasks = env.tasks("train")
    assert [task.name for task in tasks] == sorted(row["id"] for row in rows)
    assert {task.kind for task in tasks} == set(KINDS)
    assert len(pickle.dumps(tasks[0])) < 500  # a reference, not the game
    assert str(tmp_path) not in repr(tasks[0])
    for task in tasks:
        assert env.reset(pickle.loads(pickle.dumps(task))).text.startswith("-= Welcome")


def test_both_layouts_give_the_same_tasks(tmp_path: Path, rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    rows[0]["task"] = 'put a "clean" mug in cabinet\\shelf.'
    write_pack(tmp_path / "packs", rows)
    write_official(tmp_path / "official", rows)
    skipped = {**rows[1], "id": "pick_and_place_simple-Sliced-None-Place-1/trial_x"}
    write_official(tmp_path / "official", [skipped])
    packs = ALFWorld(data=str(tmp_path / "packs")).tasks("train")
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "official" / "alfworld"))
    assert packs.hash == ALFWorld().tasks("train").hash
    assert list(packs) == list(ALFWorld().tasks("train"))


def test_subsets(tmp_path: Path, rows: list[Row]) -> None:
    write_pack(tmp_path, rows, "valid_seen")
    env = ALFWorld(data=str(tmp_path))
    assert [t.kind for t in env.tasks("valid_seen", kinds="pick_two_obj_and_place")] == ["pick_two_obj_and_place"]
    some = env.tasks("valid_seen", n=3, seed=1)
    assert len(some) == 3
    assert some.hash == env.tasks("valid_seen", n=3, seed=1).hash
    assert [t.name for t in some] == sorted(t.name for t in some)
    with pytest.raises(ConfigError, match="from 1 to 6"):
        env.tasks("valid_seen", n=7)
    with pytest.raises(UnknownNameError, match="'kinds'"):
        env.tasks("valid_seen", kind="pick")
    with pytest.raises(UnknownNameError, match="'pick_two_obj_and_place'"):
        env.tasks("valid_seen", kinds=["pick_two_obj"])


def test_missing_data_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTGYM_DATA", raising=False)
    with pytest.raises(DataError, match=r"AGENTGYM_DATA is not set.*json_2\.1\.1/train.*'generated' needs no data"):
        ALFWorld().tasks("train")
    with pytest.raises(DataError, match=str(tmp_path)):
        ALFWorld(data=str(tmp_path)).tasks("train")
    with pytest.raises(UnknownNameError, match="'valid_unseen'"):
        ALFWorld().tasks("valid-unsen")
    assert len(ALFWorld().tasks("generated", n=2)) == 2


def test_a_truncated_pack_names_file_and_line(tmp_path: Path, rows: list[Row]) -> None:
    path = write_pack(tmp_path, rows)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"train\.jsonl\.xz: damaged or truncated after line \d"):
        ALFWorld(data=str(tmp_path)).tasks("train")
    path.write_bytes(b"not xz at all")
    with pytest.raises(DataError, match="after line 0"):
        ALFWorld(data=str(tmp_path)).tasks("train")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"walkthrough": None}, "walkthrough must be a list"),
        ({"task": ""}, "non-empty"),
        ({"id": "pick_nothing-Mug/trial"}, "unknown task type"),
        ({"id": None}, "non-empty"),
    ],
)
def test_bad_rows_name_file_and_line(tmp_path: Path, rows: list[Row], change: Row, message: str) -> None:
    rows[1].update(change)
    write_pack(tmp_path, rows)
    with pytest.raises(DataError, match=rf"jsonl\.xz, line 2: .*{message}"):
        ALFWorld(data=str(tmp_path)).tasks("train")


def test_bad_json_missing_keys_doubles_and_emptiness(tmp_path: Path, rows: list[Row]) -> None:
    env = ALFWorld(data=str(tmp_path))
    path = write_pack(tmp_path, rows)
    for text, message in [
        ('{"id": 1}\n', "line 1: .*missing: task, problem, walkthrough"),
        (json.dumps(rows[0]) + "\n{oops\n", "line 2: not a JSON object"),
        ("[]\n", "line 1: expected an object"),
        (json.dumps(rows[0]) + "\n" + json.dumps(rows[0]) + "\n", "line 2: game .* occurs twice"),
        ("\n", "holds no ALFWorld game"),
    ]:
        path.write_bytes(lzma.compress(text.encode()))
        with pytest.raises(DataError, match=message):
            env.tasks("train")
    path.write_bytes(lzma.compress(b"\xff\xfe\n"))
    with pytest.raises(DataError, match="UTF-8"):
        env.tasks("train")


@pytest.mark.parametrize("line", ["[" * 100_000, "half"])
def test_packs_nested_without_end_or_with_half_a_character(tmp_path: Path, rows: list[Row], line: str) -> None:
    text = json.dumps({**rows[0], "problem": "\ud800"}) if line == "half" else line
    path = tmp_path / "train.jsonl.xz"
    path.write_bytes(lzma.compress((text + "\n").encode()))
    with pytest.raises(DataError, match=r"train\.jsonl\.xz, line 1"):
        ALFWorld(data=str(tmp_path)).tasks("train")


@pytest.mark.parametrize("seed", ["x", -1, True, 1.5])
@pytest.mark.parametrize("split", ["train", "generated"])
def test_seeds_that_are_none_are_refused(tmp_path: Path, rows: list[Row], seed: Any, split: str) -> None:
    write_pack(tmp_path, rows)
    with pytest.raises(ConfigError, match="seed must be an integer >= 0"):
        ALFWorld(data=str(tmp_path)).tasks(split, n=1, seed=seed)


def test_damaged_official_files_are_named(tmp_path: Path, rows: list[Row]) -> None:
    write_official(tmp_path, rows)
    game = next(tmp_path.rglob("game.tw-pddl"))
    half = json.dumps({"grammar": '"rhs": "Your task is to: look."', "pddl_problem": "\ud800"})
    for text in ("{", "[]", '{"grammar": "", "pddl_problem": ""}', half, "[" * 100_000):
        game.write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=str(game.parent.name)):
            ALFWorld(data=str(tmp_path)).tasks("train", seed=len(text))
        game.touch()


def test_other_versions_of_a_game_are_refused(tmp_path: Path, rows: list[Row]) -> None:
    write_pack(tmp_path, rows)
    env = ALFWorld(data=str(tmp_path))
    task = env.tasks("train")[0]
    rows[-1]["task"] = "put some mug on cabinet."
    write_pack(tmp_path, rows)
    with pytest.raises(DataError, match="another version of the data"):
        ALFWorld(data=str(tmp_path)).reset(Task("alfworld", task.name, "train", data=task.data, id="0" * 16))
    with pytest.raises(DataError, match="no game 'x'"):
        env.reset(Task("alfworld", "x", "train", data={"split": "train"}))


def test_an_unusable_problem_is_named_at_reset(tmp_path: Path, rows: list[Row]) -> None:
    rows[0]["problem"] = "(define)"
    write_pack(tmp_path, rows)
    env = ALFWorld(data=str(tmp_path))
    with pytest.raises(DataError, match=r"trial_pick_two_obj_and_place.*no such sections"):
        env.reset(env.tasks("train").find(rows[0]["id"]))


def test_kind_is_the_whole_first_word() -> None:
    assert kind_of("pick_two_obj_and_place-Mug-None-Desk-1/trial_1") == "pick_two_obj_and_place"
