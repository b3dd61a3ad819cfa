"""Splits as task sets, and the corpus of a task.

Splits ``train``, ``valid`` and ``test`` are fictional worlds (:mod:`.worlds`): every name of theirs is made of words of
one split only, so they share no fact, whatever the seeds. The other splits are question sets on disk (:mod:`.data`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agentgym.environments.search.corpus import Corpus, read_corpus
from agentgym.environments.search.data import CLOSED_SPLITS, DATA_SPLITS, Row, closed_corpus, question_rows
from agentgym.environments.search.names import SPLITS
from agentgym.environments.search.worlds import MOST_HOPS, QUESTIONS, make_world
from agentgym.errors import ConfigError, DataError, unknown
from agentgym.seeding import python_rng
from agentgym.types import Task, TaskSet

ALL_SPLITS: Final = (*SPLITS, *DATA_SPLITS)
#: tasks of a fictional split where ``n`` is not given
COUNTS: Final = {"train": 1024, "valid": 128, "test": 256}
#: most tasks of a fictional split, as of the small games: a list of more would fill the memory before anything is said
MOST_TASKS: Final = 1_000_000
_HOPS: Final = tuple(range(1, MOST_HOPS + 1))
KINDS: Final = (*(f"{hops} hop{'s' if hops > 1 else ''}" for hops in _HOPS), "bridge", "comparison")
CLOSED: Final = "closed"
#: in a task's data: its passages are on a server
REMOTE: Final = "remote"


@dataclass(frozen=True, slots=True)
class Source:
    """Where questions and passages come from. ``corpus``: None, ``closed`` or a path; ``remote``: a server has them."""

    data: str | None = None
    corpus: str | None = None
    questions: str | None = None
    remote: bool = False


def split_tasks(split: str, source: Source, **options: Any) -> TaskSet:
    """The tasks of a split in a fixed order; see :meth:`.Search.tasks` for the options."""
    if split not in ALL_SPLITS:
        raise unknown("split of environment 'search'", str(split), ALL_SPLITS)
    fictional = split in SPLITS
    known = ("n", "seed", "hops") if fictional else ("n", "seed", "kinds")
    for name in options:
        if name not in known:
            raise unknown(f"option of search split {split!r}", name, known)
    return _fictional(split, source, **options) if fictional else _stored(split, source, **options)


def _fictional(split: str, source: Source, n: Any = None, seed: Any = 0, hops: Any = None) -> TaskSet:
    if source.corpus is not None:
        raise ConfigError(f"search split {split!r} has fictional passages of its own; leave the option corpus out")
    count = COUNTS[split] if n is None else _whole("n", n, 1, MOST_TASKS)
    _whole("seed", seed, 0)
    asked = _asked_hops(split, hops)
    return TaskSet((_fiction(split, seed, asked, index) for index in range(count)), f"search/{split}")


def _asked_hops(split: str, hops: Any) -> tuple[int, ...]:
    if hops is None:
        return _HOPS
    asked = tuple(hops) if isinstance(hops, list | tuple | range | set | frozenset) else (hops,)
    whole = all(isinstance(h, int) and not isinstance(h, bool) and h in _HOPS for h in asked)
    if not asked or not whole or len(set(asked)) < len(asked):
        raise ConfigError(
            f"search split {split!r}: hops must be different whole numbers from 1 to {MOST_HOPS}, got {hops!r:.80}"
        )
    return asked


def _fiction(split: str, seed: int, hops: tuple[int, ...], index: int) -> Task:
    """Task ``index``: the numbers of hops take turns, and a world is left when its questions are used up."""
    turn, count = divmod(index, len(hops))
    block, number = divmod(turn, QUESTIONS)
    world = make_world(split, seed, block)
    wanted = hops[count]
    question = world.questions[wanted][number]
    data = {
        "question": question.text,
        "answers": [question.answer],
        "documents": list(question.titles),
        "corpus": {"world": [split, seed, block], "hash": world.corpus.hash},
    }
    return Task("search", f"s{seed}-w{block}-{wanted}hop-{number:02d}", split, seed, KINDS[wanted - 1], data)


def _stored(split: str, source: Source, n: Any = None, seed: Any = 0, kinds: Any = None) -> TaskSet:
    rows = question_rows(split, source.data, source.questions)
    where = f"search/{split}"
    if kinds is not None:
        rows = _of_kinds(rows, kinds, where)
    if n is not None:
        _whole("n", n, 1)
        if n > len(rows):
            raise ConfigError(f"{where}: n={n}, but there are {len(rows)} questions (kinds: {kinds or 'all'})")
        rng = python_rng("search subset", _whole("seed", seed, 0))
        rows = [rows[k] for k in sorted(rng.sample(range(len(rows)), n))]
    corpus = _corpus_note(split, source)
    return TaskSet((_stored_task(split, row, corpus) for row in rows), where)


def _stored_task(split: str, row: Row, corpus: dict[str, Any]) -> Task:
    data: dict[str, Any] = {"question": row.question, "answers": list(row.answers), "corpus": corpus}
    if row.documents:
        data["documents"] = list(row.documents)
    if row.level:
        data["level"] = row.level
    return Task("search", row.name, split, 0, row.kind, data)


def _corpus_note(split: str, source: Source) -> dict[str, Any]:
    if source.remote:
        return {"name": REMOTE}
    if source.corpus is None and split not in CLOSED_SPLITS:
        raise ConfigError(
            f"search split {split!r} holds questions and no passages. Give a corpus (corpus=FILE in Search-R1's "
            "layout), a server that has one (retriever=http://HOST:PORT/retrieve), or corpus=closed for those "
            "of hotpotqa, which do not hold all answers."
        )
    corpus = _configured(source)
    return {"name": CLOSED if source.corpus in (None, CLOSED) else "file", "hash": corpus.hash}


def _configured(source: Source) -> Corpus:
    if source.corpus in (None, CLOSED):
        return closed_corpus(source.data)
    return read_corpus(Path(str(source.corpus)))


def corpus_of(task: Task, source: Source) -> Corpus:
    """The passages of a task, perhaps made on another machine. DataError where ours are not those it was made for."""
    if "corpus" not in task.data:  # a task built by hand that leaves the passages to the options
        return _configured(source)
    note = task.data["corpus"]
    if not isinstance(note, Mapping) or not ("world" in note or "hash" in note or note.get("name") == REMOTE):
        raise DataError(
            f"search task {task.name!r}: 'corpus' must be an object with the 'hash' of the passages, got {note!r:.80}. "
            "Make the task with tasks(), or leave 'corpus' out to use the configured passages unchecked."
        )
    if note.get("name") == REMOTE:
        raise ConfigError(
            f"search task {task.name!r} was made for a retrieval server: give retriever=http://HOST:PORT/retrieve, or "
            "make the tasks with a corpus of this machine"
        )
    corpus = _world_corpus(task, note["world"]) if "world" in note else _configured(source)
    wanted = note.get("hash", corpus.hash)  # only a world, which its key defines, may come without
    if wanted != corpus.hash:
        raise DataError(
            f"search task {task.name!r}: made for passages with hash {wanted}, but {corpus.source} has hash "
            f"{corpus.hash} ({len(corpus)} passages). Use the corpus (or the agentgym version) that the task was made "
            "with, or make the tasks again with tasks()."
        )
    return corpus


def _world_corpus(task: Task, key: Any) -> Corpus:
    if not isinstance(key, list | tuple) or len(key) != 3 or key[0] not in tuple(SPLITS):
        raise DataError(f"search task {task.name!r}: 'world' must be [split, seed, block], got {key!r:.80}")
    return make_world(str(key[0]), _whole("seed", key[1], 0), _whole("block", key[2], 0)).corpus


def _of_kinds(rows: list[Row], kinds: Any, where: str) -> list[Row]:
    wanted = [kinds] if isinstance(kinds, str) else kinds
    if not isinstance(wanted, list | tuple):
        raise ConfigError(f"{where}: kinds must be a list of question types or levels, got {kinds!r}")
    known = {label for row in rows for label in (row.kind, row.level) if label}
    for kind in wanted:
        if kind not in known:
            raise unknown(f"kind of question of {where}", str(kind), known)
    return [row for row in rows if row.kind in wanted or row.level in wanted]


def _whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        span = f">= {least}" if most is None else f"from {least} to {most}"
        raise ConfigError(f"environment 'search': {name} must be an integer {span}, got {value!r:.80}")
    return value
