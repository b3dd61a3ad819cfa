"""Reflections by a model: the policy itself or a judge reads the episode, without its outcome, and answers JSON.

What comes back is treated as text from anyone: bounded, parsed with care, counted where it cannot be read.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from agentgym.credit.protocols import TextGenerator
from agentgym.credit.retro.reflection import Reflection
from agentgym.errors import AgentGymError
from agentgym.policy import Message
from agentgym.seeding import derive_seed
from agentgym.types import Episode, Turn

log = logging.getLogger(__name__)
PROMPT = """You are shown one attempt of an agent at a task. Judge it from what happened.

{transcript}
{other}
Answer with one JSON object and nothing else:
{{"completed": <subtasks completed>, "total": <subtasks of the task>, "success": <true or false>, \
"lesson": "<one or two sentences that help the next attempt at such a task: what to do, what to avoid>"}}"""
OTHER = """
For contrast, here is another attempt at the same task, which ended differently:

{transcript}
"""
_ANSWER_CHARACTERS, _CANDIDATES = 20_000, 64
_KEYS = {"phi", "progress", "completed", "success", "lesson"}
_YES, _NO = {"true", "yes", "success", "1"}, {"false", "no", "failure", "0"}


def transcript(episode: Episode, characters: int = 6000) -> str:
    """The task and what was done, without scores, ends or the last answer of the world, which would tell the outcome.

    Long observations are cut, and of a long episode the middle is left out.
    """
    turns = episode.turns
    each = max(80, characters // max(1, min(len(turns), 24)) - 60)
    if len(turns) > 24:
        shown = [_turn(turn, each) for turn in turns[:8]] + [f"[{len(turns) - 24} turns left out]"]
        shown += [_turn(turn, each) for turn in turns[-16:]]
    else:
        shown = [_turn(turn, each) for turn in turns]
    first = _cut(turns[0].observation, characters // 4) if turns else ""
    subtasks = f"Subtasks: {', '.join(episode.milestone_names)}\n" if episode.milestone_names else ""
    return f"{subtasks}Task and first observation: {first}\n" + "\n".join(shown)


def messages_for(episode: Episode, opposite: str = "") -> list[Message]:
    """The conversation that asks for a reflection; ``opposite``: transcript of an attempt with the other outcome."""
    other = OTHER.format(transcript=opposite) if opposite else ""
    return [{"role": "user", "content": PROMPT.format(transcript=transcript(episode), other=other)}]


async def by_model(
    episodes: Sequence[Episode],
    opposites: Sequence[str],
    generator: TextGenerator,
    fallbacks: Sequence[Reflection],
    *,
    source: str,
    seeds: Sequence[int],
    concurrency: int = 8,
    deadline_s: float = 120.0,
    max_tokens: int = 256,
) -> list[Reflection]:
    """One reflection per episode, in their order, whatever the order of the answers.

    At most ``concurrency`` questions are open. No answer in ``deadline_s`` seconds, or an error of the service: the
    fallback, marked ``service``. An unreadable answer: phi 0 and no lesson, marked ``parse``.
    """
    gate = asyncio.Semaphore(concurrency)

    async def one(i: int) -> Reflection:
        async with gate:
            try:
                question = messages_for(episodes[i], opposites[i])
                answer = await asyncio.wait_for(
                    generator.complete(question, max_tokens=max_tokens, seed=seeds[i]), deadline_s
                )
            except (AgentGymError, OSError) as error:  # TimeoutError is an OSError
                log.warning("%s: no reflection by the %s: %r", episodes[i].where, source, error)
                return replace(fallbacks[i], problem="service")
        found = parse(answer, source)
        return replace(found, phi=1.0) if episodes[i].success else found

    return list(await asyncio.gather(*(one(i) for i in range(len(episodes)))))


def seeds_for(episodes: Sequence[Episode], step: int, seed: int) -> list[int]:
    """A seed for each question, by task and attempt, not by order."""
    return [derive_seed("retro", seed, step, e.task.id, e.index) % 2**31 for e in episodes]


def parse(answer: object, source: str = "judge") -> Reflection:
    """Read an answer: the last JSON object in it that has one of our keys, fenced or among other text.

    phi is ``phi`` or ``progress``, else ``completed / total``, clipped to [0, 1].
    """
    if not isinstance(answer, str):
        return Reflection(0.0, None, "", source, "parse")
    found = _last_object(answer[-_ANSWER_CHARACTERS:])
    phi = _phi(found) if found else None
    if found is None or phi is None:
        return Reflection(0.0, None, "", source, "parse")
    lesson = found.get("lesson")
    return Reflection(phi, _yes_no(found.get("success")), lesson if isinstance(lesson, str) else "", source)


def _last_object(text: str) -> Mapping[str, Any] | None:
    decoder, found, end = json.JSONDecoder(), None, 0
    starts = [match.start() for match in re.finditer(r"\{", text)]
    for at in [*starts[: _CANDIDATES // 2], *starts[_CANDIDATES // 2 :][-_CANDIDATES // 2 :]]:
        if at < end:
            continue  # inside an object that was read
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and _KEYS & value.keys():
            found = value
    return found


def _phi(found: Mapping[str, Any]) -> float | None:
    for name in ("phi", "progress"):
        if (value := _number(found.get(name))) is not None:
            return min(1.0, max(0.0, value))
    done, total = _number(found.get("completed")), _number(found.get("total"))
    return None if done is None or total is None or total <= 0 else min(1.0, max(0.0, done / total))


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None


def _yes_no(value: object) -> bool | None:
    word = str(value).strip().lower()
    return True if word in _YES else False if word in _NO else None


def _turn(turn: Turn, characters: int) -> str:
    seen = "" if turn.index == 0 else f"\nObservation: {_cut(turn.observation, characters)}"
    state = "" if turn.grounded else " (refused)"
    return f"{seen}\nAction {turn.index + 1}: {_cut(turn.action or '(none)', 200)}{state}".lstrip("\n")


def _cut(text: str, characters: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= characters else text[: characters - 1] + "…"
