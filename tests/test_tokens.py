"""Token rows: every sampled token is kept once, whatever the prompts do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.tokens import RowBuilder, TokenRow

ids = st.lists(st.integers(0, 9), max_size=6)


def test_append_only_conversation_is_one_row() -> None:
    builder = RowBuilder(capacity=1)
    first = builder.add(0, [1, 2], [3, 4], [-0.5, -0.25])
    second = builder.add(1, [1, 2, 3, 4, 5], [6], [-1.0])
    (row,) = builder.rows()
    assert (first, second, builder.prefix_breaks) == ((0, 2, 4), (0, 5, 6), 0)
    assert row.ids.tolist() == [1, 2, 3, 4, 5, 6]
    assert row.mask.tolist() == [False, False, True, True, False, True]
    assert row.turns.tolist() == [-1, -1, 0, 0, -1, 1]
    assert row.logprobs.tolist() == [0, 0, -0.5, -0.25, 0, -1.0]


def test_changed_prefix_opens_a_row() -> None:
    builder = RowBuilder()
    builder.add(0, [1], [2], [-1.0])
    assert builder.add(1, [1, 9], [3], [-2.0]) == (1, 2, 3)
    assert builder.add(2, [1], [4], [-3.0]) == (2, 1, 2)  # shorter than what is recorded
    assert [row.ids.tolist() for row in builder.rows()] == [[1, 2], [1, 9, 3], [1, 4]]
    assert builder.prefix_breaks == 2


def test_rows_are_copies() -> None:
    builder = RowBuilder()
    builder.add(0, [1], [2], [0.0])
    before = builder.rows()[0]
    builder.add(1, [1, 2], [3], [0.0])
    assert len(before) == 2
    assert len(builder.rows()[0]) == 3


def test_nothing_sampled_and_nothing_at_all() -> None:
    builder = RowBuilder()
    assert builder.rows() == []
    assert builder.add(0, [1, 2], [], []) == (0, 2, 2)
    assert not builder.rows()[0].mask.any()


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="turn 3: 2 sampled tokens but 1"):
        RowBuilder().add(3, [], [1, 2], [0.0])


@given(st.lists(st.tuples(st.booleans(), ids, ids), max_size=8))
def test_every_sampled_token_is_found_at_its_span(turns: list[tuple[bool, list[int], list[int]]]) -> None:
    """Any mixture of prompts that extend what was recorded and prompts that do not."""
    builder = RowBuilder(capacity=2)
    known: list[int] = []
    spans = []
    for number, (extends, prompt, drawn) in enumerate(turns):
        prompt = known + prompt if extends else prompt
        logprobs = [-0.5 * (i + number) for i in range(len(drawn))]
        spans.append((builder.add(number, prompt, drawn, logprobs), prompt, drawn, logprobs))
        known = prompt + drawn
    rows = builder.rows()
    assert sum(int(row.mask.sum()) for row in rows) == sum(len(drawn) for _, _, drawn, _ in spans)
    for number, ((row, start, end), prompt, drawn, logprobs) in enumerate(spans):
        if not prompt and not drawn:
            continue
        assert rows[row].ids[:start].tolist() == prompt
        assert rows[row].ids[start:end].tolist() == drawn
        assert rows[row].logprobs[start:end].tolist() == pytest.approx(logprobs)
        assert (rows[row].turns[start:end] == number).all()


def _row(**changes: object) -> TokenRow:
    values: dict[str, object] = {
        "ids": np.arange(3, dtype=np.int32),
        "mask": np.array([False, True, True]),
        "logprobs": np.zeros(3, np.float32),
        "turns": np.array([-1, 0, 0], np.int32),
    }
    return TokenRow(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mask": np.array([True])}, "3 ids but 1 entries in mask"),
        ({"turns": np.array([0, 0, 0], np.int32)}, "exactly where mask"),
        ({"logprobs": np.array([0, np.nan, 0], np.float32)}, "non-finite"),
        ({"logprobs": np.array([0, -np.inf, 0], np.float32)}, "non-finite"),
    ],
)
def test_inconsistent_rows_are_refused(changes: dict[str, object], message: str) -> None:
    assert len(_row()) == 3
    with pytest.raises(ValueError, match=message):
        _row(**changes)
