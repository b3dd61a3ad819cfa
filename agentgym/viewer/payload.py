"""Episodes as the page's data: texts once each in a table, turns by column, tokens in a block of their own.

``main``   ``{title, notes, sources, strings, ends, credit, groups, episodes}``; texts are indices into
           ``strings``, -1 for none. Columns of an episode, one entry a turn: ``o`` observation, ``r`` response, ``a``
           action, ``f`` flags (1 valid, 2 grounded), ``m`` indices of milestones first reached there, ``e`` finish
           reason, ``p`` and ``s`` prompt and sampled tokens, ``w`` rewards ``{component: column}``, ``v`` advantages.
``tokens`` ``{texts, episodes}``; per episode ``n`` tokens a turn, ``i`` ids, ``l`` log-probabilities in 1/10,000.

An observation that the next turn repeats is not kept twice; what the environment answered last is ``last``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym.types import Episode, Task, Turn
from agentgym.viewer.episodes import Credited, Loaded, Source, Tokens, spread
from agentgym.web import cut

MAX_TEXT = 20_000  # characters of one observation or response
LOG_SCALE = 10_000


class Strings:
    """Texts, each once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._places: dict[str, int] = {}
        self.cut = 0

    def add(self, text: str | None) -> int:
        """The text's index; -1 for None. Very long ones are cut, with a mark, and counted."""
        if text is None:
            return -1
        shown = cut(text, MAX_TEXT)
        place = self._places.get(shown)
        if place is None:
            self.cut += shown is not text
            text = shown
            place = self._places[text] = len(self.texts)
            self.texts.append(text)
        return place


@dataclass(frozen=True, slots=True)
class Payload:
    """The two blocks, before packing."""

    main: dict[str, Any]
    tokens: dict[str, Any] | None


def make(
    loaded: Sequence[Loaded],
    sources: Sequence[Source],
    title: str,
    credited: Credited,
    notes: Sequence[str] = (),
    tokens: Tokens | None = None,
    served: dict[str, Any] | None = None,
) -> Payload:
    """All data of one page. ``served``: what a server adds: page number, filters, counts over the whole store."""
    strings = Strings()
    groups: dict[str, dict[str, Any]] = {}
    episodes = []
    ends: list[str] = []
    for number, one in enumerate(loaded):
        task = one.episode.task
        if task.id not in groups:
            groups[task.id] = _group(task, strings)
        groups[task.id]["episodes"].append(number)
        episodes.append(_episode(one, strings, ends))
    values = [abs(value) for value in spread(loaded)]
    scale = max(values, default=0.0)
    told = [*notes, *credited.problems]
    if values and not scale:
        told.append(
            "every advantage is 0: single episodes and equal ones have nothing to compare; colours show rewards"
        )
    if strings.cut:
        told.append(f"{strings.cut} texts longer than {MAX_TEXT:,} characters are cut")
    main = {
        "title": title,
        "sources": [source.name for source in sources],
        "ends": ends,
        "credit": {"label": credited.label, "paid": list(credited.paid)} if scale else None,
        "groups": list(groups.values()),
        "episodes": episodes,
        "notes": told,
        "served": served,
        "strings": strings.texts,
    }
    return Payload(main, _tokens(loaded, tokens))


def _group(task: Task, strings: Strings) -> dict[str, Any]:
    texts = {"task": task.name, "env": task.env, "kind": task.kind, "split": task.split}
    return {"id": task.id, "seed": task.seed, "episodes": []} | {key: strings.add(text) for key, text in texts.items()}


def _episode(one: Loaded, strings: Strings, ends: list[str]) -> dict[str, Any]:
    episode = one.episode
    end = episode.termination.value
    if end not in ends:
        ends.append(end)
    turns = episode.turns
    names = sorted({name for turn in turns for name in turn.rewards})
    return {
        "src": one.source,
        "place": one.place,
        "index": episode.index,
        "seed": str(episode.seed),  # may exceed what a JavaScript number holds
        "end": ends.index(end),
        "ok": int(episode.success),
        "out": _number(episode.outcome),
        "policy": strings.add(episode.policy),
        "error": strings.add(episode.error or None),
        "names": [strings.add(name) for name in episode.milestone_names],
        "o": [strings.add(turn.observation) for turn in turns],
        "r": [strings.add(turn.response) for turn in turns],
        "a": [strings.add(turn.action) for turn in turns],
        "f": [int(turn.valid) + 2 * int(turn.grounded) for turn in turns],
        "m": _milestones(episode, strings),
        "e": [strings.add(turn.finish_reason) for turn in turns],
        "p": [turn.prompt_tokens for turn in turns],
        "s": [turn.sampled_tokens for turn in turns],
        "w": {name: [_number(turn.rewards.get(name)) for turn in turns] for name in names},
        "v": None if one.advantages is None else [_number(value) for value in one.advantages],
        "last": strings.add(turns[-1].next_observation) if turns else -1,
    }


def _milestones(episode: Episode, strings: Strings) -> list[list[int]]:
    """Per turn, the milestones reached there for the first time."""
    out: list[list[int]] = []
    seen: set[str] = set()
    for turn in episode.turns:
        new = [name for name in turn.milestones if name not in seen]
        seen.update(new)
        out.append([strings.add(name) for name in new])
    return out


def _number(value: float | None) -> float | int | str | None:
    """Six significant digits; what JSON cannot hold as a word."""
    if value is None:
        return None
    number = float(f"{value:.6g}")
    if number != number or number in (float("inf"), float("-inf")):
        return str(number)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _tokens(loaded: Sequence[Loaded], tokens: Tokens | None) -> dict[str, Any] | None:
    episodes = [_token_columns(one.episode) for one in loaded]
    used = sorted({token for columns in episodes for token in columns["i"]})
    if not used:
        return None
    place = {token: number for number, token in enumerate(used)}
    for columns in episodes:
        columns["i"] = [place[token] for token in columns["i"]]
    texts = [tokens.of(token) for token in used] if tokens is not None else None
    return {"ids": used, "texts": texts, "episodes": episodes}


def _token_columns(episode: Episode) -> dict[str, list[int]]:
    spans = [_span(episode, turn) for turn in episode.turns]
    ids = [int(token) for some, _ in spans for token in some]
    logs = [round(float(value) * LOG_SCALE) for _, some in spans for value in some]
    return {"n": [len(some) for some, _ in spans], "i": ids, "l": logs}


def _span(episode: Episode, turn: Turn) -> tuple[Any, Any]:
    if turn.row < 0:
        return np.empty(0, np.int32), np.empty(0, np.float32)
    row = episode.rows[turn.row]
    return row.ids[turn.start : turn.end], row.logprobs[turn.start : turn.end]
