"""After-episode reflections ``z = (phi, c, lesson)`` (RetroAgent, arXiv 2603.08561), and the rules that write them.

:func:`by_rules` reads the environment's milestones and the group; :mod:`agentgym.credit.retro.models` asks a model.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from agentgym.types import Episode, Group, Turn

_SHOWN_ACTIONS = 12
MINIMUM_LESSON = 5  # a lesson up to this many characters is trivial


@dataclass(frozen=True, slots=True)
class Reflection:
    """``phi`` share of the task done, in [0, 1]; ``predicted`` success (None: no prediction); ``lesson`` or empty.

    ``source``  ``rules``, ``policy`` or ``judge``; ``problem`` is ``parse`` or ``service`` where the model's answer
    could not be read or did not come.
    """

    phi: float
    predicted: bool | None
    lesson: str = ""
    source: str = "rules"
    problem: str = ""

    def fits(self, episode: Episode, text: str) -> bool:
        """Is ``text``, the lesson as it would be kept, not trivial, and by someone who judged the episode rightly?"""
        return self.predicted is not None and self.predicted == episode.success and len(text) > MINIMUM_LESSON


def by_rules(group: Group) -> list[Reflection]:
    """One reflection per episode, from facts alone; the outcome is looked at by nobody but phi = 1 on success.

    phi = milestones reached / all; c = all reached, and without milestones: the environment ended the episode.
    """
    return [
        Reflection(1.0 if episode.success else progress(episode), _predicted(episode), _lesson(episode, group))
        for episode in group
    ]


def reached(episode: Episode) -> set[str]:
    """Milestones that the episode reached."""
    return set(episode.turns[-1].milestones) if episode.turns else set()


def progress(episode: Episode) -> float:
    """Share of the task's milestones that were reached, in [0, 1]; 0 where the task has none."""
    names = set(episode.milestone_names)
    return len(names & reached(episode)) / len(names) if names else 0.0


def _predicted(episode: Episode) -> bool:
    if episode.milestone_names:
        return progress(episode) == 1.0
    return bool(episode.turns) and episode.turns[-1].terminated


def _lesson(episode: Episode, group: Group) -> str:
    if _predicted(episode):
        steps = _actions(episode.turns)
        if len(steps) > _SHOWN_ACTIONS:
            steps = _actions(_milestone_turns(episode)) or steps
        return f"This worked: {_joined(steps)}." if steps else ""
    parts = [_next_milestone(episode, group), _refused(episode), _repeated(episode)]
    found = " ".join([part for part in parts if part][:2])
    if not found and episode.milestone_names:
        missing = [name for name in episode.milestone_names if name not in reached(episode)]
        done = [name for name in episode.milestone_names if name in reached(episode)]
        found = f"Reached {', '.join(done) or 'nothing'}; {missing[0]} was still missing." if missing else ""
    return found


def _milestone_turns(episode: Episode) -> list[Turn]:
    """Turns that reached a milestone."""
    before = [0, *(len(turn.milestones) for turn in episode.turns)]
    return [turn for turn, had in zip(episode.turns, before, strict=False) if len(turn.milestones) > had]


def _next_milestone(episode: Episode, group: Group) -> str:
    """How another episode of the group reached the first milestone that this one missed, by the fewest actions."""
    have = reached(episode)
    for name in episode.milestone_names:
        ways = [way for other in group if name not in have and (way := _way_to(other, name))]
        if ways:
            return f"To reach {name}: {_joined(min(ways, key=len))}."
    return ""


def _way_to(episode: Episode, name: str) -> list[str]:
    """The actions from the milestone before ``name`` up to the turn that reached it."""
    start, before = 0, 0
    for turn in episode.turns:
        if name in turn.milestones:
            return _actions(episode.turns[start : turn.index + 1])
        if len(turn.milestones) > before:
            start, before = turn.index + 1, len(turn.milestones)
    return []


def _actions(turns: list[Turn]) -> list[str]:
    """Executed actions that changed what was seen; a run of one action once, with its length."""
    runs: list[tuple[str, int]] = []
    for turn in turns:
        if turn.action and turn.grounded and (turn.terminated or turn.next_observation != turn.observation):
            again = runs and runs[-1][0] == turn.action
            runs[-1:] = [(turn.action, runs[-1][1] + 1)] if again else [*runs[-1:], (turn.action, 1)]
    return [action if times == 1 else f"{action} (x{times})" for action, times in runs]


def _joined(actions: list[str]) -> str:
    if len(actions) > _SHOWN_ACTIONS:
        half = _SHOWN_ACTIONS // 2
        actions = [*actions[:half], "...", *actions[-half:]]
    return "; ".join(actions)


def _refused(episode: Episode) -> str:
    counts = Counter(turn.action for turn in episode.turns if turn.action and not turn.grounded)
    worst = [f"{action} ({n} times)" for action, n in counts.most_common(3) if n > 1]
    return f"Refused here, do not repeat: {'; '.join(worst)}." if worst else ""


def _repeated(episode: Episode) -> str:
    """An executed action, taken again in the same place at least three times, leads nowhere."""
    counts = Counter((turn.action, turn.state_key) for turn in episode.turns if turn.action and turn.grounded)
    found = counts.most_common(1)
    if not found or found[0][1] < 3:
        return ""
    (action, _), times = found[0]
    return f"Repeating {action} ({times} times in the same place) led nowhere."
