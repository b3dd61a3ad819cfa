"""Evaluate a policy on a board: a folder with the evaluation's identity, an append-only episode file, and the entry.

    folder/evaluation.json   what is being measured; a second start must be of the same
    folder/episodes.agym     every episode as it ends, broken ones included
    folder/entry.json        written when every episode is there

A start in a folder that is there goes on: episodes that were played are kept, missing and broken ones are played. What
an episode does hangs on its own seed, so a run that was killed gives the same entry as one that was not.
"""

from __future__ import annotations

import datetime
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from agentgym.augment import Augmenter
from agentgym.errors import AgentGymError, ConfigError, DataError
from agentgym.evaluation import data_facts, setup_facts
from agentgym.leaderboards.board import Board
from agentgym.leaderboards.entry import Entry, ModelIdentity, Training
from agentgym.leaderboards.identity import code_version
from agentgym.leaderboards.ledger import Ledger
from agentgym.leaderboards.limits import Budget, Meter, metered
from agentgym.leaderboards.panel import Panel
from agentgym.leaderboards.scoring import make_entry
from agentgym.parsing import ActionFormat
from agentgym.policy import Policy
from agentgym.prompts import PromptLayout
from agentgym.rollouts.config import Limits, RolloutConfig
from agentgym.rollouts.engine import RolloutEngine
from agentgym.store import EpisodeStore
from agentgym.tally import Outcome
from agentgym.types import Episode, TaskSet

EPISODES, IDENTITY, ENTRY = "episodes.agym", "evaluation.json", "entry.json"
#: so many broken episodes one after another, and no good one in between, stop an evaluation: the cause is not theirs
MAX_BROKEN = 20


class Stopped(AgentGymError):
    """An evaluation ended before every episode was there: a limit, or everything broke. Starting it again goes on."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What an entry chose where the board lets it choose; None: the board's own."""

    layout: PromptLayout | None = None
    format: ActionFormat | None = None
    max_tokens: int | None = None


@dataclass(slots=True)
class Job:
    """One evaluation. ``notes``: facts about ``augmenter``, for the record; ``progress`` is told of every episode."""

    board: Board
    panel: Panel
    tasks: TaskSet
    model: ModelIdentity
    seed: int = 0
    concurrency: int = 64
    chosen: Chosen = field(default_factory=Chosen)
    augmenter: Augmenter | None = None
    notes: Mapping[str, Any] | None = None
    training: Training | None = None
    budget: Budget = field(default_factory=Budget)
    progress: Callable[[Ledger, Outcome | None], None] | None = None

    def config(self) -> RolloutConfig:
        """How the rollout engine plays it."""
        board, sampling = self.board, self.board.sample()
        if self.chosen.max_tokens is not None:
            from dataclasses import replace

            sampling = replace(sampling, max_tokens=min(self.chosen.max_tokens, sampling.max_tokens))
        return RolloutConfig(
            layout=self.chosen.layout or board.prompt.build(),
            format=self.chosen.format or board.format.build(),
            sampling=sampling,
            limits=Limits(**board.limits.model_dump(exclude={"max_response_tokens"})),
            concurrency=self.concurrency,
            augmenter=self.augmenter,
        )

    def settings(self) -> dict[str, Any]:
        """What the entry says about how it was played; JSON-compatible."""
        facts = setup_facts(self.board.environment, self.config(), self.board.env_options)
        for name in ("step_timeout", "reset_timeout", "policy_timeout"):
            facts["limits"].pop(name)
        if self.notes is not None:
            facts["notes"] = dict(self.notes)
        plain: dict[str, Any] = json.loads(json.dumps(facts))
        return plain

    def identity(self) -> dict[str, Any]:
        """What a second start must share."""
        return {
            "board": self.board.name, "board_hash": self.board.hash, "model": self.model.model_dump(mode="json"),
            "seed": self.seed, "settings": self.settings(),
        }  # fmt: skip


class Player(Protocol):
    """What plays the missing episodes. Calls ``finished`` for each, from one thread; ``stop`` may come from any."""

    name: str

    def play(self, job: Job, skip: set[tuple[str, int]], finished: Callable[[Episode], None]) -> None: ...

    def stop(self) -> None: ...


class LocalPlayer:
    """Plays in this process; ``policy`` is one object for all episodes."""

    name = "local"

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._engine: RolloutEngine | None = None
        self._stopped = False

    def meter(self, meter: Meter) -> None:
        """Count every call."""
        self.policy = metered(self.policy, meter)

    def play(self, job: Job, skip: set[tuple[str, int]], finished: Callable[[Episode], None]) -> None:
        """Play what is not in ``skip``."""
        board = job.board
        with RolloutEngine(board.environment, self.policy, job.config(), board.env_options) as engine:
            self._engine = engine
            if not self._stopped:
                engine.run_sync(job.tasks, board.attempts, job.seed, finished, collect=False, skip=skip)

    def stop(self) -> None:
        """Start nothing more; episodes in flight are recorded as aborted."""
        self._stopped = True
        if self._engine is not None:
            self._engine.stop()


def run(job: Job, player: Player, folder: Path) -> Entry:
    """Play what is missing and write the entry.

    Raises Stopped when a limit was reached or everything broke, DataError where the data is not the board's,
    ConfigError where ``folder`` holds something else. Ctrl-C passes through; what was played is in the file.
    """
    begun = time.perf_counter()
    facts = open_folder(job, folder)
    ledger = Ledger(job.panel, job.tasks, job.board.attempts, job.seed, f"board {job.board.name!r}")
    with EpisodeStore(folder / EPISODES) as store:
        store.lock()
        for episode in store:
            ledger.add(episode)
        before = len(ledger.played)
        _Session(job, player, ledger, store).play()
    played = len(ledger.played) > before
    entry = make_entry(
        job.board, ledger, job.model, code_version=facts["code_version"], settings=facts["settings"],
        training=job.training, data=data_facts(job.tasks, job.board.env_options), created=_now(),
        seconds=time.perf_counter() - begun, engine=player.name, file=EPISODES,
        note=f"finished with {code_version()}" if played and facts["code_version"] != code_version() else "",
    )  # fmt: skip
    write(folder / ENTRY, entry.to_json())
    return entry


class _Session:
    """One start of an evaluation: plays, watches the limits, and says why it stopped."""

    def __init__(self, job: Job, player: Player, ledger: Ledger, store: EpisodeStore) -> None:
        self.job, self.player, self.ledger, self.store = job, player, ledger, store
        self.reason = ""
        self._broken = 0
        self._meter = Meter(job.budget, ledger.spent_tokens, ledger.spent_money, self.stop)

    def play(self) -> None:
        """Play what is missing; Stopped where not all of it could be."""
        job, ledger = self.job, self.ledger
        skip = ledger.played
        self.reason = job.budget.exceeded(ledger.spent_tokens, ledger.spent_money)
        if job.progress is not None:
            job.progress(ledger, None)
        if len(skip) < ledger.total and not self.reason:
            self._play(skip)
        if self.reason and len(ledger.played) < ledger.total:
            left = ledger.total - len(ledger.played)
            raise Stopped(
                f"stopped: {self.reason}. {left} of {ledger.total} episodes are still to be played; what was played is "
                f"in {self.store.path}, and the same command goes on from there"
            )

    def _play(self, skip: set[tuple[str, int]]) -> None:
        seconds = self.job.budget.seconds
        timer = None
        if seconds is not None:
            timer = threading.Timer(seconds, self.stop, (f"{seconds:g} seconds are over",))
            timer.daemon = True
            timer.start()
        if isinstance(self.player, LocalPlayer):
            self.player.meter(self._meter)
        try:
            self.player.play(self.job, skip, self._finished)
        finally:
            if timer is not None:
                timer.cancel()
            self.store.flush()

    def stop(self, reason: str) -> None:
        """End this start, for ``reason``."""
        self.reason = self.reason or reason
        self.player.stop()

    def _finished(self, episode: Episode) -> None:
        self.ledger.check(episode)  # an episode on other data must not get into the file
        self.store.append(episode)
        outcome = self.ledger.add(episode)
        if not isinstance(self.player, LocalPlayer):
            self._meter.account(outcome)
        if self.job.progress is not None:
            self.job.progress(self.ledger, outcome)
        self._broken = self._broken + 1 if outcome.failed else 0
        if self._broken >= max(MAX_BROKEN, self.job.concurrency) and not self.reason:
            self.stop(f"the last {self._broken} episodes all broke; the latest: {outcome.error}")


def open_folder(job: Job, folder: Path) -> dict[str, Any]:
    """Make the evaluation's folder, or check that it is the same evaluation's; gives what its identity file says."""
    place = folder / IDENTITY
    wanted = job.identity()
    if place.is_file():
        try:
            facts: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DataError(f"{place}: not JSON: {error}") from error
        differ = [key for key in wanted if facts.get(key) != wanted[key]]
        if differ or "code_version" not in facts:
            key = differ[0] if differ else "code_version"
            raise ConfigError(
                f"{folder} holds another evaluation: its {key} is {_short(facts.get(key))}, now "
                f"{_short(wanted.get(key))}. Choose another --out, or remove the folder"
            )
        return facts
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is there and holds no evaluation; choose another --out")
    facts = wanted | {"code_version": code_version(), "created": _now()}
    write(place, json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
    return facts


def write(path: Path, text: str) -> None:
    """Write a file in one go: there is never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:200] + "..."
