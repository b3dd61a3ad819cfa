"""A tiny random model over a small household text, shared by the policy tests."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from agentgym.config.recipe import TinyModelSection
from agentgym.parsing import ActionFormat
from agentgym.policies.tiny import make_tiny
from agentgym.policy import PolicyRequest, Sampling

torch.set_num_threads(1)

OBSERVATIONS = [
    "You are in the middle of a room. Looking quickly around you, you see a drawer 1, a desk 1, and a drawer 12.",
    "On the desk 1, you see a red key, and a mug 3.",
    "You open the drawer 12. The drawer 12 is open. In it, you see nothing.",
    "Nothing happens.",
]
ACTIONS = ["go to desk 1", "go to drawer 12", "open drawer 12", "take red key from desk 1", "look"]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Folder of a 0.1 M parameter model whose weights are large enough for peaked distributions."""
    folder = tmp_path_factory.mktemp("tiny") / "model"
    return make_tiny(folder, OBSERVATIONS + ACTIONS, TinyModelSection(), seed=3)


@pytest.fixture
def policy(tiny):
    return sharpened(tiny)


def sharpened(folder, scale=4.0, **options):
    """The tiny policy with scaled embeddings, so that its distributions are far from uniform."""
    from agentgym.policies.hf import HFPolicy

    policy = HFPolicy.from_pretrained(folder, device="cpu", **options)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(scale)
    return policy


def request(session, turn, messages, seed=0, sampling=None, **options):
    return PolicyRequest(session, turn, messages, sampling or Sampling(max_tokens=9), ActionFormat(), seed, **options)


def play(policy, sessions, turns, sampling=None, batches=None, seed=0):
    """Ragged conversations; returns {session: RowBuilder} and {session: [SampledTurn]}.

    ``batches(turn, sessions)`` splits the sessions of one turn into calls.
    """
    from agentgym.tokens import RowBuilder

    conversations = {s: [{"role": "user", "content": OBSERVATIONS[0]}] for s in sessions}
    rows = {s: RowBuilder() for s in sessions}
    answers = {s: [] for s in sessions}
    for turn in range(turns):
        live = [s for s in sessions if turn < turns - int(s[1:]) % 4]
        for batch in batches(turn, live) if batches else [live]:
            out = policy.act_batch(
                [request(s, turn, conversations[s], seed * 7919 + int(s[1:]) * 1000 + turn, sampling) for s in batch]
            )
            for session, answer in zip(batch, out, strict=True):
                assert not isinstance(answer, Exception), answer
                rows[session].add(turn, answer.prompt_ids, answer.token_ids, answer.logprobs)
                answers[session].append(answer)
                seen = " ".join(
                    OBSERVATIONS[(int(session[1:]) + turn + k) % 4] for k in range(1 + int(session[1:]) % 3)
                )
                conversations[session] = [
                    *conversations[session],
                    {"role": "assistant", "content": answer.text},
                    {"role": "user", "content": seen},
                ]
    return rows, answers


def recomputed(model, row, temperature):
    """Log-probabilities of all tokens of a row but the first, by one plain forward; float32 [L - 1]."""
    ids = torch.from_numpy(row.ids.astype(np.int64))[None]
    model.eval()
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0].float() / temperature
    return torch.log_softmax(logits, -1)[:-1].gather(1, ids[0, 1:, None])[:, 0].numpy()


def assert_exact(model, rows, temperature=1.0, tolerance=1e-5):
    """Every sampled token's recorded log-probability equals the recomputed one."""
    checked = 0
    for builder in rows.values():
        for row in builder.rows():
            mask = row.mask[1:]
            gap = np.abs(recomputed(model, row, temperature)[mask] - row.logprobs[1:][mask])
            assert gap.max(initial=0.0) <= tolerance
            checked += int(mask.sum())
    assert checked
    return checked
