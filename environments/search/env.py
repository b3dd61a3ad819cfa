"""Search behind the environment contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

from agentgym.environment import Environment, EnvironmentSpec
from agentgym.environments import _games
from agentgym.environments._paths import path_option
from agentgym.environments.search.actions import NOTATIONS, Action, parse, write
from agentgym.environments.search.bm25 import INDICES
from agentgym.environments.search.corpus import Passage
from agentgym.environments.search.data import CLOSED_SPLITS, data_files
from agentgym.environments.search.dense import BACKENDS, DenseIndex, load_dense
from agentgym.environments.search.episode import Goal, State, advise, is_useful, judge_reward, supporting
from agentgym.environments.search.remote import RemoteRetriever, check_seconds
from agentgym.environments.search.scoring import METRICS, scores
from agentgym.environments.search.tasks import ALL_SPLITS, CLOSED, KINDS, Source, corpus_of, split_tasks
from agentgym.errors import ConfigError, DataError, EnvironmentFault, unknown
from agentgym.types import Observation, Step, Task, TaskSet

_HELP: Final = (
    "Answer the question with the help of a search engine. Actions: 'search: QUERY' shows the passages that fit best "
    "between <information> and </information>; 'answer: TEXT' gives the final answer, a name, a number or a few words "
    "without explanation, and ends the episode. Search as often as you need, one fact at a time."
)
#: (search, answer, judgement) as the environment's own words name them
_NAMED: Final = {
    "plain": ("'search: QUERY'", "'answer: TEXT'", "'judge: yes' or 'judge: no'"),
    "tags": ("<search> and </search>", "<answer> and </answer>", "<judge> and </judge>, yes or no"),
}


class Search(Environment):
    """Questions, a search engine, and an answer that ends the episode. Success: it equals a right answer (EM).

    ``retriever``     ``bm25``; ``dense`` (needs ``vectors`` and ``encoder``; ``backend``: numpy, faiss or usearch); or
                      the URL of a server with Search-R1's interface
    ``topk``          passages shown for a query (1 to 20)
    ``metric``        the outcome: ``em``, ``f1`` or ``sub_em``
    ``notation``      how the environment and its expert write actions: ``plain`` or ``tags``; both are always read
    ``search_limit``  searches allowed in an episode (Search-R1: 4); None: no limit but the turns'
    ``judge``         a judgement of its usefulness must follow every search (ReSeek)
    ``corpus``, ``questions``, ``data``  a corpus file or ``closed``; a question file; instead of ``AGENTGYM_DATA``
    ``retriever_timeout``, ``retriever_deadline``  seconds of one try, and of all tries of a query, at a server
    """

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="search",
        max_turns=10,
        thread_safe=True,
        cheap=False,  # a server or an encoder may block
        snapshots=True,
        splits=ALL_SPLITS,
        action_help=_HELP,
        kinds=KINDS,
        description="Multi-turn question answering with a search engine; fictional worlds, HotpotQA and others",
    )

    def __init__(
        self,
        retriever: str = "bm25",
        topk: int = 3,
        metric: str = "em",
        notation: str = "plain",
        search_limit: int | None = None,
        judge: bool = False,
        corpus: str | None = None,
        questions: str | None = None,
        data: str | None = None,
        vectors: str | None = None,
        encoder: str | None = None,
        backend: str = "numpy",
        retriever_timeout: float = 10.0,
        retriever_deadline: float = 30.0,
    ) -> None:
        for name, value, known in (
            ("metric", metric, METRICS), ("notation", notation, NOTATIONS), ("backend", backend, BACKENDS),
        ):  # fmt: skip
            if not isinstance(value, str) or value not in known:
                raise unknown(f"{name} of environment 'search'", str(value), known)
        if not isinstance(judge, bool):
            raise ConfigError(f"environment 'search': judge must be true or false, got {judge!r}")
        self._topk = _bounded("topk", topk, 1, 20)
        self._limit = None if search_limit is None else _bounded("search_limit", search_limit, 0, 1000)
        self._metric, self._notation, self._judge = metric, notation, judge
        self._remote: RemoteRetriever | None = None
        check_seconds("environment 'search': retriever_timeout", retriever_timeout)
        check_seconds("environment 'search': retriever_deadline", retriever_deadline)
        if isinstance(retriever, str) and "://" in retriever:
            self._remote = RemoteRetriever(retriever, retriever_timeout, retriever_deadline)
        elif not isinstance(retriever, str) or retriever not in ("bm25", "dense"):
            raise unknown("retriever of environment 'search'", str(retriever), ("bm25", "dense"), "Or give a URL.")
        paths = {"data": data, "corpus": corpus, "questions": questions, "vectors": vectors, "encoder": encoder}
        checked = {name: path_option("search", name, value) for name, value in paths.items()}
        if any((retriever == "dense") != (value is not None) for value in (vectors, encoder)):
            raise ConfigError("environment 'search': vectors and encoder go with retriever=dense, which needs both")
        self._dense_files = (checked["vectors"] or "", checked["encoder"] or "", backend)
        self._dense: DenseIndex | None = None
        self._source = Source(checked["data"], checked["corpus"], checked["questions"], self._remote is not None)
        self._task: Task | None = None

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        """The tasks of a split in a fixed order.

        Fictional splits (train, valid, test): ``n`` (default 1024, 128, 256), ``seed`` (which worlds), ``hops`` (some
        of 1 to 4, in turns); a longer list begins with the shorter one. Others: ``n`` and ``seed`` draw a subset,
        ``kinds`` keeps question types or levels.
        """
        return split_tasks(split, self._source, **options)

    @classmethod
    def data_files(
        cls, tasks: Sequence[Task], retriever: str = "bm25", corpus: str | None = None, questions: str | None = None,
        data: str | None = None, vectors: str | None = None, encoder: str | None = None, **_: Any,
    ) -> list[Path]:  # fmt: skip
        """Questions, passages and the dense index; the fictional worlds and a server's passages have no file."""
        files = [Path(name) for name in (vectors, encoder) if name]
        for split in dict.fromkeys(task.split for task in tasks):
            closed = CLOSED if split in CLOSED_SPLITS else None
            files += data_files(split, data, questions, None if "://" in str(retriever) else corpus or closed)
        return files

    def reset(self, task: Task) -> Observation:
        """Show the question of ``task``, whose data holds ``question`` and ``answers``."""
        if task.env != self.spec.name:
            raise EnvironmentFault(f"environment 'search' got a task of environment {task.env!r}: {task.name!r}")
        self._goal = _goal(task)
        self._retriever = self._remote or self._local(task)
        self._task = task
        self.milestone_names = tuple(f"document {number + 1}" for number in range(len(self._goal.documents)))
        self._state = State(f"Question: {self._goal.question}")
        return self._observation()

    def _local(self, task: Task) -> Any:
        corpus = corpus_of(task, self._source)
        vectors, encoder, backend = self._dense_files
        if not vectors:
            return INDICES.get(corpus)
        if self._dense is None or self._dense.corpus is not corpus:
            self._dense = load_dense(corpus, vectors, encoder, backend)
        return self._dense

    def _running(self) -> Task:
        if self._task is None:
            raise EnvironmentFault("environment 'search': reset(task) must come first")
        return self._task

    def _observation(self) -> Observation:
        state = self._state
        return Observation(state.note or state.shown, state_key=state.shown)

    def step(self, action: str) -> Step:
        """Search, judge or answer. An answer ends the episode; ``info`` then holds all metrics."""
        task = self._running()
        if self._state.over:
            raise EnvironmentFault(f"search task {task.name!r}: the answer is given and the episode over; reset first")
        read = parse(action)
        if problem := read.problem or self._refusal(read):
            return self._refuse(problem)
        if read.kind == "search":
            return self._search(read)
        return self._judged(read.text) if read.kind == "judge" else self._answer(read)

    def _refusal(self, read: Action) -> str:
        """Why a well-formed action is not possible now; empty: it is."""
        due = self._state.useful is not None
        if read.kind == "judge":
            return "" if due else "there is no search result to judge"
        if due:
            return f"the search result must be judged first, with {_NAMED[self._notation][2]}"
        return "no search is left; it is time to answer" if read.kind == "search" and not self._searches_left() else ""

    def _searches_left(self) -> bool:
        return self._limit is None or len(self._state.queries) < self._limit

    def _refuse(self, problem: str) -> Step:
        search, answer, _ = _NAMED[self._notation]
        words = ("a query goes between", "between") if self._notation == "tags" else ("a query is written as", "as")
        note = (
            f"My previous action is not valid: {problem}. To search, {words[0]} {search}; the final answer is given "
            f"{words[1]} {answer}. Let me try again."
        )
        self._state = replace(self._state, note=note)
        return self._step(grounded=False, info={"refused": problem})

    def _step(self, reward: float = 0.0, **fields: Any) -> Step:
        reached = tuple(self.milestone_names[number] for number in sorted(self._state.found))
        return Step(self._observation(), reward, milestones=reached, **fields)

    def _search(self, read: Action) -> Step:
        passages: list[Passage] = self._retriever.search(read.text, self._topk)
        goal, state = self._goal, self._state
        gold = supporting(goal, passages)
        useful = is_useful(goal, state, passages) if self._judge else None
        self._state = State(
            _information(passages),
            state.found | set(gold),
            (*state.queries, read.text),
            state.seen | {passage.title for passage in passages} if self._judge else state.seen,
            useful,
            state.judged,
        )
        info: dict[str, Any] = {"query": read.text, "titles": [passage.title for passage in passages]}
        if goal.documents:
            info["supporting"] = [goal.documents[number] for number in gold]
        return self._step(info=info | ({"cut": True} if read.cut else {}))

    def _judged(self, said: str) -> Step:
        state = self._state
        assert state.useful is not None
        reward = judge_reward(said, state.useful, state.judged)
        shown = "The passages are accepted." if said == "yes" else "The passages are rejected. I will disregard them."
        self._state = replace(state, shown=shown, useful=None, judged=state.judged + reward, note="")
        return self._step(reward, score=0.0, info={"judge": said, "ideal": "yes" if state.useful else "no"})

    def _answer(self, read: Action) -> Step:
        found = scores(read.text, self._goal.answers)
        outcome, right = found[self._metric], found["em"] == 1.0
        self._state = replace(self._state, shown="The answer is given.", over=True, note="")
        info: dict[str, Any] = {
            "answer": read.text,
            **found,
            "metric": self._metric,
            "searches": len(self._state.queries),
        }
        return self._step(
            outcome,
            terminated=True,
            success=right,
            score=outcome if self._judge else None,
            info=info | ({"cut": True} if read.cut else {}),
        )

    def expert(self) -> str | None:
        """The next action of a solution: fetch the supporting passages by title, then answer; None when it is over."""
        self._running()
        found = advise(self._goal, self._state, self._searches_left())
        return None if found is None else write(*found, self._notation)

    def snapshot(self) -> Any:
        """The present state; immutable and picklable, valid in any instance that has been reset to the same task."""
        return (self._running().id, self._state)

    def restore(self, state: Any) -> Observation:
        """Go back to a snapshot of this task."""
        task = self._running()
        (scene,) = _games.snapshot_fields("search", state, task, "scene")
        if not isinstance(scene, State):
            raise _games.bad_snapshot("search", state, "scene")
        self._state = scene
        return self._observation()

    def close(self) -> None:
        """Nothing to free; the next step needs a reset."""
        self._task = None


def _information(passages: list[Passage]) -> str:
    """The passages as Search-R1 shows them, without the line breaks around the block."""
    if not passages:
        return "<information>No passage was found.</information>"
    lines = (f'Doc {rank}(Title: "{p.title}") {p.text}' for rank, p in enumerate(passages, 1))
    return f"<information>{chr(10).join(lines)}</information>"


def _goal(task: Task) -> Goal:
    data = task.data
    if not isinstance(data, Mapping) or not isinstance(data.get("question"), str):
        raise DataError(
            f"search task {task.name!r}: its data must hold 'question' and 'answers'. Make it with tasks()."
        )
    texts = []
    for name in ("answers", "documents"):
        value = data.get(name, ())
        if not isinstance(value, list | tuple) or not all(isinstance(text, str) and text.strip() for text in value):
            raise DataError(f"search task {task.name!r}: {name!r} must be a list of texts, got {value!r:.80}")
        texts.append(tuple(value))
    if not texts[0]:
        raise DataError(f"search task {task.name!r}: has no right answer; 'answers' must hold at least one")
    return Goal(data["question"], texts[0], texts[1])


def _bounded(name: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(f"environment 'search': {name} must be an integer from {low} to {high}, got {value!r}")
    return value
