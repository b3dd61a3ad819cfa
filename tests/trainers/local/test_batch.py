"""Batches: what is padded, what each token weighs, and that cutting changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import DataError
from agentgym.tokens import TokenRow
from agentgym.trainers.local.batch import (
    TrainRow,
    check_window,
    collate,
    micro_batches,
    minibatches,
    scatter,
    split_by_length,
    token_shares,
)

MODES = ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm"]


def brute_force_loss(losses: list[np.ndarray], weights: list[float], mode: str, divisor: float) -> float:
    """The three definitions, written as loops."""
    if mode == "token-mean":
        top = sum(w * float(v) for w, row in zip(weights, losses, strict=True) for v in row)
        return top / sum(w * len(row) for w, row in zip(weights, losses, strict=True))
    total = 0.0
    for w, row in zip(weights, losses, strict=True):
        total += w * (float(row.mean()) if mode == "seq-mean-token-mean" else float(row.sum()) / divisor)
    return total / sum(weights)


@pytest.mark.parametrize("mode", MODES)
def test_shares_are_the_definitions(mode):
    rng = np.random.default_rng(0)
    losses = [rng.normal(size=n) for n in (3, 1, 8, 5)]
    weights = [1.0, 2.0, 0.5, 1.0]
    shares = token_shares([len(row) for row in losses], weights, mode, 12.5)
    ours = sum(float(share * row.sum()) for share, row in zip(shares, losses, strict=True))
    assert ours == pytest.approx(brute_force_loss(losses, weights, mode, 12.5), abs=1e-12)


def test_dr_grpo_divisor_is_constant():
    # a row twice as long weighs twice as much, and adding a row only changes 1/N
    shares = token_shares([4, 8], [1, 1], "seq-mean-token-sum-norm", 10.0)
    assert shares.tolist() == [0.05, 0.05]
    assert token_shares([4, 8, 3, 3], [1] * 4, "seq-mean-token-sum-norm", 10.0).tolist() == [0.025] * 4


@pytest.mark.parametrize("mode", MODES)
def test_weightless_and_empty_rows_count_nowhere(mode):
    plain = token_shares([4, 8], [1, 1], mode, 10.0)
    padded = token_shares([4, 6, 0, 8], [1, 0, 1, 1], mode, 10.0)
    assert padded[[0, 3]].tolist() == plain.tolist()
    assert padded[1] == padded[2] == 0
    assert token_shares([4], [0], mode, 10.0).tolist() == [0]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=24), st.integers(1, 6), st.integers(50, 3000))
def test_split_holds_every_row_once_within_limits(lengths, max_rows, max_tokens):
    groups = split_by_length(lengths, max_rows, max_tokens)
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) <= max_rows
        assert len(group) == 1 or len(group) * max(lengths[i] for i in group) <= max_tokens


def test_split_is_the_cheapest_cut():
    lengths = [5, 300, 7, 290, 6, 310, 100]

    def cost(groups: list[list[int]]) -> int:
        return sum(len(g) * max(lengths[i] for i in g) + 256 for g in groups)

    order = sorted(range(7), key=lambda i: lengths[i])
    every = []
    for bits in range(1 << 6):
        groups, now = [], [order[0]]
        for k in range(1, 7):
            if bits >> (k - 1) & 1:
                groups.append(now)
                now = []
            now.append(order[k])
        every.append([*groups, now])
    assert cost(split_by_length(lengths)) == min(cost(groups) for groups in every)


def test_padding_is_right_and_never_read(rows):
    (batch,) = micro_batches(rows, max_tokens=10_000)[:1]
    assert batch.ids.shape[0] == len(batch.rows)
    flat = batch.ids.flatten()
    begin = 0
    for line, index in enumerate(batch.rows):
        row = rows[index].row
        assert batch.ids[line, : len(row)].tolist() == row.ids.tolist()
        count = int(row.mask.sum())
        at = batch.positions[begin : begin + count]
        # the position before each sampled token, inside this row's real part
        assert (at // batch.ids.shape[1] == line).all()
        assert (at % batch.ids.shape[1] < len(row) - 1).all()
        assert flat[at + 1].tolist() == batch.targets[begin : begin + count].tolist() == row.ids[row.mask].tolist()
        begin += count


def test_a_row_full_of_the_padding_id_is_kept():
    # the padding id (0) and "end" ids inside a row mean nothing: masks come from recorded spans
    row = TokenRow(
        np.zeros(6, np.int32),
        np.array([0, 1, 1, 0, 1, 1], bool),
        np.zeros(6, np.float32),
        np.array([-1, 0, 0, -1, 1, 1], np.int32),
    )
    (batch,) = micro_batches([TrainRow(row, np.ones(6, np.float32))])
    assert batch.positions.tolist() == [0, 1, 3, 4]


def test_scatter_is_the_inverse_of_collate(rows):
    batch = collate(rows, [2, 0, 4], np.ones(len(rows)))
    for index, array in zip(batch.rows, scatter(rows, batch, batch.advantages), strict=True):
        assert np.array_equal(array, rows[index].advantages)


def test_too_long_rows_are_counted_and_refused(rows):
    check_window(rows, 60)
    with pytest.raises(DataError, match=r"2 of 7 training rows exceed the model window of 57 tokens.*60 \(row 2\)"):
        check_window(rows, 57)


def test_minibatches_are_seeded_and_even():
    parts = minibatches(33, 32, 0, "x")
    assert [len(p) for p in parts] == [17, 16]
    assert sorted(np.concatenate(parts).tolist()) == list(range(33))
    assert np.array_equal(parts[0], minibatches(33, 32, 0, "x")[0])
    assert not np.array_equal(parts[0], minibatches(33, 32, 1, "x")[0])
    assert minibatches(0, 4, 0) == []


def test_bad_rows_are_refused(rows):
    row = rows[0].row
    with pytest.raises(ValueError, match="advantages"):
        TrainRow(row, np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="non-finite"):
        TrainRow(row, np.full(len(row), np.nan, np.float32))
    first = TokenRow(np.zeros(1, np.int32), np.ones(1, bool), np.zeros(1, np.float32), np.zeros(1, np.int32))
    with pytest.raises(ValueError, match="nothing came before"):
        TrainRow(first, np.zeros(1, np.float32))


def test_reference_is_carried_only_when_all_rows_have_it(rows):
    for row in rows:
        row.reference = row.row.logprobs - 1
    (batch,) = micro_batches(rows, max_tokens=100_000)[:1]
    assert torch.equal(batch.reference, batch.old - 1)
