"""Hand-made groups for credit tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from agentgym.tokens import RowBuilder
from agentgym.types import Episode, Group, Task, Termination, Turn

MakeGroup = Callable[..., Group]


def make_episode(
    task: Task,
    index: int,
    outcome: float,
    turns: int,
    *,
    observation_tokens: int = 2,
    response_tokens: Sequence[int] | None = None,
    invalid: Sequence[int] = (),
    termination: Termination | None = None,
) -> Episode:
    """An episode of one append-only token row: observation, response, observation, ..."""
    builder, record, ids = RowBuilder(), [], [1]
    for t in range(turns):
        ids = ids + [7] * observation_tokens
        drawn = [100 + t] * (2 if response_tokens is None else response_tokens[t])
        row, start, end = builder.add(t, ids, drawn, [-0.5] * len(drawn))
        ids = ids + drawn
        record.append(Turn(t, f"o{t}", "r", "a", valid=t not in invalid, row=row, start=start, end=end))
    success = outcome == 1
    ended = termination or (Termination.ENV_DONE if success else Termination.MAX_TURNS)
    return Episode(task, index, index, record, ended, outcome, success and not ended.is_failure, rows=builder.rows())


def make_group(
    outcomes: Sequence[float], turns: Sequence[int] | None = None, name: str = "t", **options: object
) -> Group:
    """A group with these outcomes and turn counts."""
    task = Task("fake", name)
    lengths = turns if turns is not None else [2] * len(outcomes)
    return Group(
        task,
        [make_episode(task, i, r, n, **options) for i, (r, n) in enumerate(zip(outcomes, lengths, strict=True))],  # type: ignore[arg-type]
    )


@pytest.fixture(scope="session")
def group() -> MakeGroup:
    """:func:`make_group`."""
    return make_group


@pytest.fixture(scope="session")
def episode() -> Callable[..., Episode]:
    """:func:`make_episode`."""
    return make_episode
