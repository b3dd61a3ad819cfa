"""Token draws: distribution, determinism, truncation."""

from __future__ import annotations

import numpy as np
import torch

from agentgym.policies.sampling import RowSampling, draw, seed_array, uniforms
from agentgym.policy import Sampling

LOGITS = torch.tensor([2.0, 1.0, 0.0, -1.0, -30.0])


def drawn(sampling, count=20_000):
    rows = RowSampling.of(range(count), [sampling] * count, torch.device("cpu"))
    return draw(LOGITS.expand(count, -1), rows, 0)


def shares(tokens):
    return np.bincount(tokens, minlength=5) / len(tokens)


def test_draws_follow_the_distribution_at_the_temperature():
    for temperature in (1.0, 0.5, 2.0):
        tokens, logprobs = drawn(Sampling(temperature=temperature))
        expected = torch.log_softmax(LOGITS / temperature, -1)
        np.testing.assert_allclose(shares(tokens), expected.exp().numpy(), atol=0.012)
        np.testing.assert_allclose(logprobs, expected.numpy()[tokens], atol=1e-6)


def test_greedy_takes_the_lowest_id_among_ties():
    rows = RowSampling.of([1, 2], [Sampling(temperature=0)] * 2, torch.device("cpu"))
    tokens, _ = draw(torch.tensor([[1.0, 3.0, 3.0], [3.0, 0.0, 3.0]]), rows, 0)
    assert tokens.tolist() == [1, 0]


def test_top_k_and_top_p_cut_the_tail_but_not_the_recorded_logprob():
    for sampling, kept in ((Sampling(top_k=2), {0, 1}), (Sampling(top_p=0.7), {0, 1}), (Sampling(top_p=0.6), {0})):
        tokens, logprobs = drawn(sampling)
        assert set(tokens.tolist()) == kept
        np.testing.assert_allclose(logprobs, torch.log_softmax(LOGITS, -1).numpy()[tokens], atol=1e-6)


def test_uniforms_are_uniform_and_independent_of_neighbours():
    seeds = seed_array(range(50_000))
    values = uniforms(seeds, 3)
    assert values.min() >= 0
    assert values.max() < 1
    assert abs(values.mean() - 0.5) < 0.005
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(values, uniforms(seeds, 4))[0, 1]) < 0.02
    assert uniforms(seeds[7:8], 3)[0] == values[7]
    assert seed_array([-1, 1 << 70]).tolist() == [2**64 - 1, 0]


def test_rows_with_nan_are_reported_and_others_are_fine():
    rows = RowSampling.of([1, 2], [Sampling()] * 2, torch.device("cpu"))
    tokens, logprobs = draw(torch.tensor([[float("nan")] * 3, [0.0, 0.0, 0.0]]), rows, 0)
    assert np.isnan(logprobs[0])
    assert np.isfinite(logprobs[1])
    assert tokens.min() >= 0
    assert tokens.max() < 3
