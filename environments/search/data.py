"""Question sets and their corpus on disk, from ``AGENTGYM_DATA/search`` or ``AGENTGYM_DATA`` itself.

=================  ==============================================  ================================================
split              file (plain, ``.xz`` or ``.gz``)                what
=================  ==============================================  ================================================
``hotpotqa``       ``hotpotqa_distractor_300.jsonl``               100 easy, medium, hard questions, gold passages
``hotpotqa_dev``   ``hotpot_dev_7405_qa.json``                     the whole dev set, questions and answers only
``2wiki``          ``2wiki_qa.json``                               500 questions
``musique``        ``musique_qa.json``                             500 questions
``bamboogle``      ``bamboogle_qa.json``                           125 questions
``questions``      the option ``questions``                        a file of the user's
=================  ==============================================  ================================================

A row holds a question (``question`` or ``Question``) and its answers (``golden_answers``, ``answers`` or ``answer``: a
text or a list), and may hold an ``id``, ``type``, ``level`` and HotpotQA's ``supporting_facts`` and ``context``. That
is what HotpotQA, 2WikiMultihop, FlashRAG and Search-R1 write.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agentgym.environments.search.corpus import Corpus, read_rows
from agentgym.errors import ConfigError, DataError

FILES: Final = {
    "hotpotqa": "hotpotqa_distractor_300.jsonl",
    "hotpotqa_dev": "hotpot_dev_7405_qa.json",
    "2wiki": "2wiki_qa.json",
    "musique": "musique_qa.json",
    "bamboogle": "bamboogle_qa.json",
}
CUSTOM: Final = "questions"
DATA_SPLITS: Final = (*FILES, CUSTOM)
#: splits whose answers are in the closed corpus
CLOSED_SPLITS: Final = ("hotpotqa",)
#: the closed corpus: passages of the first file's questions, then those of the second
_CLOSED: Final = (FILES["hotpotqa"], "2wiki_corpus_6119.json")
#: records that a pack's name states: a shortened file would be another split under the same name
STATED: Final = {FILES["hotpotqa"]: 300, FILES["hotpotqa_dev"]: 7405, _CLOSED[1]: 6119}
#: passages of the closed corpus, each HotpotQA title once
CLOSED_PASSAGES: Final = 9077
_LOCK: Final = threading.Lock()
_READ: Final[dict[tuple[Any, ...], Any]] = {}


@dataclass(frozen=True, slots=True)
class Row:
    """A question of a set. ``documents``: titles of the passages that support the answer, where they are known."""

    name: str
    question: str
    answers: tuple[str, ...]
    kind: str = ""
    level: str = ""
    documents: tuple[str, ...] = ()


def question_rows(split: str, root: str | None, questions: str | None) -> list[Row]:
    """The questions of a split in the order of its file."""
    if split == CUSTOM:
        if questions is None:
            raise ConfigError("search split 'questions' reads a file of yours: give its path as option questions")
        path = Path(questions)
        if not path.is_file():
            raise DataError(f"questions {path}: there is no such file")
    else:
        path = _find(FILES[split], root, f"the questions of search split {split!r}")
    stated = STATED.get(FILES.get(split, ""))
    rows: list[Row] = _remembered(f"rows {stated}", [path], lambda: _rows(path, stated))
    return rows


def closed_corpus(root: str | None) -> Corpus:
    """The passages of the 300 HotpotQA questions, each title once, and 2WikiMultihop's: 9,077 in the stored data."""
    paths = [_find(name, root, "the closed search corpus") for name in _CLOSED]
    corpus: Corpus = _remembered("corpus", paths, lambda: _closed(*paths))
    return corpus


def data_files(split: str, root: str | None, questions: str | None, corpus: str | None) -> list[Path]:
    """The question file of a split, and the corpus where one is read (``corpus``: ``closed``, a path, or None)."""
    asked = [Path(questions)] if split == CUSTOM and questions else []
    if split in FILES:
        asked = [_find(FILES[split], root, f"the questions of search split {split!r}")]
    if corpus == "closed":
        return [*asked, *(_find(name, root, "the closed search corpus") for name in _CLOSED)]
    return [*asked, Path(corpus)] if corpus else asked


def _remembered(what: str, paths: list[Path], make: Any) -> Any:
    stamps = [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in paths]
    key = (what, *stamps)
    with _LOCK:
        if key not in _READ:
            if len(_READ) >= 8:
                _READ.pop(next(iter(_READ)))
            _READ[key] = make()
        return _READ[key]


def _find(name: str, root: str | None, what: str) -> Path:
    base = root or os.environ.get("AGENTGYM_DATA")
    folders = [Path(base) / "search", Path(base)] if base else []
    for folder in folders:
        for path in (folder / f"{name}.xz", folder / f"{name}.gz", folder / name):
            if path.is_file():
                return path
    looked = f"looked in {' and '.join(map(str, folders))}" if folders else "AGENTGYM_DATA is not set"
    raise DataError(
        f"no file for {what}: {looked}. Set AGENTGYM_DATA to a folder with search/{name}.xz (or without .xz). The "
        "splits train, valid and test need no data."
    )


def _check_count(path: Path, what: str, found: int, stated: int | None) -> None:
    if stated is not None and found != stated:
        raise DataError(
            f"{path}: holds {found} {what}, expected the {stated} that its name states: it is cut or of another "
            "version. Copy the pack's file again."
        )


def _rows(path: Path, stated: int | None) -> list[Row]:
    made: dict[str, Row] = {}
    for number, (where, row) in enumerate(read_rows(path)):
        made_row = _row(where, number, row)
        if made_row.name in made:
            raise DataError(f"{where}: id {made_row.name!r} occurs twice")
        made[made_row.name] = made_row
    if not made:
        raise DataError(f"{path}: holds no question; expected at least one")
    _check_count(path, "questions", len(made), stated)
    return list(made.values())


def _row(where: str, number: int, row: dict[str, Any]) -> Row:
    question = row.get("question", row.get("Question"))
    found = next((row[key] for key in ("golden_answers", "answers", "answer") if key in row), None)
    answers = [found] if isinstance(found, str) else found
    if not isinstance(question, str) or not question.strip():
        raise DataError(f"{where}: needs a text 'question', got {question!r:.80}")
    if (
        not isinstance(answers, list)
        or not answers
        or not all(isinstance(text, str) and text.strip() for text in answers)
    ):
        raise DataError(f"{where}: needs 'golden_answers', 'answers' or 'answer', texts that are not empty")
    name = row.get("id", row.get("_id"))
    facts = row.get("supporting_facts") or []
    try:
        titles = tuple(dict.fromkeys(str(fact[0]) for fact in facts))
    except (TypeError, IndexError, KeyError) as error:
        raise DataError(f"{where}: supporting_facts must be a list of [title, sentence number]") from error
    label = str(name) if isinstance(name, str | int) else f"{number:05d}"
    kind, level = (str(row.get(key) or "") for key in ("type", "level"))
    return Row(label, question.strip(), tuple(dict.fromkeys(answers)), kind, level, titles)


def _closed(questions: Path, more: Path) -> Corpus:
    passages: dict[str, str] = {}
    count = 0
    for where, row in read_rows(questions):
        count += 1
        try:
            for title, sentences in row["context"]:
                passages.setdefault(title, "".join(sentences))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{where}: needs a 'context' of [title, sentences] pairs. Get the file again.") from error
    _check_count(questions, "questions", count, STATED[_CLOSED[0]])
    made = list(passages.items())
    for where, row in read_rows(more):
        title, text = row.get("title"), row.get("text")
        if not isinstance(title, str) or not isinstance(text, str):
            raise DataError(f"{where}: needs texts 'title' and 'text'. Get the file again.")
        made.append((title, text))
    _check_count(more, "passages", len(made) - len(passages), STATED[_CLOSED[1]])
    if len(made) != CLOSED_PASSAGES:
        raise DataError(
            f"{questions}: its questions hold {len(passages)} different titles, {len(made)} passages together with "
            f"{more}; expected {CLOSED_PASSAGES}. Copy both files of the pack again."
        )
    return Corpus(made, f"the closed corpus ({questions} and {more})")
