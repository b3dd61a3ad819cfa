"""Search: indexing, queries and recall over the closed corpus, the environment's steps, and bm25s beside them.

    python benchmarks/search_speed.py

CPU time on one core, medians. The corpus and the 300 HotpotQA questions come from AGENTGYM_DATA; without them a
fictional world is measured, and no recall. Targets for the 9,077 passages: index < 2 s, a query < 2 ms, recall of
supporting titles at 3, 5 and 10 within 0.01 of .690, .768 and .887 (bm25s 0.3.16 with Snowball's stemmer).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from typing import Any

from agentgym.environments.search import Search, bm25, worlds
from agentgym.environments.search.bm25 import Index
from agentgym.environments.search.corpus import Corpus
from agentgym.environments.search.tasks import corpus_of
from agentgym.errors import DataError
from agentgym.types import TaskSet

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common import save

REPETITIONS = 5
DEPTHS = (3, 5, 10)
REFERENCE = {3: 0.690, 5: 0.768, 10: 0.887}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of one call, and what it returned."""
    begin = time.process_time()
    result = work()
    return time.process_time() - begin, result


def cold_index(corpus: Corpus) -> Index:
    """An index with no stem remembered."""
    bm25._STEMS.clear()
    bm25._STEMS.update(dict.fromkeys(bm25.STOP_WORDS, ""))
    return Index(corpus)


def recall(found: list[list[str]], tasks: TaskSet) -> dict[str, float]:
    """Mean share of a question's supporting titles among the first k."""
    golds = [set(task.data["documents"]) for task in tasks]
    return {
        f"recall_{k}": mean(len(gold & set(titles[:k])) / len(gold) for gold, titles in zip(golds, found, strict=True))
        for k in DEPTHS
    }


def ours(corpus: Corpus, tasks: TaskSet) -> dict[str, float]:
    """Our BM25."""
    runs = [timed(lambda: cold_index(corpus)) for _ in range(REPETITIONS)]
    index: Index = runs[-1][1]
    queries = [task.data["question"] for task in tasks]
    searches = [timed(lambda: [index.search(query, 10) for query in queries]) for _ in range(REPETITIONS)]
    titles = [[passage.title for passage in found] for found in searches[0][1]]
    return {
        "index_s": median(seconds for seconds, _ in runs),
        "query_ms": 1e3 * median(seconds for seconds, _ in searches) / len(queries),
        **recall(titles, tasks),
    }


def raw_bm25s(corpus: Corpus, tasks: TaskSet) -> dict[str, float] | None:
    """bm25s with its defaults and Snowball's stemmer, or None where it is not installed."""
    try:
        import bm25s
        import Stemmer
    except ModuleNotFoundError:
        return None
    stemmer = Stemmer.Stemmer("english")
    texts = [f"{title} {text}" for title, text in corpus]

    def build() -> Any:
        retriever = bm25s.BM25()
        retriever.index(
            bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False
        )
        return retriever

    def ask(retriever: Any) -> list[list[str]]:
        found = []
        for task in tasks:
            words = bm25s.tokenize(task.data["question"], stopwords="en", stemmer=stemmer, show_progress=False)
            rows, _ = retriever.retrieve(words, k=10, show_progress=False)
            found.append([corpus[int(row)][0] for row in rows[0]])
        return found

    runs = [timed(build) for _ in range(REPETITIONS)]
    searches = [timed(lambda: ask(runs[-1][1])) for _ in range(REPETITIONS)]
    return {
        "index_s": median(seconds for seconds, _ in runs),
        "query_ms": 1e3 * median(seconds for seconds, _ in searches) / len(tasks),
        **recall(searches[0][1], tasks),
    }


def environment(tasks: TaskSet, env: Search) -> dict[str, float]:
    """Steps per second of the expert's episodes, and a reset, everything loaded."""

    def play() -> int:
        steps = 0
        for task in tasks:
            env.reset(task)
            while (action := env.expert()) is not None:
                env.step(action)
                steps += 1
        return steps

    play()
    runs = [timed(play) for _ in range(REPETITIONS)]
    resets = [timed(lambda: [env.reset(task) for task in tasks])[0] for _ in range(REPETITIONS)]
    return {
        "steps_per_s": median(steps / seconds for seconds, steps in runs),
        "reset_ms": 1e3 * median(resets) / len(tasks),
    }


def worlds_made() -> dict[str, float]:
    """A fictional world, and the first task list of the training split."""
    made = [timed(lambda n=n: worlds.World("train", 10 + n, 0))[0] for n in range(REPETITIONS)]  # type: ignore[misc]
    listed = []
    for _ in range(REPETITIONS):
        worlds.make_world.cache_clear()
        listed.append(timed(lambda: Search().tasks("train"))[0])
    return {"world_ms": 1e3 * median(made), "train_tasks_s": median(listed)}


def measure() -> dict[str, Any]:
    """All figures."""
    env = Search()
    try:
        split, tasks = "hotpotqa", env.tasks("hotpotqa")
    except DataError:
        split, tasks = "test", env.tasks("test")
    env.reset(tasks[0])
    corpus = corpus_of(tasks[0], env._source)
    return {
        "split": split,
        "passages": len(corpus),
        "questions": len(tasks),
        "bm25": ours(corpus, tasks),
        "bm25s": raw_bm25s(corpus, tasks),
        "stored": environment(tasks, env),
        "fictional": {**worlds_made(), **environment(Search().tasks("test"), Search())},
    }


def main() -> int:
    """Measure, print, write; 1 if a target is missed."""
    figures = measure()
    found = figures["bm25"]
    met = {"index": found["index_s"] < 2, "query": found["query_ms"] < 2}
    if figures["split"] == "hotpotqa":
        met |= {f"recall_{k}": abs(found[f"recall_{k}"] - target) <= 0.01 for k, target in REFERENCE.items()}
    save("search_speed", {**figures, "reference_recall": REFERENCE, "met": met})
    return 0 if all(met.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
