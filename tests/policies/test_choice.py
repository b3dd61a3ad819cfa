"""Constrained sampling and scoring among admissible actions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from agentgym.errors import ContextOverflow, PolicyFault
from agentgym.parsing import ActionFormat
from agentgym.policies.backends import PlainBackend
from agentgym.policies.choice import ChoicePolicy
from agentgym.policies.scoring import score
from agentgym.policy import Sampling

from .conftest import ACTIONS, OBSERVATIONS, play, request, sharpened

MESSAGES = [{"role": "user", "content": OBSERVATIONS[0]}]


def test_constrained_draws_are_always_admissible_and_follow_the_model(tiny):
    policy = sharpened(tiny, scale=2.0, constrain=True)
    out = policy.act_batch([request(f"s{i}", 0, MESSAGES, i, admissible=ACTIONS[: 1 + i % 5]) for i in range(60)])
    parsed = [ActionFormat().parse(answer.text) for answer in out]
    assert all(p.valid and p.action in ACTIONS[: 1 + i % 5] for i, p in enumerate(parsed))
    assert len({p.action for p in parsed}) > 2
    assert all(np.isfinite(answer.logprobs).all() for answer in out)
    single = [answer for i, answer in enumerate(out) if i % 5 == 0]
    assert all(np.allclose(answer.logprobs, 0) for answer in single)  # one action: every token is forced


def test_constrained_sampling_needs_admissible_actions(tiny):
    policy = sharpened(tiny, constrain=True)
    missing, fine = policy.act_batch([request("a", 0, MESSAGES), request("b", 0, MESSAGES, admissible=ACTIONS)])
    assert isinstance(missing, PolicyFault)
    assert fine.text.startswith("<action>")


def test_scores_equal_a_plain_forward_over_each_candidate(policy):
    play(policy, ["s0", "s1", "s2"], 3)
    rng = np.random.Generator(np.random.PCG64(3))
    prompts = [rng.integers(20, 100, n).astype(np.int32) for n in (5, 60, 17)]
    candidates = [[rng.integers(20, 100, 1 + (k + i) % 7).tolist() for k in range(4 + i)] for i in range(3)]
    with torch.inference_mode():
        tree = score(policy.generator.backend, ["a", "b", "c"], prompts, candidates)
        plain = score(PlainBackend(policy.generator.backend.model), ["a", "b", "c"], prompts, candidates)
    for some, others in zip(tree, plain, strict=True):
        for left, right in zip(some, others, strict=True):
            np.testing.assert_allclose(left, right, atol=1e-5)


@pytest.mark.parametrize("score_by", ["total", "mean"])
def test_choice_picks_the_best_and_samples_by_score(tiny, score_by):
    from agentgym.policies.hf import HFPolicy

    plain = HFPolicy.from_pretrained(tiny, device="cpu")
    policy = ChoicePolicy(plain.model, plain.tokenizer, score_by=score_by)
    assert not policy.exact_logprobs
    best = policy.act_batch([request("g", 0, MESSAGES, admissible=ACTIONS, sampling=Sampling(temperature=0))])[0]
    drawn = policy.act_batch(
        [request(f"s{i}", 0, MESSAGES, i, admissible=ACTIONS, sampling=Sampling(temperature=5.0)) for i in range(300)]
    )
    shares = {answer.text: answer.info["probability"] for answer in drawn}
    counts = Counter(answer.text for answer in drawn)
    assert best.text == max(shares, key=shares.get)
    for text, probability in shares.items():
        assert abs(counts[text] / 300 - probability) < 0.12
    assert best.finish_reason == "stop"
    assert len(best.token_ids) == len(best.logprobs)


def test_choice_over_turns_extends_the_conversation(tiny):
    from agentgym.policies.hf import HFPolicy

    plain = HFPolicy.from_pretrained(tiny, device="cpu")
    policy = ChoicePolicy(plain.model, plain.tokenizer)
    messages = list(MESSAGES)
    for turn in range(3):
        (answer,) = policy.act_batch([request("s", turn, messages, turn, admissible=ACTIONS)])
        messages += [{"role": "assistant", "content": answer.text}, {"role": "user", "content": OBSERVATIONS[turn]}]
    assert policy.renderer.breaks == 0
    assert policy.generator.backend.reused > 0
    policy.generator.window = 30
    missing, over = policy.act_batch([request("x", 0, MESSAGES), request("s", 3, messages, admissible=ACTIONS)])
    assert isinstance(missing, PolicyFault)
    assert isinstance(over, ContextOverflow)
