"""What each sampled token of constrained rollouts was drawn among, worked out again from the recorded turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agentgym.errors import DataError
from agentgym.parsing import ActionFormat
from agentgym.types import Episode

#: [token row][sampled token of the row][id that could have been drawn]
Choices = list[list[Sequence[int]]]


def choices_of(policy: Any, action_format: ActionFormat) -> Callable[[Episode], Choices] | None:
    """The function from an episode to its choices, or None for a policy that draws from the whole vocabulary.

    The loss must normalise over the very ids the sampler did, or the ratio of the two is not one at the start.
    It raises DataError where a recorded response is not one of the turn's admissible actions.
    """
    if not getattr(policy, "constrain", False):
        return None

    def choices(episode: Episode) -> Choices:
        found: Choices = [[] for _ in episode.rows]
        for turn in episode.turns:
            if turn.row < 0 or turn.end == turn.start:
                continue
            ids = episode.rows[turn.row].ids[turn.start : turn.end].tolist()
            try:
                found[turn.row].extend(policy.allowed(action_format, turn.admissible or (), ids))
            except ValueError as error:
                raise DataError(f"{episode.where}, turn {turn.index}: {error}") from error
        return found

    return choices
