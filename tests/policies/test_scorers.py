"""Scoring given texts and reading hidden states: always against an independent plain forward."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers as t

from agentgym.credit.protocols import ScoredRow
from agentgym.errors import DataError, PolicyFault
from agentgym.policies import scorers, scoring
from agentgym.policies.scorers import HFFeatures, HFScorer, VLLMScorer
from agentgym.policies.vllm import VLLMPolicy
from agentgym.tokens import RowBuilder
from agentgym.types import Episode, Task, Termination, Turn


def ids(rng, size, low=0, high=100):
    return rng.integers(low, high, size).astype(np.int32)


def ragged_rows(seed=0):
    """Ragged rows; cuts at 1, inside and at the end, repeated ones; single tokens, empty blocks and lists."""
    rng = np.random.Generator(np.random.PCG64(seed))
    plan = [
        (23, [(5, 3), (5, 4), (12, 1), (23, 6), (9, 2)]),
        (7, [(7, 1)]),
        (40, []),
        (31, [(1, 5), (30, 0), (16, 7)]),
        (3, [(2, 9), (3, 2)]),
    ]
    return [ScoredRow(ids(rng, n), tuple((cut, ids(rng, size)) for cut, size in blocks)) for n, blocks in plan]


def plain_forward(model, row, cut, block):
    """One row through the model as transformers runs it."""
    whole = torch.from_numpy(np.concatenate([row[:cut], block]).astype(np.int64))[None]
    with torch.no_grad():
        logp = torch.log_softmax(model(input_ids=whole).logits[0].float(), -1)
    return logp[range(cut - 1, cut - 1 + len(block)), block.tolist()].numpy()


def assert_scores(model, rows, found, atol=1e-5):
    checked = 0
    for row, blocks in zip(rows, found, strict=True):
        for (cut, block), values in zip(row.blocks, blocks, strict=True):
            assert values.dtype == np.float32
            np.testing.assert_allclose(values, plain_forward(model, row.row, cut, block), atol=atol, rtol=0)
            checked += len(values)
    assert checked == sum(len(block) for row in rows for _, block in row.blocks)


def tiny_models():
    common = {
        "vocab_size": 120, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 256, "initializer_range": 0.2,
    }  # fmt: skip
    yield "llama-sdpa", lambda: t.LlamaForCausalLM(t.LlamaConfig(**common)), True
    yield "llama-eager", lambda: t.LlamaForCausalLM(t.LlamaConfig(**common, attn_implementation="eager")), True
    yield "mistral-sliding", lambda: t.MistralForCausalLM(t.MistralConfig(**common, sliding_window=7)), True
    yield "gpt2", lambda: t.GPT2LMHeadModel(t.GPT2Config(vocab_size=120, n_embd=32, n_layer=2, n_head=4)), True
    recurrent = t.Qwen3NextConfig(
        **common, head_dim=8, linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2,
        linear_num_value_heads=2, layer_types=["linear_attention", "full_attention"], num_experts=2,
        num_experts_per_tok=1, moe_intermediate_size=16, shared_expert_intermediate_size=16, mlp_only_layers=[0, 1],
    )  # fmt: skip
    yield "qwen3-next", lambda: t.Qwen3NextForCausalLM(recurrent), False


@pytest.mark.parametrize(("make", "tree"), [pytest.param(make, tree, id=name) for name, make, tree in tiny_models()])
def test_scores_equal_a_plain_forward_whatever_the_architecture(make, tree):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = make().eval()
    scorer = HFScorer(model, None)
    assert scorer.tree is tree
    rows = ragged_rows()
    assert_scores(model, rows, scorer.logprobs(rows))


@pytest.mark.parametrize("tree", [True, False])
def test_both_paths_equal_a_plain_forward_in_any_batching(policy, tree, monkeypatch):
    rows = ragged_rows(1) + ragged_rows(2)
    for tokens in (1, 60, 16_384):
        assert_scores(policy.model, rows, HFScorer(policy.model, None, tree=tree, tokens=tokens).logprobs(rows))
    monkeypatch.setattr(scoring, "LOGITS_LIMIT", 120 * 5)  # five columns at once: rows in parts, batches of one
    monkeypatch.setattr(scorers, "LOGITS_LIMIT", 5 * policy.model.config.vocab_size)
    monkeypatch.setattr(scoring, "FORWARD_TOKENS", 50)
    assert_scores(policy.model, rows, HFScorer(policy.model, None, tree=tree).logprobs(rows))


def test_nothing_to_score_runs_no_model(policy):
    scorer = HFScorer(policy.model, policy.tokenizer)
    policy.model.forward = None
    rows = [ScoredRow(np.arange(4, dtype=np.int32), ())]
    assert scorer.logprobs([]) == []
    assert scorer.logprobs(rows) == [[]]


def test_the_model_is_left_as_it_was_and_scored_without_dropout(policy):
    model = t.GPT2LMHeadModel(t.GPT2Config(vocab_size=120, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.5)).train()
    scorer = HFScorer(model, None)
    rows = ragged_rows()
    found = scorer.logprobs(rows)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert_scores(model.eval(), rows, found)
    model.train()
    model(input_ids=torch.ones(1, 3, dtype=torch.long)).logits.sum().backward()  # nothing is spoilt for training


def test_new_weights_are_scored_at_once(policy):
    scorer = HFScorer(policy.model, policy.tokenizer)
    rows = ragged_rows()
    before = scorer.logprobs(rows)
    with torch.no_grad():
        policy.model.model.layers[0].mlp.down_proj.weight.mul_(-1)
    after = scorer.logprobs(rows)
    assert abs(before[0][0] - after[0][0]).max() > 1e-3
    assert_scores(policy.model, rows, after)


def test_blocks_beyond_the_window_are_undefined_and_counted(policy, caplog):
    scorer = HFScorer(policy.model, policy.tokenizer, window=20)
    (row, *_) = ragged_rows()
    too_long, fits = ScoredRow(row.row, ((16, row.row[:5]), (16, row.row[:4]), (23, row.row[:1]))), row
    found = scorer.logprobs([too_long, fits])
    assert np.isnan(found[0][0]).all()
    assert len(found[0][0]) == 5
    assert np.isnan(found[0][2]).all()
    np.testing.assert_allclose(found[0][1], plain_forward(policy.model, row.row, 16, row.row[:4]), atol=1e-5)
    assert [bool(np.isnan(values).any()) for values in found[1]] == [False, False, False, True, False]
    assert scorer.skipped == 3
    assert "3 scored blocks exceed the model window of 20 tokens" in caplog.text
    assert HFScorer(policy.model, policy.tokenizer).window == policy.model.config.max_position_embeddings


@pytest.mark.parametrize("cut", [0, -1, 24])
def test_a_cut_outside_the_row_is_refused(policy, cut):
    row = ragged_rows()[0].row
    with pytest.raises(DataError, match=rf"row 1 of 23 tokens: cut {cut} is outside \[1, 23\]"):
        HFScorer(policy.model, None).logprobs([ScoredRow(row, ()), ScoredRow(row, ((cut, row[:2]),))])


@pytest.mark.parametrize("tree", [True, False])
def test_weights_that_diverged_are_named(policy, tree):
    scorer = HFScorer(policy.model, None, tree=tree)
    with torch.no_grad():
        policy.model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(PolicyFault, match="row 0, block 0: the model's log-probabilities are not finite"):
        scorer.logprobs(ragged_rows())


def test_encoding_adds_nothing_and_counts_unknown_tokens(policy, caplog):
    scorer = HFScorer(policy.model, policy.tokenizer)
    assert policy.tokenizer.decode(scorer.encode("<action>look</action>")) == "<action>look</action>"
    assert scorer.encode("").shape == (0,)
    assert scorer.unknown_tokens == 0
    scorer.encode("red ключ")
    assert scorer.unknown_tokens > 0
    assert "unknown to the tokenizer" in caplog.text


def with_adapter(policy):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return peft.get_peft_model(policy.model, config).eval()


def test_adapters_count(policy):
    rows = ragged_rows()
    base = HFScorer(policy.model, None).logprobs(rows)
    model = with_adapter(policy)
    found = HFScorer(model, None).logprobs(rows)
    assert abs(base[0][0] - found[0][0]).max() > 1e-2
    assert_scores(model, rows, found)
    assert_scores(model, rows, HFScorer(model, None, tree=False).logprobs(rows))


class StandIn:
    """vLLM's ``generate`` as read in its source, answered by a transformers model: first prompt entry None, then
    ``{id: Logprob}`` with the prompt's own token and the likeliest ones."""

    def __init__(self, model, spoil=None):
        self.model, self.spoil, self.calls = model, spoil, []

    async def generate(self, prompt, params, request_id, **options):
        self.calls.append((params, request_id, options))
        await asyncio.sleep(0)
        tokens = prompt["prompt_token_ids"]
        with torch.no_grad():
            logp = torch.log_softmax(self.model(input_ids=torch.tensor([tokens])).logits[0], -1)
        entries = [None] + [
            {int(logp[k].argmax()): SimpleNamespace(logprob=float(logp[k].max())),
             token: SimpleNamespace(logprob=float(logp[k, token]))}
            for k, token in enumerate(tokens[1:])
        ]  # fmt: skip
        if self.spoil == "short":
            entries = entries[:-1]
        if self.spoil == "other":
            entries[-1] = {-1: SimpleNamespace(logprob=0.0)}
        yield SimpleNamespace(outputs=[SimpleNamespace()], prompt_logprobs=None if self.spoil == "none" else entries)


def vllm_scorer(policy, engine, window=500):
    inner = VLLMPolicy(
        engine, policy.tokenizer, make_params=dict, make_prompt=lambda ids: {"prompt_token_ids": ids}, end_ids=[],
        window=window,
    )  # fmt: skip
    return VLLMScorer(inner, asyncio.run)


def test_vllm_is_asked_for_the_same_numbers(policy):
    """Against a stand-in: no GPU here."""
    engine = StandIn(policy.model)
    scorer = vllm_scorer(policy, engine, window=33)
    scorer.policy._lora = "adapter"
    rows = ragged_rows()
    found, expected = scorer.logprobs(rows), HFScorer(policy.model, None).logprobs(rows)
    for some, others in zip(found, expected, strict=True):
        for left, right in zip(some, others, strict=True):
            np.testing.assert_allclose(left, right, atol=1e-5)
    params, _, options = engine.calls[0]
    assert params == {"temperature": 1.0, "max_tokens": 1, "prompt_logprobs": 0, "detokenize": False}
    assert options == {"lora_request": "adapter"}
    assert len({request_id for _, request_id, _ in engine.calls}) == len(engine.calls) == 10
    assert scorer.logprobs([ScoredRow(rows[0].row, ())]) == [[]]
    assert scorer.encode("look").tolist() == HFScorer(policy.model, policy.tokenizer).encode("look").tolist()
    tight = vllm_scorer(policy, engine, window=29)  # 23 + 6 fill it and leave no room for the token vLLM must draw
    assert [bool(np.isnan(v).any()) for v in tight.logprobs(rows)[0]] == [False, False, False, True, False]


@pytest.mark.parametrize(("spoil", "message"), [("none", "returned 0"), ("short", "returned 7"), ("other", "left out")])
def test_missing_numbers_of_vllm_are_faults(policy, spoil, message):
    scorer = vllm_scorer(policy, StandIn(policy.model, spoil))
    with pytest.raises(PolicyFault, match=message):
        scorer.logprobs(ragged_rows()[1:2])


def played(index, plan, seed=0):
    """An episode from ``(new prompt tokens, drawn tokens, starts a new row)`` per turn."""
    rng = np.random.Generator(np.random.PCG64([seed, index]))
    builder, turns, prompt = RowBuilder(), [], np.zeros(0, np.int32)
    for k, (new, drawn, fresh) in enumerate(plan):
        prompt = np.concatenate([prompt[:0] if fresh else prompt, ids(rng, new)])
        tokens = ids(rng, drawn)
        row, start, end = builder.add(k, prompt, tokens, np.zeros(drawn, np.float32))
        turns.append(Turn(k, "", "", None, row=row, start=start, end=end))
        prompt = np.concatenate([prompt, tokens])
    return Episode(Task("fake", "f"), index, 0, turns, Termination.MAX_TURNS, rows=builder.rows())


PLANS = [[(5, 3, False), (2, 0, False), (4, 1, False)], [(9, 2, True), (6, 4, True), (3, 1, False)], [(1, 1, False)]]


def last_states(model, episode):
    """The last entry of ``output_hidden_states`` at each turn's last token, one plain forward per turn."""
    out = []
    for turn in episode.turns:
        row = torch.from_numpy(episode.rows[turn.row].ids[: turn.end].astype(np.int64))[None]
        with torch.no_grad():
            states = model(input_ids=row, output_hidden_states=True).hidden_states[-1]
        out.append(states[0, -1].numpy() if turn.end > turn.start else np.zeros(states.shape[-1], np.float32))
    return np.array(out)


@pytest.mark.parametrize("tokens", [1, 8192])
def test_features_equal_the_hidden_states_of_a_plain_forward(policy, tokens):
    episodes = [played(i, plan) for i, plan in enumerate(PLANS)]
    features = HFFeatures(policy.model, tokens=tokens)
    found = features.hidden(episodes)
    for episode, states in zip(episodes, found, strict=True):
        assert states.dtype == np.float32
        assert states.shape == (len(episode.turns), features.width)
        np.testing.assert_allclose(states, last_states(policy.model, episode), atol=1e-5)
    assert not found[0][1].any()
    assert features.hidden([]) == []


def test_features_feed_the_output_layer_also_behind_an_adapter(policy):
    model, episode = with_adapter(policy), played(0, PLANS[1])
    (found,) = HFFeatures(model).hidden([episode])
    for turn, state in zip(episode.turns, found, strict=True):
        row = torch.from_numpy(episode.rows[turn.row].ids[: turn.end].astype(np.int64))[None]
        with torch.no_grad():
            logits = model(input_ids=row).logits[0, -1]
            np.testing.assert_allclose(model.get_output_embeddings()(torch.from_numpy(state)), logits, atol=1e-4)


def test_features_of_a_model_without_a_body_of_its_own(policy, monkeypatch):
    episodes = [played(i, plan) for i, plan in enumerate(PLANS)]
    expected = HFFeatures(policy.model).hidden(episodes)
    monkeypatch.setattr(type(policy.model), "base_model", property(lambda self: self))
    for left, right in zip(HFFeatures(policy.model).hidden(episodes), expected, strict=True):
        np.testing.assert_allclose(left, right, atol=1e-5)


def test_features_beyond_the_window_are_zero_and_counted(policy, caplog):
    features = HFFeatures(policy.model)
    features.causal.window = 14
    episode = played(0, PLANS[0])  # turns end at 8, 10 and 15; the second drew nothing
    (found,) = features.hidden([episode])
    np.testing.assert_allclose(found[0], last_states(policy.model, episode)[0], atol=1e-5)
    assert not found[1:].any()
    assert features.skipped == 1
    assert "1 turns end beyond the model window of 14 tokens" in caplog.text


def test_features_of_a_text_only_episode_are_refused(policy):
    episode = Episode(Task("fake", "f"), 3, 0, [Turn(0, "", "x", "x")], Termination.MAX_TURNS, policy="api")
    with pytest.raises(DataError, match=r"'f' episode 3: no token rows \(policy 'api'"):
        HFFeatures(policy.model).hidden([episode])
