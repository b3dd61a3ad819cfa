"""The loss against independent NumPy, where its gradient flows, and that batching changes nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from agentgym.config.recipe import RLSection
from agentgym.trainers.local import loss as loss_module
from agentgym.trainers.local.batch import micro_batches
from agentgym.trainers.local.loss import clipped_loss, k3, score, score_logits
from agentgym.trainers.local.optim import learning_rate
from agentgym.trainers.local.update import policy_loss

from .conftest import make_model, make_row


def gradient(model, batches, settings, temperature=1.0):
    model.zero_grad()
    total = 0.0
    for batch in batches:
        losses, _ = policy_loss(settings)(score(model, batch, temperature), batch)
        part = (losses * batch.shares).sum()
        part.backward()
        total += float(part.detach())
    return total, torch.cat([p.grad.flatten() for p in model.parameters()])


def test_clipped_loss_golden():
    # by hand: rho = 1.5, .5, 1.5, .5, 1.1; bounds [.8, 1.2]
    logp = torch.tensor([1.5, 0.5, 1.5, 0.5, 1.1]).log()
    advantages = torch.tensor([1.0, 1.0, -1.0, -1.0, 2.0])
    loss, ratio, clipped = clipped_loss(logp, torch.zeros(5), advantages, 0.2, 0.2)
    assert loss.tolist() == pytest.approx([-1.2, -0.5, 1.5, 0.8, -2.2], abs=1e-6)
    assert ratio.tolist() == pytest.approx([1.5, 0.5, 1.5, 0.5, 1.1], abs=1e-6)
    assert clipped.tolist() == [True, False, False, True, False]


def test_separate_clip_bounds():
    logp = torch.tensor([1.5, 0.5]).log()
    loss, _, _ = clipped_loss(logp, torch.zeros(2), torch.tensor([1.0, -1.0]), 0.1, 0.4)
    assert loss.tolist() == pytest.approx([-1.4, 0.9], abs=1e-6)


def test_k3_golden():
    value = k3(torch.tensor([-1.0, -2.0]), torch.tensor([-1.0, -1.0]))
    assert value.tolist() == pytest.approx([0.0, math.e - 2.0], abs=1e-6)


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.3])
def test_scores_match_numpy(temperature):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(6, 9)) * 3
    targets = rng.integers(0, 9, 6)
    z = logits / temperature
    logp = z - np.log(np.exp(z).sum(-1, keepdims=True))
    got = score_logits(torch.tensor(logits), torch.tensor(targets), temperature)
    assert got.logprobs.numpy() == pytest.approx(logp[np.arange(6), targets], abs=1e-5)
    assert got.entropy.numpy() == pytest.approx(-(np.exp(logp) * logp).sum(-1), abs=1e-5)
    assert got.top.tolist() == (logits.argmax(-1) == targets).tolist()


def test_masked_logits_give_finite_entropy():
    logits = torch.tensor([[0.0, float("-inf"), 0.0]], requires_grad=True)
    got = score_logits(logits, torch.tensor([0]))
    assert float(got.entropy.detach()) == pytest.approx(math.log(2), abs=1e-6)
    got.entropy.sum().backward()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm"])
def test_whole_loss_matches_numpy(model, rows, mode):
    """Full softmax over unpadded rows one at a time in float64, against the batched path."""
    settings = RLSection(kl_coef=0.3, entropy_coef=0.01, aggregation=mode)
    for row in rows:
        row.reference = np.where(row.row.mask, row.row.logprobs + 0.2, 0).astype(np.float32)
    rows[1].weight = 0.5
    total, parts, weights = 0.0, [], [row.weight for row in rows]
    for row in rows:
        with torch.no_grad():
            z = model(input_ids=torch.tensor(row.row.ids[None].astype(np.int64))).logits[0].double().numpy() / 0.8
        logp = z - np.log(np.exp(z).sum(-1, keepdims=True))
        at = np.flatnonzero(row.row.mask)
        chosen = logp[at - 1, row.row.ids[at]]
        rho = np.exp(chosen - row.row.logprobs[at].astype(np.float64))
        adv = row.advantages[at].astype(np.float64)
        policy = -np.minimum(rho * adv, np.clip(rho, 0.8, 1.2) * adv)
        d = row.reference[at].astype(np.float64) - chosen
        entropy = -(np.exp(logp[at - 1]) * logp[at - 1]).sum(-1)
        parts.append(policy + 0.3 * (np.exp(d) - d - 1) - 0.01 * entropy)
    if mode == "token-mean":
        total = sum(w * p.sum() for w, p in zip(weights, parts, strict=True))
        total /= sum(w * len(p) for w, p in zip(weights, parts, strict=True))
    else:
        per_row = [p.mean() if mode == "seq-mean-token-mean" else p.sum() / 20.0 for p in parts]
        total = float(np.average(per_row, weights=weights))
    ours, _ = gradient(model, micro_batches(rows, mode, 20.0), settings, 0.8)
    assert ours == pytest.approx(total, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm"])
def test_micro_batching_does_not_change_the_gradient(rows, mode):
    model = make_model().double()  # the arithmetic, not float noise: shares and advantages stay float32
    settings = RLSection(aggregation=mode, entropy_coef=0.01)
    _, whole = gradient(model, micro_batches(rows, mode, 50.0, max_tokens=1 << 20), settings)
    for max_rows in (1, 2, 3):
        _, cut = gradient(model, micro_batches(rows, mode, 50.0, max_rows=max_rows), settings)
        assert float((cut - whole).abs().max()) < 1e-6 * max(1.0, float(whole.abs().max()))


def test_order_of_rows_and_weightless_rows_change_nothing(model, rows):
    settings = RLSection()
    loss, whole = gradient(model, micro_batches(rows), settings)
    other_loss, other = gradient(model, micro_batches(rows[::-1]), settings)
    assert loss == pytest.approx(other_loss, abs=1e-6)
    assert torch.allclose(whole, other, atol=1e-6, rtol=1e-5)
    extra = make_row(99, 50)
    extra.weight = 0.0
    padded_loss, padded = gradient(model, micro_batches([*rows, extra]), settings)
    assert padded_loss == loss
    assert torch.equal(padded, whole)


def test_gradient_flows_only_through_sampled_tokens(rows):
    """The derivative with respect to logits is zero wherever no sampled token is predicted."""
    model = make_model()
    (row,) = [rows[3]]
    (batch,) = micro_batches([row])
    hidden, _ = loss_module.hidden_and_head(model, batch)
    assert hidden.shape[0] == row.trained  # logits exist only there
    seen = []
    model.model.register_forward_hook(lambda m, i, out: out.last_hidden_state.retain_grad() or seen.append(out))
    losses, _ = policy_loss(RLSection())(score(model, batch), batch)
    (losses * batch.shares).sum().backward()
    grads = seen[0].last_hidden_state.grad[0].abs().sum(-1)
    at = np.flatnonzero(row.row.mask) - 1
    others = np.setdiff1d(np.arange(len(row.row)), at)
    assert float(grads[others].max()) == 0.0
    assert (grads[at] > 0).any()


def test_tokens_after_a_row_change_nothing(model, rows):
    """Padding length does not matter: a row scores the same alone and beside a longer one."""
    (alone,) = micro_batches([rows[1]])
    (both,) = micro_batches([rows[1], rows[0]], max_tokens=1 << 20)
    begin = 0 if both.rows[0] == 0 else rows[0].trained
    together = score(model, both).logprobs[begin : begin + rows[1].trained]
    assert torch.allclose(score(model, alone).logprobs, together, atol=1e-5)


def test_chunked_head_equals_whole(model, rows, monkeypatch):
    settings = RLSection(entropy_coef=0.1)
    loss, whole = gradient(model, micro_batches(rows), settings)
    monkeypatch.setattr(loss_module, "CHUNK_NUMBERS", 500)
    other, chunked = gradient(model, micro_batches(rows), settings)
    assert other == pytest.approx(loss, abs=1e-6)
    assert torch.allclose(whole, chunked, atol=1e-6, rtol=1e-5)


def test_models_with_more_than_a_plain_head_use_their_own_forward(rows):
    model = make_model()
    (batch,) = micro_batches(rows[:1])
    expected = score(model, batch).logprobs
    model.config.logit_scale = 0.5  # Cohere-like: not reproduced by head(hidden), so forward() is asked
    assert loss_module.plain_head(model) is None
    assert torch.allclose(score(model, batch).logprobs, expected, atol=1e-5)


def test_schedule():
    assert [learning_rate(i, 10, 1.0, 4, "constant") for i in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert learning_rate(5, 10, 1.0, 0, "linear") == 0.5
    assert learning_rate(5, 10, 1.0, 0, "cosine") == pytest.approx(0.5)
    assert learning_rate(10, 10, 1.0, 0, "cosine") == pytest.approx(0.0)
