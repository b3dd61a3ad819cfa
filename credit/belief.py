"""How sure the policy is of a known answer before every turn of an episode: teacher-forced, on the recorded tokens.

The belief before turn t is ``s = (1/L) sum_j log pi(a_j | C_t, prefix, a_<j)`` over the L tokens of answer a, where
``C_t`` is what the policy was given for turn t: the bare prompt for turn 0, everything up to the observation of turn
t - 1 after that (IGPO, arXiv 2510.14967). Prefix and answer are encoded apart and joined as ids, so that no token
straddles a border. What would follow the answer (a closing tag) cannot change these numbers and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agentgym.credit.components import CreditError
from agentgym.credit.protocols import Array, PolicyScorer, ScoredRow
from agentgym.tokens import BoolArray, IntArray, TokenRow
from agentgym.types import Episode

#: where an episode's answers are looked for, in this order, in task.data and then in episode.info
GOLD_KEYS = ("answers", "answer", "gold")
#: an answer's mean is taken over at most this many of its tokens
MOST_TOKENS = 64


def gold_answers(episode: Episode, key: str | None = None) -> list[str]:
    """The distinct non-blank answers under ``key`` (None: the first of GOLD_KEYS that is there); empty: none known."""
    keys = GOLD_KEYS if key is None else (key,)
    for source in (episode.task.data, episode.info):
        for name in keys:
            if isinstance(source, Mapping) and source.get(name) is not None:
                found = source[name]
                answers = [found] if isinstance(found, str | int | float) else found
                if not isinstance(answers, list | tuple) or not all(isinstance(a, str | int | float) for a in answers):
                    raise CreditError(
                        f"{episode.where}: {name!r} must be a text or a list of texts, got {found!r:.200}"
                    )
                return [text for text in dict.fromkeys(map(str, answers)) if text.strip()]
    return []


@dataclass(frozen=True, slots=True)
class Thoughts:
    """Ids of the tags around reasoning; :meth:`keep` marks the tokens that stay when sampled reasoning is cut out.

    Cut is what lies strictly between the opening tag (where there is none, the turn's first token) and the turn's last
    closing tag; reasoning that is never closed stays. Both tags must be single tokens, or the cut would not be exact:
    CreditError otherwise.
    """

    opening: int
    closing: int

    @classmethod
    def of(cls, scorer: PolicyScorer, tag: str) -> Thoughts:
        """The tags of ``<tag>`` in the scorer's vocabulary."""
        ids = [scorer.encode(mark).tolist() for mark in (f"<{tag}>", f"</{tag}>")]
        if any(len(some) != 1 for some in ids):
            raise CreditError(
                f"strip_reasoning: <{tag}> and </{tag}> must be one token each for an exact cut, they are {ids}. "
                "Turn strip_reasoning off, or use a tokenizer that holds the tags"
            )
        return cls(ids[0][0], ids[1][0])

    def keep(self, row: TokenRow) -> BoolArray:
        """Mask over the row's tokens, True where a token stays."""
        keep = np.ones(len(row), np.bool_)
        for turn in np.unique(row.turns[row.mask]):
            span = np.flatnonzero(row.turns == turn)
            ends = span[row.ids[span] == self.closing]
            if len(ends):
                begins = span[(row.ids[span] == self.opening) & (span < ends[-1])]
                keep[begins[0] + 1 if len(begins) else span[0] : ends[-1]] = False
        return keep


def check_rows(episode: Episode) -> None:
    """Raises CreditError for an episode that was played without token rows."""
    if episode.turns and not episode.rows:
        raise CreditError(
            f"{episode.where}: no token rows, policy {episode.policy!r} answered in text alone, so no belief can be "
            "computed. Roll out with a local model (model.generator torch or vllm), or drop igpo from credit"
        )


def contexts(episode: Episode, thoughts: Thoughts | None = None) -> list[tuple[IntArray, list[int], list[int]]]:
    """``(row ids, turns, cuts)`` for every row: turn ``turns[k]`` was asked for behind ``row[:cuts[k]]``.

    A turn without a recorded prompt is in none of them.
    """
    places: dict[int, list[tuple[int, int]]] = {}
    for turn in episode.turns:
        if turn.row >= 0 and turn.start > 0:
            places.setdefault(turn.row, []).append((turn.index, turn.start))
    out = []
    for r, some in places.items():
        row, turns, cuts = episode.rows[r], [t for t, _ in some], np.array([cut for _, cut in some])
        keep = thoughts.keep(row) if thoughts is not None else np.ones(len(row), np.bool_)
        out.append((row.ids[keep], turns, np.append(0, keep.cumsum())[cuts].tolist()))
    return out


def beliefs(
    scorer: PolicyScorer,
    episodes: Sequence[Episode],
    answers: Sequence[Sequence[str]],
    prefix: str,
    thoughts: Thoughts | None = None,
) -> list[Array]:
    """Per episode ``[turns, answers]``: the belief before each turn; NaN where it is not defined (see PolicyScorer)."""
    head = scorer.encode(prefix)
    rows: list[ScoredRow] = []
    owners: list[tuple[int, list[int]]] = []
    for e, (episode, golds) in enumerate(zip(episodes, answers, strict=True)):
        check_rows(episode)
        blocks = [np.concatenate([head, scorer.encode(text)[:MOST_TOKENS]]).astype(np.int32) for text in golds]
        for ids, turns, cuts in contexts(episode, thoughts) if golds else ():
            rows.append(ScoredRow(ids, tuple((cut, block) for cut in cuts for block in blocks)))
            owners.append((e, turns))
    out: list[Array] = [np.full((len(e.turns), len(a)), np.nan) for e, a in zip(episodes, answers, strict=True)]
    for (e, turns), found in zip(owners, scorer.logprobs(rows), strict=True):
        out[e][turns] = np.reshape([_mean(values[len(head) :]) for values in found], (len(turns), len(answers[e])))
    return out


def _mean(logprobs: npt.NDArray[np.float32]) -> float:
    return float(logprobs.mean(dtype=np.float64)) if len(logprobs) else float("nan")
