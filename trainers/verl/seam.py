"""Between our episodes and verl's rows: what travels, and what is trained. Needs neither verl nor torch.

An episode travels whole, as the episode store writes it, with the first of its token rows. Each row with a sampled
token becomes one verl sample: the prompt is what came before the first sampled token, the response all that follows,
observations included (mask 0). An episode without such a row travels with a dummy row that is never trained.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentgym import _episode_codec as codec
from agentgym.config.loader import recipe_from_dict
from agentgym.config.recipe import Recipe
from agentgym.errors import DataError
from agentgym.seeding import derive_seed
from agentgym.tokens import TokenRow
from agentgym.types import Episode, Group, Task

#: key of the episode's bytes and of its row's number in a sample's extra fields
EPISODE, ROW = "agentgym_episode", "agentgym_row"
#: key in ``Episode.info`` of an error that no other episode would be spared (wrong configuration, missing data)
FATAL = "fatal"


@dataclass(frozen=True, slots=True)
class Sample:
    """One token row as verl takes it; ``mask`` and ``logprobs`` go with ``response``."""

    prompt: list[int]
    response: list[int]
    mask: list[int]
    logprobs: list[float]
    row: int


def recipe_of(data_section: Any) -> tuple[Recipe, str]:
    """The recipe and the run folder, as the ``data`` section of verl's configuration carries them."""
    told = json.loads(data_section["agentgym"])
    return recipe_from_dict(told["recipe"], "the run's recipe"), str(told["run_dir"])


def task_text(task: Task) -> str:
    """A task as JSON, for a row of the data set."""
    return json.dumps({name: getattr(task, name) for name in codec.TASK_FIELDS}, ensure_ascii=False)


def task_from(text: str) -> Task:
    """The inverse of :func:`task_text`."""
    return Task(**json.loads(text))


def pack(episode: Episode) -> bytes:
    """An episode as bytes, tokens bit for bit."""
    return codec.encode(episode)


def unpack(data: bytes) -> Episode:
    """The inverse of :func:`pack`. Raises DataError for other bytes."""
    records = codec.split(data)
    if len(records) != 1:
        raise DataError(f"{len(records)} episodes where one was packed")
    return codec.decode(*records[0], codec.TASK_FIELDS, codec.TURN_FIELDS)


def samples(episode: Episode, filler: int) -> list[Sample]:
    """What verl gets of an episode; ``filler``: an id for the dummy row of an episode without sampled tokens."""
    found = [_sample(row, number) for number, row in enumerate(episode.rows) if row.mask.any()]
    return found or [Sample([filler], [filler], [0], [0.0], -1)]


def cut_of(row: TokenRow) -> int:
    """Where the response of a row begins: at its first sampled token."""
    return int(np.argmax(row.mask))


def _sample(row: TokenRow, number: int) -> Sample:
    cut = cut_of(row)
    if cut == 0:
        raise DataError("a token row begins with a sampled token: nothing came before it")
    return Sample(
        row.ids[:cut].tolist(), row.ids[cut:].tolist(), row.mask[cut:].astype(int).tolist(),
        row.logprobs[cut:].tolist(), number,
    )  # fmt: skip


@dataclass(slots=True)
class Step:
    """The episodes of a training step, by group; ``places``: sample key -> (group, episode, row; -1 the dummy)."""

    groups: list[Group] = field(default_factory=list)
    places: dict[str, tuple[int, int, int]] = field(default_factory=dict)


def parse_key(key: str) -> tuple[str, int, int]:
    """(prompt, session, output) of a sample's key ``{uid}_{session}_{output}``."""
    uid, session, output = key.rsplit("_", 2)
    return uid, int(session), int(output)


def assemble(keys: Sequence[str], extras: Iterable[dict[str, Any]]) -> Step:
    """Groups in order of their prompts' names, episodes in order of their sessions, from the samples of a step."""
    step = Step()
    by_prompt: dict[str, dict[int, list[tuple[int, str, dict[str, Any]]]]] = {}
    for key, extra in zip(keys, extras, strict=True):
        uid, session, output = parse_key(key)
        by_prompt.setdefault(uid, {}).setdefault(session, []).append((output, key, extra))
    for number, (_, sessions) in enumerate(sorted(by_prompt.items())):
        episodes = []
        for index, (_, outputs) in enumerate(sorted(sessions.items())):
            outputs.sort(key=lambda entry: entry[0])
            if EPISODE not in outputs[0][2]:
                raise DataError(f"sample {outputs[0][1]} carries no episode: was it made by another agent loop?")
            episodes.append(unpack(outputs[0][2][EPISODE]))
            for _, key, extra in outputs:
                step.places[key] = (number, index, int(extra[ROW]))
        step.groups.append(Group(episodes[0].task, episodes))
    return step


def rollout_seed(recipe: Recipe, step: int, part: int) -> int:
    """The seed of a training step's episodes: the local trainer's, so that both engines play the same episodes."""
    return derive_seed(recipe.seed, "rollout", step, 0, part)


def prompt_name(index: int) -> str:
    """The name of the ``index``-th prompt of a run; sorts like the index and holds no underscore."""
    return f"p{index:09d}"
