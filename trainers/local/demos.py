"""Expert demonstrations as token rows, made by the same rollout engine and row builder as the policy's own episodes.

:class:`DemonstrationPolicy` answers with the expert's text and says which ids a model would have drawn for it, so
layouts, templates and spans are those of training. Demonstrations are kept in the run folder, for resuming.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.errors import ConfigError, ContextOverflow, DataError
from agentgym.policy import Policy, PolicyRequest, SampledTurn
from agentgym.tokens import TokenRow
from agentgym.trainers.local.batch import TrainRow
from agentgym.types import Episode, Group

#: key of ``SampledTurn.info`` that marks a turn whose action was replaced by a random one
NOISE_KEY = "noise"
#: key that marks a turn which the model being trained played itself; never imitated
STUDENT_KEY = "student"


class DemonstrationPolicy(Policy):
    """Another policy's text as a model's tokens: prompt by the renderer, response encoded, end of turn appended.

    ``renderer`` is the model policy's; ``end`` the id that ends a response; ``window`` the model's.
    """

    def __init__(self, base: Policy, renderer: Any, end: int | None, window: int | None = None) -> None:
        self.base, self.renderer, self.end, self.window = base, renderer, end, window
        self.name = f"demonstrations of {base.name}"
        self.needs_expert = base.needs_expert
        self._end_text = "" if end is None else str(renderer.tokenizer.decode([end], skip_special_tokens=False))

    async def act(self, request: PolicyRequest) -> SampledTurn:
        """The base policy's answer with token ids; raises ContextOverflow where they do not fit."""
        answer = await self.base.act(request)
        return self.turn(request, answer.text, answer.info)

    def turn(self, request: PolicyRequest, text: str, info: Mapping[str, Any] | None = None) -> SampledTurn:
        """``text`` as the response to ``request``, in the ids a model would have drawn."""
        (prompt,) = self.renderer.prompts([(request.session, request.messages, request.tools)])
        (ids,) = self.renderer.encode([text])
        if self.end is not None:
            ids = np.append(ids, np.int32(self.end))
        limit = min(x for x in (self.window, request.token_budget, 1 << 62) if x is not None)
        if len(prompt) + len(ids) > limit:
            raise ContextOverflow(f"{len(prompt)} prompt + {len(ids)} response tokens, at most {limit} fit")
        self.renderer.record(request.session, ids, text + self._end_text)
        drawn = ids.astype(np.int32)
        return SampledTurn(text, "stop", prompt, drawn, np.zeros(len(ids), np.float32), info=dict(info or {}))

    def release(self, session: str) -> None:
        """Free the session in both."""
        self.base.release(session)
        self.renderer.release(session)

    async def aclose(self) -> None:
        """Close the base policy."""
        await self.base.aclose()


@dataclass(slots=True)
class Demonstrations:
    """Rows to imitate, and counts: episodes, successes, dropped, noisy turns, student turns, imitated tokens."""

    rows: list[TrainRow]
    counts: dict[str, int] = field(default_factory=dict)

    def extend(self, other: Demonstrations) -> None:
        """Add another round's rows and counts."""
        self.rows += other.rows
        for key, value in other.counts.items():
            self.counts[key] = self.counts.get(key, 0) + value


def expert_policy(name: str, noise: float, exclude: Sequence[str] = ()) -> Policy:
    """The demonstrator of a recipe: a policy by name, with noise of all admissible actions but ``exclude``."""
    from agentgym.policies import load_policy
    from agentgym.policies.scripted import NoisyPolicy

    base: Policy = load_policy(name)
    return NoisyPolicy(base, noise, exclude=exclude) if noise else base


def demonstrations(groups: Sequence[Group], only_success: bool, train_on_noise: bool) -> Demonstrations:
    """Training rows from demonstration episodes. Failed infrastructure never trains; the rest is counted."""
    counts = dict.fromkeys(
        ("episodes", "successes", "failures", "dropped", "noisy_turns", "student_turns", "tokens"), 0
    )
    rows: list[TrainRow] = []
    for episode in (episode for group in groups for episode in group):
        counts["episodes"] += 1
        counts["successes"] += episode.success
        if episode.termination.is_failure:
            counts["failures"] += 1
            continue
        if only_success and not episode.success:
            counts["dropped"] += 1
            continue
        noisy = {t.index for t in episode.turns if t.info.get(NOISE_KEY)}
        own = {t.index for t in episode.turns if t.info.get(STUDENT_KEY)}
        counts["noisy_turns"] += len(noisy)
        counts["student_turns"] += len(own)
        skipped = frozenset(own if train_on_noise else own | noisy)
        for row in (masked(row, skipped) for row in episode.rows):
            if row.mask.any():
                counts["tokens"] += int(row.mask.sum())
                rows.append(TrainRow(row, np.zeros(len(row), np.float32), name=episode.where))
    if not rows:
        raise ConfigError(_nothing(groups, counts, only_success))
    return Demonstrations(rows, counts)


def _nothing(groups: Sequence[Group], counts: dict[str, int], only_success: bool) -> str:
    first = next((e for g in groups for e in g if e.error), None)
    text = f"none of {counts['episodes']} demonstrations can be imitated: {counts['failures']} failed to run"
    text += f" (first: {first.error})" if first else ""
    if only_success:
        text += f", {counts['dropped']} did not succeed; lower sft.noise or set sft.only_success=false"
    return text


def masked(row: TokenRow, turns: frozenset[int]) -> TokenRow:
    """``row`` without the sampled tokens of ``turns``: they stay in the context, but are not trained on."""
    if not turns:
        return row
    out = np.isin(row.turns, list(turns)) & row.mask
    return TokenRow(row.ids, row.mask & ~out, np.where(out, np.float32(0), row.logprobs), np.where(out, -1, row.turns))


def success_rate(episodes: Sequence[Episode]) -> float:
    """Share of successes; errors stay in the denominator."""
    return sum(e.success for e in episodes) / max(1, len(episodes))


def save_demonstrations(path: Path, demos: Demonstrations) -> None:
    """Write the rows to one ``.npz``, whole or not at all."""
    lengths = np.array([len(row.row) for row in demos.rows])
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez_compressed(
            file,
            lengths=lengths,
            ids=np.concatenate([row.row.ids for row in demos.rows]),
            turns=np.concatenate([row.row.turns for row in demos.rows]),
            names=np.array([row.name for row in demos.rows]),
            counts=np.array(json.dumps(demos.counts)),
        )
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def load_demonstrations(path: Path) -> Demonstrations:
    """What :func:`save_demonstrations` wrote."""
    try:
        with np.load(path, allow_pickle=False) as data:
            cuts = np.cumsum(data["lengths"])[:-1]
            parts = zip(np.split(data["ids"], cuts), np.split(data["turns"], cuts), data["names"], strict=True)
            rows = [
                TrainRow(
                    TokenRow(ids, turns >= 0, np.zeros(len(ids), np.float32), turns),
                    np.zeros(len(ids), np.float32),
                    name=str(name),
                )
                for ids, turns, name in parts
            ]
            return Demonstrations(rows, json.loads(str(data["counts"])))
    except (OSError, KeyError, ValueError) as error:
        raise DataError(f"{path} is not readable as demonstrations: {error}. Delete it to make them anew.") from error
