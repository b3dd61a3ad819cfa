"""Question files: the layouts that are read, the splits of the stored data, and damage."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from agentgym.environments.search import Search
from agentgym.environments.search.data import FILES
from agentgym.errors import ConfigError, DataError, UnknownNameError
from agentgym.types import TaskSet


def questions(path: Path, rows: list[Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def tasks(tmp_path: Path, corpus: Path, rows: list[Any], **options: Any) -> TaskSet:
    file = questions(tmp_path / "mine.jsonl", rows)
    return Search(questions=file, corpus=str(corpus)).tasks("questions", **options)


def test_layouts_of_rows(tmp_path: Path, corpus_file: Path) -> None:
    made = tasks(
        tmp_path,
        corpus_file,
        [
            {"id": "flashrag", "question": "Q1?", "golden_answers": ["a", "b", "a"]},
            {"_id": "hotpot", "question": "Q2?", "answer": "c", "type": "bridge", "level": "hard",
             "supporting_facts": [["T", 0], ["U", 2], ["T", 1]], "context": [["T", ["x"]]]},
            {"Question": " Q3? ", "answer": ["d"]},
        ],
    )  # fmt: skip
    assert [task.name for task in made] == ["flashrag", "hotpot", "00002"]
    assert [task.data["answers"] for task in made] == [["a", "b"], ["c"], ["d"]]
    assert [task.data.get("documents") for task in made] == [None, ["T", "U"], None]
    assert [task.data["question"] for task in made] == ["Q1?", "Q2?", "Q3?"]
    assert (made[1].kind, made[1].data["level"]) == ("bridge", "hard")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([], "expected a JSON object"),
        ({"answer": "x"}, "needs a text 'question'"),
        ({"question": " ", "answer": "x"}, "needs a text 'question'"),
        ({"question": "Q"}, "needs 'golden_answers'"),
        ({"question": "Q", "answers": []}, "needs 'golden_answers'"),
        ({"question": "Q", "answers": ["x", ""]}, "needs 'golden_answers'"),
        ({"question": "Q", "answer": 7}, "needs 'golden_answers'"),
        ({"question": "Q", "answer": "x", "supporting_facts": [3]}, "supporting_facts"),
        ({"question": "Q", "answer": "x", "id": "good"}, "occurs twice"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, corpus_file: Path, row: Any, message: str) -> None:
    good = {"id": "good", "question": "Q?", "answer": "a"}
    with pytest.raises(DataError, match=r"mine\.jsonl, line 2: ") as error:
        tasks(tmp_path, corpus_file, [good, row])
    assert message in str(error.value)


def test_no_file_says_where_it_was_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTGYM_DATA", raising=False)
    with pytest.raises(DataError, match="AGENTGYM_DATA is not set"):
        Search().tasks("hotpotqa")
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path))
    with pytest.raises(DataError, match="looked in") as error:
        Search().tasks("hotpotqa")
    assert str(tmp_path) in str(error.value)
    with pytest.raises(ConfigError, match="option questions"):
        Search().tasks("questions")
    with pytest.raises(DataError, match="no such file"):
        Search(questions=str(tmp_path / "no.jsonl")).tasks("questions")


WIKI = [{"title": f"U{number}", "text": "Three."} for number in range(6119)]


def hotpot_rows(titles: int = 2958) -> list[dict[str, Any]]:
    """300 questions whose passages have so many titles; 2,958 and 6,119 make the 9,077 of the closed corpus."""
    context = [[f"T{number}", ["One.", " Two."] if number == 0 else ["Four."]] for number in range(titles)]
    return [{"id": str(i), "question": "Q?", "answer": "a", "context": context[i::300]} for i in range(300)]


@pytest.mark.parametrize(
    ("hotpot", "wiki", "message"),
    [
        (
            hotpot_rows()[:150],
            WIKI,
            r"hotpotqa_distractor_300\.jsonl: holds 150 questions, expected the 300 that .*Copy",
        ),
        (hotpot_rows(), WIKI[:6000], r"2wiki_corpus_6119\.json: holds 6000 passages, expected the 6119 that .*Copy"),
        (hotpot_rows(), [], r"2wiki_corpus_6119\.json: holds 0 passages, expected the 6119 that .*Copy"),
        (hotpot_rows(2000), WIKI, r"2000 different titles, 8119 passages together .*expected 9077\. Copy both"),
    ],
)
def test_a_short_pack_is_refused(tmp_path: Path, hotpot: list[Any], wiki: list[Any], message: str) -> None:
    questions(tmp_path / FILES["hotpotqa"], hotpot)
    (tmp_path / "2wiki_corpus_6119.json").write_text(json.dumps(wiki))
    with pytest.raises(DataError, match=message):
        Search(data=str(tmp_path)).tasks("hotpotqa")


def test_a_short_dev_set_is_refused_and_a_file_of_ones_own_is_not_counted(tmp_path: Path, corpus_file: Path) -> None:
    rows = [{"id": str(i), "question": "Q?", "answer": "a"} for i in range(20)]
    (tmp_path / FILES["hotpotqa_dev"]).write_text(json.dumps(rows))
    own = tmp_path / FILES["hotpotqa_dev"]
    assert len(Search(questions=str(own), corpus=str(corpus_file)).tasks("questions")) == 20
    with pytest.raises(DataError, match=r"hotpot_dev_7405_qa\.json: holds 20 questions, expected the 7405"):
        Search(data=str(tmp_path), corpus=str(corpus_file)).tasks("hotpotqa_dev")


def test_a_broken_corpus_file_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "search"
    folder.mkdir()
    rows = hotpot_rows()
    questions(folder / FILES["hotpotqa"], rows)
    corpus = folder / "2wiki_corpus_6119.json.xz"
    corpus.write_bytes(lzma.compress(b'[{"title": "U"}]'))
    with pytest.raises(DataError, match=r"2wiki_corpus_6119\.json\.xz, entry 0: needs texts"):
        Search(data=str(tmp_path)).tasks("hotpotqa")
    corpus.write_bytes(corpus.read_bytes()[:20])
    with pytest.raises(DataError, match="damaged or truncated"):
        Search(data=str(tmp_path)).tasks("hotpotqa")
    corpus.write_bytes(lzma.compress(json.dumps(WIKI).encode()))
    env = Search(data=str(tmp_path))
    env.reset(env.tasks("hotpotqa")[0])
    assert 'Doc 1(Title: "T0") One. Two.' in env.step("search: one two").observation.text
    questions(folder / FILES["hotpotqa"], [{**rows[0], "context": 3}, *rows[1:]])
    with pytest.raises(DataError, match="needs a 'context'"):
        Search(data=str(tmp_path)).tasks("hotpotqa")


def test_another_corpus_is_refused_with_the_cure(tmp_path: Path, corpus_file: Path) -> None:
    task = tasks(tmp_path, corpus_file, [{"question": "Q?", "answer": "a"}])[0]
    corpus_file.write_text(corpus_file.read_text().replace("Soup is warm", "Soup is cold"))
    with pytest.raises(DataError, match=r"corpus\.jsonl has hash \w+ \(5 passages\).*Use the corpus"):
        Search(corpus=str(corpus_file)).reset(task)


def test_questions_without_passages_ask_for_a_corpus(tmp_path: Path) -> None:
    file = questions(tmp_path / "mine.jsonl", [{"question": "Q?", "answer": "a"}])
    with pytest.raises(ConfigError, match="holds questions and no passages"):
        Search(questions=file).tasks("questions")


def test_stored_sets(stored: Path) -> None:
    env = Search(data=str(stored))
    hotpot = env.tasks("hotpotqa")
    assert len(hotpot) == 300
    assert all(len(task.data["documents"]) == 2 for task in hotpot)
    assert len(env.tasks("hotpotqa", kinds=["hard"])) == 100
    assert len(env.tasks("hotpotqa", n=7, seed=3)) == 7
    assert env.tasks("hotpotqa", n=7, seed=3).hash != env.tasks("hotpotqa", n=7, seed=4).hash
    with pytest.raises(UnknownNameError, match="hard"):
        env.tasks("hotpotqa", kinds="hart")
    with pytest.raises(ConfigError, match="there are 300 questions"):
        env.tasks("hotpotqa", n=301)
    closed = Search(data=str(stored), corpus="closed")
    sizes = {split: len(closed.tasks(split)) for split in ("hotpotqa_dev", "2wiki", "musique", "bamboogle")}
    assert sizes == {"hotpotqa_dev": 7405, "2wiki": 500, "musique": 500, "bamboogle": 125}
