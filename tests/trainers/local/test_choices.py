"""Training among admissible actions: the loss normalises over what the sampler drew from."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from agentgym.errors import DataError
from agentgym.parsing import ActionFormat
from agentgym.policies.trie import Trie
from agentgym.tokens import TokenRow
from agentgym.trainers.local.batch import TrainRow, micro_batches
from agentgym.trainers.local.choices import choices_of
from agentgym.trainers.local.loss import score_logits
from agentgym.types import Episode, Task, Termination, Turn


def row(allowed: list[list[int]] | None) -> TrainRow:
    mask = np.array([False, True, True])
    tokens = TokenRow(np.array([1, 2, 3], np.int32), mask, np.zeros(3, np.float32), np.array([-1, 0, 0], np.int32))
    return TrainRow(tokens, np.ones(3, np.float32), allowed=allowed, name="row")


def test_scores_are_those_of_the_distribution_over_the_choices_alone() -> None:
    logits = torch.tensor([[0.5, -1.0, 2.0, 0.1], [3.0, 1.0, 1.0, 0.0]], requires_grad=True)
    targets, allowed = torch.tensor([0, 1]), torch.tensor([[0, 2, 2], [1, 2, 3]])
    scores = score_logits(logits, targets, 0.5, allowed)
    first = np.exp([0.5 / 0.5, 2.0 / 0.5])
    second = np.exp([1.0 / 0.5, 1.0 / 0.5, 0.0])
    expected = [np.log(first[0] / first.sum()), np.log(second[0] / second.sum())]
    np.testing.assert_allclose(scores.logprobs.detach(), expected, rtol=1e-6)
    shares = [first / first.sum(), second / second.sum()]
    np.testing.assert_allclose(scores.entropy.detach(), [-(p * np.log(p)).sum() for p in shares], rtol=1e-5)
    scores.logprobs.sum().backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[0, 1] == logits.grad[0, 3] == logits.grad[1, 0] == 0


def test_a_token_without_an_alternative_has_no_gradient() -> None:
    logits = torch.randn(1, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    scores = score_logits(logits, torch.tensor([3]), 1.0, torch.tensor([[3, 3]]))
    scores.logprobs.sum().backward()
    assert scores.logprobs.item() == scores.entropy.item() == 0
    assert logits.grad is not None
    assert not logits.grad.any()


def test_choices_are_padded_with_one_of_their_own() -> None:
    (batch,) = micro_batches([row([[2, 7], [3]]), row([[9, 2, 4], [3]])])
    assert batch.allowed is not None
    lines = sorted(tuple(sorted(set(line))) for line in batch.allowed.tolist())
    assert lines == [(2, 4, 9), (2, 7), (3,), (3,)]
    (free,) = micro_batches([row(None)])
    assert free.allowed is None


def test_a_batch_is_constrained_or_it_is_not() -> None:
    with pytest.raises(ValueError, match="cannot share a batch"):
        micro_batches([row([[2], [3]]), row(None)])
    with pytest.raises(ValueError, match="2 sampled tokens but 1 lists"):
        row([[2]])


def test_a_path_of_the_trie() -> None:
    trie = Trie([[5, 6, 1], [5, 7, 1], [8, 1]])
    assert trie.allowed([5, 7, 1]) == [[5, 8], [6, 7], [1]]
    assert trie.allowed([5]) == [[5, 8]]
    with pytest.raises(KeyError):
        trie.allowed([6])


class Narrow:
    constrain = True

    def allowed(self, _format: ActionFormat, admissible: list[str], ids: list[int]) -> list[list[int]]:
        if not admissible:
            raise ValueError("none of 0 admissible actions")
        return [[token, 99] for token in ids]


def episode(admissible: tuple[str, ...] | None) -> Episode:
    first, second = np.array([-1, -1, 0, 0, -1]), np.array([-1, 1, -1, 3])
    rows = [
        TokenRow(np.arange(len(t), dtype=np.int32), t >= 0, np.zeros(len(t), np.float32), t) for t in (first, second)
    ]
    turns = [
        Turn(0, "a", "x", "x", admissible=admissible, row=0, start=2, end=4),
        Turn(1, "b", "x", "x", admissible=admissible, row=1, start=1, end=2),
        Turn(2, "c", "", None, admissible=admissible),
        Turn(3, "d", "x", "x", admissible=admissible, row=1, start=3, end=4),
    ]
    return Episode(Task("e", "t", "train"), 0, 0, turns=turns, rows=rows, termination=Termination.MAX_TURNS)


def test_choices_follow_the_rows() -> None:
    choices = choices_of(Narrow(), ActionFormat())
    assert choices is not None
    assert choices(episode(("x",))) == [[[2, 99], [3, 99]], [[1, 99], [3, 99]]]
    with pytest.raises(DataError, match=r"turn 0: none of 0 admissible"):
        choices(episode(None))
    assert choices_of(object(), ActionFormat()) is None
