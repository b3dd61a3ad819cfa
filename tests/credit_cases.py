"""What the property tests need to know of every registered credit module and estimator, and fakes of all services.

A new name in ``credit/registry.py`` needs one entry here, and is then covered by ``test_properties.py``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import inf
from typing import Any

import numpy as np
import pytest
from judges import FakeJudge, between
from learned_episodes import chain

from agentgym.credit.components import component
from agentgym.credit.protocols import Array, ScoredRow, Services, TokenRagged
from agentgym.credit.registry import make_estimator, make_part
from agentgym.tokens import RowBuilder
from agentgym.types import Episode, Group, Task, Termination, Turn

FILLER = 7  # the token of observations; no fake reads it
NAMES = ("found", "taken", "placed")
SMALL_FIT = {"epochs": 3}


@dataclass(frozen=True)
class Move:
    """One turn: where, what, how many sampled tokens, and how it went. ``dense``: a reward on it."""

    state: int = 0
    action: int = 0
    tokens: int = 2
    valid: bool = True
    grounded: bool = True
    advance: bool = False
    dense: float = 0.0


@dataclass(frozen=True)
class Play:
    """One episode."""

    moves: tuple[Move, ...] = (Move(),)
    outcome: float = 0.0
    ended: str = "max_turns"


Plan = Sequence[Sequence[Play]]


def build(plan: Plan, gap: int = 2) -> list[Group]:
    """Groups of one append-only token row an episode, with ``gap`` observation tokens before every turn."""
    groups = []
    for g, plays in enumerate(plan):
        task = Task("fake", f"t{g}", data={"answer": "mug"})
        groups.append(Group(task, [_episode(task, i, play, gap) for i, play in enumerate(plays)]))
    return groups


def _episode(task: Task, index: int, play: Play, gap: int) -> Episode:
    builder, turns, ids, reached = RowBuilder(), [], [1], 0
    for t, move in enumerate(play.moves):
        ids = ids + [FILLER] * gap
        drawn = [100 + 10 * move.action + k for k in range(move.tokens)]
        row, start, end = builder.add(t, ids, drawn, [-0.5 - 0.25 * k for k in range(len(drawn))])
        ids = ids + drawn
        reached += move.advance
        after = play.moves[t + 1].state if t + 1 < len(play.moves) else 9
        turns.append(
            Turn(
                t, _room(move.state), f"do {move.action}", f"do {move.action}" if move.valid else None, _room(after),
                state_key=_room(move.state), valid=move.valid, grounded=move.grounded, milestones=NAMES[:reached],
                rewards={"env": 0.0}, row=row, start=start, end=end, sampled_tokens=move.tokens,
                info={"dense": move.dense, "rewards": {"format": float(move.valid), "loss": -move.dense}},
            )
        )  # fmt: skip
    ended = Termination(play.ended)
    won = ended is Termination.ENV_DONE and play.outcome == 1
    return Episode(task, index, index, turns, ended, play.outcome, won, NAMES, builder.rows())


def _room(state: int) -> str:
    return f"You are in room {state}."


class Dense:
    """A turn rewarder: what the move says."""

    name = "dense"

    def reset(self, task: Task) -> None: ...

    def score(self, record: Episode, turn: int) -> float:
        return float(record.turns[turn].info["dense"])


def _rng(*parts: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(parts).encode()))


class Scorer:
    """Log-probabilities that follow from what the policy wrote so far and from the block; observations say nothing."""

    def encode(self, text: str) -> np.ndarray:
        return np.frombuffer(text.encode(), np.uint8).astype(np.int32) + 1000

    def logprobs(self, rows: Sequence[ScoredRow]) -> list[list[np.ndarray]]:
        return [[self._block(row.row[:cut].tolist(), ids) for cut, ids in row.blocks] for row in rows]

    def _block(self, before: list[int], ids: np.ndarray) -> np.ndarray:
        rng = _rng([i for i in before if i != FILLER], ids.tolist())
        return -np.abs(rng.normal(size=len(ids))).astype(np.float32)


class Features:
    """Hidden states by observation and action."""

    width = 6

    def hidden(self, episodes: Sequence[Episode]) -> list[np.ndarray]:
        return [
            np.array(
                [_rng(t.observation, t.response).normal(size=self.width) for t in episode.turns], np.float32
            ).reshape(-1, self.width)
            for episode in episodes
        ]


class FakeCritic:
    """Values by task, state and place in the turn; ``constant``: this everywhere."""

    def __init__(self, constant: float | None = None) -> None:
        self.constant = constant

    def values(self, groups: Sequence[Group]) -> TokenRagged:
        return [[[self._turn(e, t) for t in e.turns] for e in group] for group in groups]

    def _turn(self, episode: Episode, turn: Turn) -> Array:
        if self.constant is not None:
            return np.full(turn.end - turn.start, self.constant)
        return _rng(episode.task.id, turn.observation, turn.index).normal(size=turn.end - turn.start)

    def fit(self, groups: Sequence[Group], targets: TokenRagged) -> dict[str, float]:
        return {}


def _answer(prompt: str, seed: int) -> str:
    """An answer to what any part asks: subgoals, when they were reached, scores of two attempts, a reflection."""
    if "JSON list" in prompt:
        return '["see the cup", "hold the cup"]'
    if "<subgoals>" in prompt:
        return '{"1": 1, "2": null}'
    score = {tag: _rng(between(prompt, tag)).integers(11) for tag in ("first", "second") if f"<{tag}>" in prompt}
    numbers = "".join(f'"{tag}": {value}, ' for tag, value in score.items())
    return f'{{{numbers}"completed": 1, "total": 2, "success": false, "lesson": "look into the drawer"}}'


#: the word of a module's ``requires`` -> a fake
SERVICES: dict[str, Callable[[], Any]] = {
    "scorer": Scorer,
    "features": Features,
    "critic": FakeCritic,
    "judge": lambda: FakeJudge(_answer),
    "policy": lambda: FakeJudge(_answer),
}


def offered(needs: frozenset[str], **instead: Any) -> Services:
    """Fakes of what is needed, or what is given ``instead``. Fails the test with what to add."""
    for word in sorted(needs - set(SERVICES)):
        pytest.fail(f"service {word!r} has no fake: add one to SERVICES in tests/credit_cases.py")
    return Services({word: instead[word] if word in instead else SERVICES[word]() for word in needs})


Bounds = tuple[float, float]
ANY: Bounds = (-inf, inf)


@dataclass(frozen=True)
class Module:
    """How a module is tested.

    ``total(episode)``  least and greatest sum of ``component`` over the episode's turns (equal: the sum is known)
    ``component``       what it writes; None: nothing
    ``beside``          what stands before it in the recipe
    ``fit``             fit it first, on other episodes
    ``unlike``          why equal episodes of a group may get unequal values; empty: they may not
    ``asks``            it asks a model; the names in its report that count answers it could not use: of a judge that
                        is down, of one that talks nonsense
    """

    component: str | None
    total: Callable[[Episode], Bounds]
    options: Mapping[str, Any] = field(default_factory=dict)
    beside: tuple[Any, ...] = ()
    fit: bool = False
    unlike: str = ""
    asks: tuple[str, str] | None = None


def _exactly(value: Callable[[Episode], float]) -> Callable[[Episode], Bounds]:
    return lambda episode: (value(episode), value(episode))


def _within(low: float, high: float) -> Callable[[Episode], Bounds]:
    return lambda episode: (low, high)


def _sum_of(name: str) -> Callable[[Episode], Bounds]:
    return _exactly(lambda episode: float(component(episode, name).sum()))


def _outcome(episode: Episode) -> float:
    return episode.outcome if episode.turns else 0.0


def _share(episode: Episode) -> float:
    """Milestones reached, of all; taken back at a true end."""
    reached = len(episode.turns[-1].milestones) / len(NAMES) if episode.turns else 0.0
    return reached if episode.termination.is_truncation else 0.0


def _first_score(episode: Episode) -> float:
    scores = component(episode, "milestone")
    return float(scores[0]) if len(scores) else 0.0


def _phi(episode: Episode) -> float:
    return (1.0 if episode.success else 0.5) * bool(episode.turns)


def _refused(flag: str) -> Callable[[Episode], Bounds]:
    return _exactly(lambda episode: -0.1 * sum(not getattr(turn, flag) for turn in episode.turns))


def _valid(episode: Episode) -> int:
    return sum(turn.valid for turn in episode.turns)


def _gated_milestones(episode: Episode) -> float:
    return float(component(episode, "milestone").sum()) if episode.outcome > 0 else 0.0


#: every name of the registry's REWARDERS -> the settings it is tested in
MODULES: dict[str, tuple[Module, ...]] = {
    "outcome": (
        Module("outcome", _exactly(_outcome)),
        Module("outcome", _exactly(lambda e: 10.0 * e.success * bool(e.turns)), {"success_reward": 10.0}),
    ),
    "invalid_penalty": (Module("invalid_penalty", _refused("valid")),),
    "grounding_penalty": (Module("grounding_penalty", _refused("grounded")),),
    "env_rewards": (Module(None, _within(0, 0)),),
    "named_rewards": (
        Module("format", _exactly(lambda e: min(1.0, _valid(e))), {"weights": {"format": 0.1, "loss": 0.1}}),
        Module("format", _exactly(lambda e: float(_valid(e))), {"weights": {"format": 0.1}, "cap": None}),
    ),
    "milestones": (
        Module("milestone", _exactly(_share)),
        Module(
            "milestone",
            _exactly(lambda e: float(len(e.turns[-1].milestones)) if e.turns else 0.0),
            {"payment": "once"},
        ),
        Module(
            "milestone",
            _exactly(lambda e: 0.5 * e.termination.is_truncation * bool(e.turns)),
            {"source": "judge"},
            asks=("judge_failed_tasks", "judge_failed_tasks"),
        ),
    ),
    "mira": (
        Module("mira", _exactly(lambda e: 0.0)),  # nothing learnt yet
        Module("mira", _within(-1, 1), {"fit": SMALL_FIT}, fit=True),
    ),
    "subgoal_hint": (
        Module(None, _within(0, 0)),
        Module(None, _within(0, 0), {"source": "judge"}),  # asks in play, not here: test_subgoals
    ),
    "gated": (Module("gated:milestone", _exactly(_gated_milestones), beside=("milestones",)),),
    "spa": (
        Module("spa", _exactly(_outcome)),  # nothing learnt yet
        Module("spa", lambda e: ANY, {"fit": SMALL_FIT}, fit=True),
        Module("spa", _exactly(_outcome), {"residual": "last", "fit": SMALL_FIT}, fit=True),
    ),
    "igpo": (
        Module("info_gain", lambda e: ANY),
        Module("info_gain", _within(-1, 1), {"gain": "prob_diff", "clip": None}),  # telescopes to p_last - p_first
    ),
    "retro": (
        Module("retro", _within(0, 1)),
        *(
            Module("retro", _exactly(_phi), {"reflection": who}, asks=("service_failures", "parse_failures"))
            for who in ("judge", "policy")
        ),
    ),
    "delta": (Module("delta:milestone", _exactly(_first_score), beside=("milestones",)),),
    "clip": (Module("clip:milestone", _within(-inf, 0), beside=("milestones",)),),
    "preference": (
        Module("preference:dense", _within(0, 1), beside=(Dense(),)),
        Module("preference:dense", _within(0, 1), {"most": 1}, beside=(Dense(),), unlike="one reference of several"),
    ),
    "tournament": (
        Module(
            "tournament",
            _within(0, 1),
            asks=("judge_ties", "judge_ties"),
        ),
    ),
    "curiosity": (Module("curiosity", _within(0, 0.5 / 3)),),
    "shuffled": (Module("shuffled:dense", _sum_of("dense"), beside=(Dense(),), unlike="turns are drawn by seed"),),
}


@dataclass(frozen=True)
class Estimator:
    """How an estimator is tested.

    ``even``  where nothing is better than anything else, advantages are exactly 0. That is so in ``group``: every
              group whose episodes are alike, and a group of one; ``batch``: a batch of like episodes without discount;
              ``critic``: under a critic that is right; empty: nowhere, for ``reason``
    """

    even: str
    options: Mapping[str, Any] = field(default_factory=dict)
    fit: bool = False
    reason: str = ""


#: every name of the registry's ESTIMATORS -> the settings it is tested in
ESTIMATES: dict[str, tuple[Estimator, ...]] = {
    "grpo": (Estimator("group"), Estimator("group", {"std": "none", "group_weighting": "turn"})),
    "rloo": (Estimator("group"), Estimator("group", {"dense": "sum"})),
    "discounted_return": (Estimator("group"),),
    "reinforce_pp": (Estimator("batch"), Estimator("group", {"baseline": "group"})),
    "gae": (
        Estimator("critic", {"gamma": 1.0}),
        Estimator("critic", {"level": "token"}),
        Estimator("critic", {"level": "bilevel", "gamma": 1.0}),
    ),
    "gigpo": (Estimator("group"), Estimator("group", {"norm": "mean_std", "first_visit": True})),
    "hgpo": (Estimator("group"), Estimator("group", {"base_group": True})),
    "igpo": (Estimator("group"), Estimator("group", {"norm": "joint"})),
    "mira": (
        Estimator("batch"),
        Estimator("", {"fit": SMALL_FIT}, fit=True, reason="the learned value is not exact"),
        Estimator("critic", {"critic": "trainer"}),
    ),
}


def settings_of(table: Mapping[str, tuple[Any, ...]], names: Iterable[str], where: Any = None) -> list[Any]:
    """``(name, number of the setting)`` for pytest, of settings that ``where`` holds for (None: all).

    A name without an entry is one case, which fails and says what to add.
    """
    found = [(name, number) for name in names for number in range(max(1, len(table.get(name, ()))))]
    return [
        pytest.param(name, number, id=f"{name}-{number}" if number else name)
        for name, number in found
        if where is None or name not in table or where(table[name][number])
    ]


def module(name: str, number: int) -> Module:
    """Its setting. Fails the test with what to add."""
    if name not in MODULES:
        pytest.fail(f"credit module {name!r} has no entry: add a Module(...) to MODULES in tests/credit_cases.py")
    return MODULES[name][number]


def estimate(name: str, number: int) -> Estimator:
    """Its setting. Fails the test with what to add."""
    if name not in ESTIMATES:
        pytest.fail(f"estimator {name!r} has no entry: add an Estimator(...) to ESTIMATES in tests/credit_cases.py")
    return ESTIMATES[name][number]


@cache
def made_part(name: str, number: int) -> Any:
    """The module in this setting; fitted once for all tests where the setting says so."""
    setting = module(name, number)
    return _ready(make_part(name, setting.options), setting.fit)


@cache
def made_estimator(name: str, number: int) -> Any:
    """The estimator in this setting; fitted once for all tests where the setting says so."""
    setting = estimate(name, number)
    return _ready(make_estimator(name, setting.options), setting.fit)


def _ready(part: Any, fit: bool) -> Any:
    if fit:
        groups = chain(12)
        for group in groups:  # milestones as the chain's deeds are done, for MiRA
            for episode in group:
                episode.milestone_names = NAMES
                for turn in episode.turns:
                    turn.milestones = NAMES[
                        : sum(not t.response.startswith("go") for t in episode.turns[: turn.index + 1])
                    ]
        part.warm_up(groups, offered(frozenset(getattr(part, "requires", ()))))
        assert part.report()["fallback"] == 0
    return part


def needs(part: Any) -> frozenset[str]:
    """The services that a part or an estimator names."""
    critic = {"critic"} if getattr(part, "requires_critic", False) else set()
    return frozenset(getattr(part, "requires", ())) | critic
