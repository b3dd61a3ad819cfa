"""The state of one episode of search, and what can be worked out from it: gold passages, judgements, the expert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agentgym.environments.search.actions import clean
from agentgym.environments.search.corpus import Passage
from agentgym.environments.search.scoring import normalise

#: ReSeek's rewards of a judgement: right, a useless result accepted, a useful one rejected
MATCH, ACCEPTED, REJECTED = 0.3, -0.6, -0.3
#: the judgements of an episode together earn and cost at most this much, so that judging often cannot pay
JUDGE_BOUND: Final = 1.0
#: characters of the expert's queries
MOST_QUERY: Final = 500


@dataclass(frozen=True, slots=True)
class State:
    """``shown``: the present scene (``state_key``); ``found``: supporting passages retrieved, by number; ``queries``:
    searches made; ``useful``: whether the last result is, while its judgement is due, else None; ``judged``: rewards of
    judgements so far; ``note``: what was wrong with the last action."""

    shown: str
    found: frozenset[int] = frozenset()
    queries: tuple[str, ...] = ()
    seen: frozenset[str] = frozenset()
    useful: bool | None = None
    judged: float = 0.0
    over: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Goal:
    """``documents``: titles of the passages that support the answer, in the order in which they are needed."""

    question: str
    answers: tuple[str, ...]
    documents: tuple[str, ...] = ()


def supporting(goal: Goal, passages: Sequence[Passage]) -> list[int]:
    """Numbers of the goal's documents that are among the passages."""
    titles = {normalise(passage.title) for passage in passages}
    return [number for number, title in enumerate(goal.documents) if normalise(title) in titles]


def is_useful(goal: Goal, state: State, passages: Sequence[Passage]) -> bool:
    """The passages hold a supporting one that was not retrieved before; where none is known, a passage not shown before
    that holds an answer. Stands for ReSeek's reranker score of the passages and the gold answer."""
    if goal.documents:
        return bool(set(supporting(goal, passages)) - state.found)
    golds = [f" {normalise(answer)} " for answer in goal.answers]
    fresh = (f" {normalise(p.title)} {normalise(p.text)} " for p in passages if p.title not in state.seen)
    return any(gold in text for text in fresh for gold in golds)


def judge_reward(said: str, useful: bool, before: float) -> float:
    """The reward of a judgement, cut so that the episode's sum stays within the bound. ``before``: the sum so far."""
    value = MATCH if (said == "yes") == useful else ACCEPTED if said == "yes" else REJECTED
    return max(-JUDGE_BOUND, min(JUDGE_BOUND, before + value)) - before


def advise(goal: Goal, state: State, searches_left: bool) -> tuple[str, str] | None:
    """(kind, text) of the next action of a solution: fetch the supporting passages in order, then answer."""
    if state.over:
        return None
    if state.useful is not None:
        return "judge", "yes" if state.useful else "no"
    if searches_left:
        wanted = [title for number, title in enumerate(goal.documents) if number not in state.found]
        wanted += [f"{title} {goal.question}" for title in wanted]  # where the title alone does not find it
        if not goal.documents:
            wanted = [goal.question]
        for query in (clean(text)[:MOST_QUERY] for text in wanted):
            if query not in state.queries:
                return "search", query
    return "answer", clean(goal.answers[0])
