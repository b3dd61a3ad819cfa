"""Three example episodes: one task before and after training, and one more that shows what still goes wrong."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agentgym.errors import AgentGymError
from agentgym.report.run import Run
from agentgym.report.tables import BEFORE
from agentgym.types import Episode
from agentgym.web.text import cut

MAX_TEXT = 2000  # characters of one observation or response
MAX_TURNS = 60  # turns of one example


@dataclass(frozen=True, slots=True)
class _Known:
    store: Path
    place: int
    task: str
    success: bool
    failed: bool


@dataclass(frozen=True, slots=True)
class TurnView:
    """One turn as shown."""

    observation: str
    response: str
    marks: str


@dataclass(frozen=True, slots=True)
class ExampleView:
    """One episode as shown."""

    title: str
    facts: str
    turns: list[TurnView]
    last: str
    left_out: int


def pick_examples(run: Run) -> list[ExampleView]:
    """Up to three. Stores named ``sft...`` or ``before...`` count as before training, all others as after."""
    before: list[_Known] = []
    after: list[_Known] = []
    for store in run.stores:
        (before if store.stem.startswith(BEFORE) else after).extend(_index(run, store))
    wins = {known.task: known for known in reversed(after) if known.success}
    lost = {known.task: known for known in reversed(before) if not known.success}
    task = next((task for task in wins if task in lost), None)
    chosen: list[tuple[str, _Known]] = []
    if task is not None:
        chosen = [("Before training", lost[task]), ("After training, the same task", wins[task])]
    else:
        won = next(iter(wins.values()), next((known for known in before if known.success), None))
        chosen = [("A success", won)] if won else []
    rest = [known for known in after or before if not known.success and known not in [k for _, k in chosen]]
    chosen += [("A failure", known) for known in rest[:1]]
    shown = [_view(run, title, known) for title, known in chosen]
    return [view for view in shown if view is not None]


def _index(run: Run, path: Path) -> list[_Known]:
    """What each episode of a store is, without keeping any of them."""
    from agentgym.store import EpisodeStore

    out: list[_Known] = []
    try:
        with EpisodeStore(path) as store:
            for place, episode in enumerate(store):
                out.append(_Known(path, place, episode.task.id, episode.success, episode.termination.is_failure))
    except (AgentGymError, OSError, ValueError) as error:
        run.problems.append(f"{path.name}: {error}")
    return [known for known in out if not known.failed]


def _view(run: Run, title: str, known: _Known) -> ExampleView | None:
    from agentgym.store import EpisodeStore

    try:
        with EpisodeStore(known.store) as store:
            episode = store[known.place]
    except (AgentGymError, OSError, ValueError, IndexError) as error:
        run.problems.append(f"{known.store.name}: {error}")
        return None
    return view(title, episode)


def view(title: str, episode: Episode) -> ExampleView:
    """An episode as text, cut to a readable length."""
    turns = [
        TurnView(cut(turn.observation, MAX_TEXT), cut(turn.response, MAX_TEXT), _marks(turn.valid, turn.grounded))
        for turn in episode.turns[:MAX_TURNS]
    ]
    result = "solved" if episode.success else "not solved"
    ended = episode.termination.value
    facts = f"{result}, outcome {episode.outcome:g}, {len(episode.turns)} turns, {ended}, policy {episode.policy}"
    last = cut(episode.turns[-1].next_observation, MAX_TEXT) if episode.turns else ""
    name = f"{title}: {episode.task.env} {episode.task.kind} {episode.task.name}"
    return ExampleView(name, facts, turns, last, max(0, len(episode.turns) - MAX_TURNS))


def _marks(valid: bool, grounded: bool) -> str:
    return ", ".join(
        word for word, wrong in (("invalid response", not valid), ("refused action", not grounded)) if wrong
    )
