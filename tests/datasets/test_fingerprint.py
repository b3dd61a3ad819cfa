"""Hashes of the data in results: independent of place and date, changed by a byte, absent where nothing is read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

import agentgym
from agentgym.datasets import manifest
from agentgym.datasets.fingerprint import fingerprint
from agentgym.environment import Environment, EnvironmentSpec
from agentgym.errors import DataError
from agentgym.evaluation import data_facts, evaluate
from agentgym.registry import register
from agentgym.types import Observation, Step, Task, TaskSet


class FromFile(Environment):
    """One turn; its tasks are the lines of a file."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec("from-file", max_turns=1, splits=("train", "made"))

    def __init__(self, data: str = "") -> None:
        self.data = data

    @classmethod
    def data_files(cls, tasks: Sequence[Task], data: str = "", **_: Any) -> list[Path]:
        return [Path(data)] if tasks[0].split == "train" else []

    def tasks(self, split: str = "train") -> TaskSet:
        names = Path(self.data).read_text().split() if split == "train" else ["a"]
        return TaskSet(Task("from-file", name, split) for name in names)

    def reset(self, task: Task) -> Observation:
        return Observation(task.name)

    def step(self, action: str) -> Step:
        return Step(Observation("end"), 0.0, True)


def test_a_result_says_which_data_it_is_of(tmp_path: Path) -> None:
    register("from-file", FromFile)
    file = tmp_path / "lines.txt"
    file.write_text("a b\n")
    options = {"data": str(file)}

    def result(split: str) -> dict[str, Any]:
        tasks = agentgym.make("from-file", **options).tasks(split)
        return evaluate("from-file", agentgym.load_policy("noop"), tasks, env_options=options).to_dict()

    first = result("train")["data"]
    assert first["files"] == {"lines.txt": hashlib.sha256(b"a b\n").hexdigest()}
    assert result("made")["data"] == {}
    file.write_text("a c\n")
    os.utime(file, ns=(1, 1))  # a date that cannot be the first one's
    second = result("train")["data"]
    assert second["files"] == {"lines.txt": hashlib.sha256(b"a c\n").hexdigest()}
    assert second["version"] != first["version"]


def test_folders_count_as_what_is_in_them_wherever_they_are(tmp_path: Path) -> None:
    found = []
    for place in ("here", "there"):
        folder = tmp_path / place / "games"
        (folder / "sub").mkdir(parents=True)
        (folder / "one").write_text("1")
        (folder / "sub" / "two").write_text("2")
        found.append(fingerprint([folder]))
    assert found[0] == found[1]
    assert list(found[0]["files"]) == ["games/"]
    (folder / "sub" / "two").rename(folder / "two")
    assert fingerprint([folder]) != found[1]
    assert fingerprint([]) == {}


def test_the_version_is_that_of_the_manifest_of_the_same_files(tmp_path: Path) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for file in files:
        file.write_text(file.name)
    written = manifest.write(tmp_path, "search", "test", files, {})
    assert fingerprint(files)["version"] == written["version"]


def test_files_of_the_same_name_in_two_folders_both_count(tmp_path: Path) -> None:
    for folder in ("easy", "hard"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "game.json").write_text(folder)
    files = [tmp_path / folder / "game.json" for folder in ("hard", "easy")]
    found = fingerprint([*files, files[0]])
    hashes = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("easy", "hard")}
    assert found["files"] == {f"{name}/game.json": value for name, value in hashes.items()}
    assert found == fingerprint(reversed(files))
    nested = [tmp_path / "easy" / "game.json", tmp_path / "easy" / "more" / "game.json"]
    nested[1].parent.mkdir()
    nested[1].write_text("more")
    assert list(fingerprint(nested)["files"]) == ["game.json", "more/game.json"]  # no name of the place


def test_a_textworld_game_from_a_file_is_named_and_a_made_one_is_not(tmp_path: Path) -> None:
    from agentgym.environments.textworld.env import TextWorld
    from agentgym.environments.textworld.files import file_tasks

    (tmp_path / "train" / "cooking").mkdir(parents=True)
    for name in ("a", "cooking/b"):
        (tmp_path / "train" / f"{name}.json").write_text(name)
    tasks = list(file_tasks("train", tmp_path, None))
    paths = TextWorld.data_files([*tasks, Task("textworld", "made", "train", data={"game": "simple"})], str(tmp_path))
    assert paths == [tmp_path / "train" / "a.json", tmp_path / "train" / "cooking" / "b.json"]
    assert TextWorld.data_files([Task("textworld", "made", "train", data={"game": "simple"})]) == []
    broken = Task("textworld", "broken", "train")
    with pytest.raises(DataError, match="its data is None, expected a mapping"):
        TextWorld.data_files([broken])
    assert data_facts(TaskSet([broken]), {}) == {}  # a report is made all the same


@pytest.mark.parametrize(
    ("env", "split", "options", "files"),
    [
        ("alfworld", "valid_seen", {}, ["valid_seen.jsonl.xz"]),
        ("alfworld", "generated", {}, []),
        ("alfworld-reference", "valid_unseen", {}, ["valid_unseen.jsonl.xz"]),
        ("webshop", "test", {}, ["items_ins_v2_1000.json.xz", "products_1000.jsonl.xz", "title_nouns_spacy38.json.xz"]),
        ("webshop", "generated", {}, []),
        ("search", "hotpotqa", {}, ["2wiki_corpus_6119.json.xz", "hotpotqa_distractor_300.jsonl.xz"]),
        ("search", "hotpotqa", {"retriever": "http://127.0.0.1:9"}, ["hotpotqa_distractor_300.jsonl.xz"]),
        ("search", "bamboogle", {"corpus": "closed"},
         ["2wiki_corpus_6119.json.xz", "bamboogle_qa.json.xz", "hotpotqa_distractor_300.jsonl.xz"]),
        ("search", "train", {}, []),
    ],
)  # fmt: skip
def test_our_environments_name_their_files(env: str, split: str, options: dict[str, Any], files: list[str]) -> None:
    if files and not os.environ.get("AGENTGYM_DATA"):
        pytest.skip("AGENTGYM_DATA is not set")
    paths = agentgym.registry.environment_class(env).data_files([Task(env, "a", split)], **options)
    assert sorted(fingerprint(paths).get("files", {})) == files
