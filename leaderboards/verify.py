"""Check an entry against its episodes, and the episodes against the environment.

1. the board: is its hash still the entry's? If not the entry is *stale*: nothing else is wrong with it.
2. the books: every episode once, on the panel, with the seed that follows from the entry's, and the hash is the entry's
3. the numbers, computed anew from the episodes
4. the turns: each action is what the format reads out of the response, and none is behind the turn limit
5. a sample is played again: the recorded actions through the environment, which must answer, pay and end as recorded
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentgym.environment import Environment
from agentgym.errors import AgentGymError, DataError
from agentgym.leaderboards.board import Board
from agentgym.leaderboards.catalogue import load_board, load_panel, load_tasks, open_world
from agentgym.leaderboards.entry import Entry
from agentgym.leaderboards.ledger import Ledger
from agentgym.leaderboards.scoring import make_entry
from agentgym.parsing import ActionFormat
from agentgym.registry import environment_class
from agentgym.seeding import python_rng
from agentgym.store import EpisodeStore
from agentgym.types import Episode, Observation, Step, TaskSet, Termination

#: turns of an environment that steps inline that are played again without being asked: seconds of work
CHEAP_TURNS = 20_000
SAMPLE = 20
MAX_PROBLEMS = 20


@dataclass(slots=True)
class Verdict:
    """What was found. ``problems`` empty: the entry holds. ``replayed`` of ``episodes`` were played again."""

    stale: bool = False
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    episodes: int = 0
    replayed: int = 0

    @property
    def ok(self) -> bool:
        """Nothing is wrong."""
        return not self.problems


def read_entry(path: Path) -> Entry:
    """An entry's file. DataError where it is missing or breaks the schema."""
    try:
        return Entry.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"entry {path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"entry {path}: not UTF-8 text (byte {error.start})") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        raise DataError(f"entry {path}: {where}: {first['msg']}, got {first['input']!r:.80}") from error


def verify(
    entry: Entry, episodes: Path | None, board: Board | None = None, *, board_name: str | None = None,
    tasks: TaskSet | None = None, replay: int | None = None, seed: int = 0,
) -> Verdict:  # fmt: skip
    """Check ``entry`` against the store at ``episodes`` (None: only the board can be checked).

    ``tasks``: the board's, where they are loaded already. ``replay``: episodes to play again, drawn by ``seed``; None:
    all where that takes seconds, else ``SAMPLE``.
    Raises DataError where the board's data is missing, so that nothing can be played.
    """
    verdict = Verdict()
    board = board or load_board(board_name or entry.board)
    if entry.kind == "credit" or board.kind == "credit":
        verdict.stale = entry.board_hash != board.hash
        verdict.notes.append("a credit method has no episodes: run benchmarks/credit/bench.py to measure it again")
        return verdict
    if entry.board_hash != board.hash:
        verdict.stale = True
        verdict.notes.append(f"the board's hash is {board.hash} now, the entry's is {entry.board_hash}: stale")
        return verdict
    if episodes is None or not episodes.is_file():
        verdict.notes.append("its episodes are not here: only the board was checked")
        return verdict
    panel = load_panel(board, board_name)
    tasks = load_tasks(board, panel) if tasks is None else tasks
    ledger = Ledger(panel, tasks, board.attempts, entry.seed, f"entry {entry.model.label!r}")
    try:
        with EpisodeStore(episodes) as store:
            _books(entry, board, ledger, store, verdict)
            if verdict.ok:
                _replay(board, store, entry, verdict, replay, seed)
    except DataError as error:
        verdict.problems.append(str(error))
    return verdict


def _books(entry: Entry, board: Board, ledger: Ledger, store: EpisodeStore, verdict: Verdict) -> None:
    form = ActionFormat(**entry.settings["format"]) if "format" in entry.settings else board.format.build()
    form = form.with_tools(environment_class(board.environment).spec.tools)
    for episode in store:
        ledger.add(episode)
        for problem in _turns(episode, form, board.limits.max_turns or 0):
            _note(verdict, f"{episode.where}: {problem}")
    verdict.episodes = len(ledger.outcomes())
    if not ledger.complete:
        _note(verdict, f"{ledger.total} episodes belong to the board, {verdict.episodes} are in the file")
        return
    assert entry.episodes is not None
    if ledger.hash() != entry.episodes.hash:
        _note(verdict, f"the episodes have hash {ledger.hash()[:16]}..., the entry says {entry.episodes.hash[:16]}...")
    again = make_entry(board, ledger, entry.model, code_version=entry.code_version, settings=entry.settings)
    for problem in differences(_scored(entry), _scored(again)):
        _note(verdict, f"computed from the episodes, {problem}")


def _scored(entry: Entry) -> dict[str, Any]:
    """The parts of an entry that follow from its episodes."""
    names = {
        "numbers", "kinds", "terminations", "errors", "results", "scores", "cost", "tasks", "attempts", "panel_hash"
    }  # fmt: skip
    return entry.model_dump(mode="json", include=names)


def differences(said: Any, found: Any, at: str = "") -> Iterator[str]:
    """Where two JSON trees differ, numbers by more than rounding."""
    if isinstance(said, dict) and isinstance(found, dict):
        for key in sorted({*said, *found}):
            yield from differences(said.get(key), found.get(key), f"{at}.{key}" if at else str(key))
    elif isinstance(said, float | int) and isinstance(found, float | int):
        if not math.isclose(said, found, rel_tol=1e-9, abs_tol=1e-12):
            yield f"{at} is {found!r}, the entry says {said!r}"
    elif said != found:
        yield f"{at} is {found!r:.80}, the entry says {said!r:.80}"


def _turns(episode: Episode, form: ActionFormat, limit: int) -> Iterator[str]:
    if len(episode.turns) > limit:
        yield f"{len(episode.turns)} turns, the board allows {limit}"
    for turn in episode.turns:
        if turn.finish_reason == "length" or turn.info.get("agent_stop"):
            continue
        parsed = form.parse(turn.response)
        if (parsed.action, parsed.valid) != (turn.action, turn.valid):
            yield f"turn {turn.index}: the response says {parsed.action!r:.60}, recorded is {turn.action!r:.60}"


def _replay(
    board: Board, store: EpisodeStore, entry: Entry, verdict: Verdict, wanted: int | None, seed: int
) -> None:  # fmt: skip
    """Play a sample of the episodes again."""
    world = open_world(board)
    count = len(store)
    if wanted is None:
        turns = entry.numbers["turns"].value or 0.0
        wanted = count if world.spec.cheap and world.spec.thread_safe and count * turns <= CHEAP_TURNS else SAMPLE
    chosen = set(python_rng("replay", entry.episodes.hash if entry.episodes else "", seed).sample(
        range(count), min(wanted, count)
    ))  # fmt: skip
    try:
        for position, episode in enumerate(store):
            if position in chosen and not episode.termination.is_failure:
                problem = replay(world, episode)
                verdict.replayed += 1
                if problem:
                    _note(verdict, f"{episode.where}: played again, {problem}")
    finally:
        world.close()


def replay(world: Environment, episode: Episode) -> str:
    """Play the recorded actions; the first difference in words, empty for none."""
    try:
        return _differs(world, episode)
    except AgentGymError as error:
        return f"the environment refuses: {error}"


def _differs(world: Environment, episode: Episode) -> str:
    observation: Observation = world.reset(episode.task)
    step: Step | None = None
    total, score = 0.0, None
    shown = observation.text
    for turn in episode.turns:
        if world.comparable(turn.observation) != world.comparable(shown):
            return f"turn {turn.index} begins with {shown!r:.80}, recorded is {turn.observation!r:.80}"
        if step is not None and step.terminated:
            return f"it is over before turn {turn.index}"
        if turn.action is None or turn.finish_reason == "length" or turn.info.get("agent_stop"):
            if turn.terminated or turn.rewards.get("env"):
                return f"turn {turn.index} had no action, but is recorded with a reward or an end"
            shown = turn.next_observation or shown
            continue
        step = world.step(turn.action)
        total, score, shown = total + step.reward, step.score, step.observation.text
        found = (
            world.comparable(shown), step.terminated, step.grounded, float(step.reward), tuple(step.milestones)
        )  # fmt: skip
        answer = turn.next_observation
        recorded = (
            answer and world.comparable(answer), turn.terminated, turn.grounded, turn.rewards.get("env", 0.0),
            turn.milestones,
        )  # fmt: skip
        for what, now, then in zip(("answer", "end", "grounded", "reward", "milestones"), found, recorded, strict=True):
            if now != then:
                return f"turn {turn.index}: {what} is {now!r:.80}, recorded is {then!r:.80}"
    return _end(episode, step, total if score is None else score)


def _end(episode: Episode, step: Step | None, outcome: float) -> str:
    over = step is not None and step.terminated
    success = bool(step is not None and over and step.success)
    if over != (episode.termination is Termination.ENV_DONE):
        return f"it {'ends' if over else 'does not end'}, recorded is {episode.termination.value}"
    if success != episode.success:
        return f"success is {success}, recorded is {episode.success}"
    if not math.isclose(outcome, episode.outcome, rel_tol=1e-9, abs_tol=1e-9):
        return f"the outcome is {outcome:g}, recorded is {episode.outcome:g}"
    return ""


def _note(verdict: Verdict, problem: str) -> None:
    if len(verdict.problems) < MAX_PROBLEMS:
        verdict.problems.append(problem)


def as_json(verdict: Verdict) -> str:
    """A verdict for programs."""
    facts = {
        "ok": verdict.ok, "stale": verdict.stale, "problems": verdict.problems, "notes": verdict.notes,
        "episodes": verdict.episodes, "replayed": verdict.replayed,
    }  # fmt: skip
    return json.dumps(facts, indent=2, ensure_ascii=False)
