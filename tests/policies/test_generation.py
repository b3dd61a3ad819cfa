"""The generator: exact log-probabilities, batch independence, agreement with transformers, limits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from agentgym.errors import ContextOverflow, PolicyFault
from agentgym.policies import kv
from agentgym.policies.backends import PlainBackend, SlotBackend
from agentgym.policies.generation import Job, TorchGenerator
from agentgym.policy import Sampling

from .conftest import OBSERVATIONS, assert_exact, play, request, sharpened

SESSIONS = [f"s{i}" for i in range(13)]


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_recorded_logprobs_are_recomputed_exactly(tiny, reuse, temperature):
    policy = sharpened(tiny, reuse=reuse)
    rows, answers = play(policy, SESSIONS, 7, Sampling(temperature=temperature, max_tokens=9))
    assert_exact(policy.model, rows, temperature)
    assert all(len(builder.rows()) == 1 for builder in rows.values())
    drawn = sum(len(a.token_ids) for some in answers.values() for a in some)
    assert sum(int(r.mask.sum()) for b in rows.values() for r in b.rows()) == drawn
    assert (policy.generator.backend.reused > 0) is reuse


@pytest.mark.parametrize("reuse", [True, False])
def test_exact_with_lora(tiny, reuse):
    peft = pytest.importorskip("peft")
    base = sharpened(tiny)
    torch.manual_seed(0)
    model = peft.get_peft_model(base.model, peft.LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.3)
    from agentgym.policies.hf import HFPolicy

    policy = HFPolicy(model, base.tokenizer, reuse=reuse)
    rows, answers = play(policy, SESSIONS[:6], 5)
    assert_exact(model, rows)
    _, plain = play(sharpened(tiny), SESSIONS[:6], 5)
    assert any(a.text != b.text for s in SESSIONS[:6] for a, b in zip(answers[s], plain[s], strict=True))


def test_batch_composition_does_not_change_what_is_drawn(tiny):
    def texts(batches):
        _, answers = play(sharpened(tiny, cache_bytes=1 << 26), SESSIONS, 6, batches=batches)
        return {s: [a.token_ids.tolist() for a in some] for s, some in answers.items()}

    def shuffled(turn, live):
        order = [live[i] for i in np.random.Generator(np.random.PCG64(turn)).permutation(len(live))]
        return [order[:5], order[5:6], order[6:]] if len(order) > 6 else [order]

    together = texts(None)
    assert texts(lambda turn, live: [[s] for s in live]) == together
    assert texts(lambda turn, live: [live[::-1]]) == together
    assert texts(shuffled) == together


def test_batch_of_32_equals_batch_of_1(tiny):
    sessions = [f"s{i}" for i in range(32)]
    _, many = play(sharpened(tiny), sessions, 3)
    _, single = play(sharpened(tiny), sessions, 3, batches=lambda turn, live: [[s] for s in live])
    for session in sessions:
        for a, b in zip(many[session], single[session], strict=True):
            assert a.token_ids.tolist() == b.token_ids.tolist()
            np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)


def test_greedy_equals_transformers_generate(policy):
    tokenizer = policy.tokenizer
    messages = [[{"role": "user", "content": " ".join(OBSERVATIONS[: n + 1])}] for n in range(4)]
    out = policy.act_batch(
        [request(f"g{i}", 0, m, sampling=Sampling(temperature=0, max_tokens=24)) for i, m in enumerate(messages)]
    )
    for message, answer in zip(messages, out, strict=True):
        ids = tokenizer.apply_chat_template(message, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        whole = policy.model.generate(**ids, max_new_tokens=24, do_sample=False)
        assert answer.token_ids.tolist() == whole[0, ids["input_ids"].shape[1] :].tolist()


def test_memory_limit_evicts_and_stays_exact(tiny):
    policy = sharpened(tiny)
    token = policy.generator.backend.model.token_bytes()
    small = sharpened(tiny, cache_bytes=token * 400 * 4)
    rows, answers = play(small, SESSIONS, 6)
    assert_exact(small.model, rows)
    table = small.generator.backend.table
    assert table.evictions > 0
    assert table.cache.slots * table.cache.capacity * token <= token * 400 * 4
    _, free = play(policy, SESSIONS, 6)
    assert all(
        a.token_ids.tolist() == b.token_ids.tolist() for s in SESSIONS for a, b in zip(answers[s], free[s], strict=True)
    )


def test_released_sessions_free_their_slots(policy):
    for generation in range(5):
        names = [f"s{100 * generation + i}" for i in range(6)]
        play(policy, names, 3)
        for name in names:
            policy.release(name)
    policy._forget()
    table = policy.generator.backend.table
    assert not table.slot
    assert table.cache.slots <= 12


def test_prompt_that_is_no_extension_reuses_the_common_prefix(policy):
    generator = policy.generator
    rng = np.random.Generator(np.random.PCG64(1))
    ids = rng.integers(20, 100, 40).astype(np.int32)
    other = ids.copy()
    other[30:] = rng.integers(20, 100, 10)
    sampling = Sampling(max_tokens=5)
    generator.generate([Job("a", ids, sampling, 1)])
    before = generator.backend.encoded
    (kept,) = generator.generate([Job("a", other, sampling, 2)])
    assert generator.backend.encoded - before == 10
    (fresh,) = generator.generate([Job("b", other, sampling, 2)])
    assert kept.token_ids.tolist() == fresh.token_ids.tolist()
    np.testing.assert_allclose(kept.logprobs, fresh.logprobs, atol=1e-5)


def test_very_unequal_prompts_are_encoded_in_pieces(policy, monkeypatch):
    monkeypatch.setattr("agentgym.policies.backends.FORWARD_TOKENS", 64)
    rng = np.random.Generator(np.random.PCG64(2))
    jobs = [
        Job(f"j{i}", rng.integers(20, 100, n).astype(np.int32), Sampling(max_tokens=4), i)
        for i, n in enumerate([3, 300, 7, 90, 12, 1])
    ]
    together = policy.generator.generate(jobs)
    plain = TorchGenerator(policy.model, policy.end_ids, policy._decode, reuse=False).generate(jobs)
    for a, b in zip(together, plain, strict=True):
        assert a.token_ids.tolist() == b.token_ids.tolist()
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)


def test_mixed_response_lengths_compact_the_batch(policy):
    lengths = [1, 2, 3, 40, 2, 1, 25, 3]
    messages = [{"role": "user", "content": OBSERVATIONS[0]}]

    def answers(batched):
        requests = [
            request(f"{batched}{i}", 0, messages, seed=i, sampling=Sampling(max_tokens=n))
            for i, n in enumerate(lengths)
        ]
        return policy.act_batch(requests) if batched else [policy.act_batch([r])[0] for r in requests]

    for a, b in zip(answers(True), answers(False), strict=True):
        assert a.token_ids.tolist() == b.token_ids.tolist()
        assert a.finish_reason == b.finish_reason


def test_overflow_fails_that_request_only(policy):
    policy.generator.window = 200
    long = [{"role": "user", "content": " ".join(OBSERVATIONS * 6)}]
    short = [{"role": "user", "content": OBSERVATIONS[1]}]
    out = policy.act_batch(
        [request("a", 0, short), request("b", 0, long), request("c", 0, short, token_budget=20), request("d", 0, short)]
    )
    assert isinstance(out[1], ContextOverflow)
    assert "window of 200" in str(out[1])
    assert isinstance(out[2], ContextOverflow)
    assert "budget of 20" in str(out[2])
    assert len(out[0].token_ids)
    assert len(out[3].token_ids)


def test_nan_weights_are_a_policy_fault(policy):
    with torch.no_grad():
        policy.model.model.layers[0].mlp.up_proj.weight.fill_(float("nan"))
    (answer,) = policy.act_batch([request("a", 0, [{"role": "user", "content": "look"}])])
    assert isinstance(answer, PolicyFault)
    assert "not finite" in str(answer)


def test_stop_string_and_length(policy):
    messages = [{"role": "user", "content": OBSERVATIONS[0]}]
    (free,) = policy.act_batch([request("a", 0, messages, 5, Sampling(max_tokens=30))])
    stop = policy._decode(free.token_ids[2:3].tolist())
    (cut,) = policy.act_batch([request("b", 0, messages, 5, Sampling(max_tokens=30, stop=(stop,)))])
    assert cut.finish_reason == "stop"
    assert stop in cut.text
    assert cut.token_ids.tolist() == free.token_ids[: len(cut.token_ids)].tolist()
    (short,) = policy.act_batch([request("c", 0, messages, 5, Sampling(max_tokens=2))])
    assert short.finish_reason == "length"
    assert short.token_ids.tolist() == free.token_ids[:2].tolist()


def test_generation_leaves_training_mode_and_global_randomness_alone(policy):
    policy.model.train()
    torch.manual_seed(5)
    state = torch.get_rng_state()
    play(policy, ["s1"], 2)
    assert policy.model.training
    assert torch.equal(state, torch.get_rng_state())


def test_gradients_still_flow_after_generation(policy):
    rows, _ = play(policy, ["s0"], 2)
    ids = torch.from_numpy(rows["s0"].rows()[0].ids.astype(np.int64))[None]
    policy.model(input_ids=ids).logits.sum().backward()
    assert policy.model.model.embed_tokens.weight.grad is not None


def test_refresh_after_a_weight_update(policy):
    sessions = ["s0", "s1", "s2"]
    _, answers = play(policy, sessions, 3)
    messages = [{"role": "user", "content": OBSERVATIONS[0]}]
    policy.act_batch([request("x", 0, messages, 1)])
    with torch.no_grad():
        policy.model.model.embed_tokens.weight.mul_(0.7)
    policy.refresh()
    (after,) = policy.act_batch([request("x", 0, messages, 2)])
    (fresh,) = policy.act_batch([request("y", 0, messages, 2)])
    assert policy.version == after.info["version"] == 1
    assert after.token_ids.tolist() == fresh.token_ids.tolist()
    assert answers["s0"][0].info["version"] == 0


def test_nothing_of_what_came_before_is_left_after_a_refresh(tiny):
    """A resumed run begins with an empty store: one that was not must give its very bits, rounding included."""
    used, fresh = sharpened(tiny), sharpened(tiny)
    play(used, [f"s{i}" for i in range(7)], 6)  # the store grows with sessions and turns
    table = used.generator.backend.table
    assert (table.cache.slots, table.cache.capacity) > (0, 0)
    used.refresh()
    assert (table.cache.slots, table.cache.capacity, table.cache.keys, len(table.lengths)) == (0, 0, [], 0)
    left, right = (play(policy, ["s0", "s4", "s8"], 4)[1] for policy in (used, fresh))
    for session in left:
        for ours, theirs in zip(left[session], right[session], strict=True):
            assert ours.token_ids.tolist() == theirs.token_ids.tolist()
            assert ours.logprobs.tobytes() == theirs.logprobs.tobytes()


def _architectures():
    import transformers as t

    common = {"vocab_size": 120, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    wide = {**common, "intermediate_size": 64, "num_key_value_heads": 2, "max_position_embeddings": 512}
    yield "qwen3", lambda: t.Qwen3ForCausalLM(t.Qwen3Config(**wide, head_dim=8)), SlotBackend
    yield "mistral-sliding", lambda: t.MistralForCausalLM(t.MistralConfig(**wide, sliding_window=7)), SlotBackend
    yield (
        "gemma3-mixed",
        lambda: t.Gemma3ForCausalLM(
            t.Gemma3TextConfig(
                **wide, head_dim=8, sliding_window=6, layer_types=["sliding_attention", "full_attention"]
            )
        ),
        SlotBackend,
    )
    yield (
        "llama-eager",
        lambda: t.LlamaForCausalLM(t.LlamaConfig(**wide, attn_implementation="eager")),
        SlotBackend,
    )
    yield "gpt2", lambda: t.GPT2LMHeadModel(t.GPT2Config(vocab_size=120, n_embd=32, n_layer=2, n_head=4)), SlotBackend
    yield (
        "opt-learned-positions",
        lambda: t.OPTForCausalLM(t.OPTConfig(**common, ffn_dim=64, word_embed_proj_dim=32, do_layer_norm_before=True)),
        None,
    )
    yield (
        "qwen3-next-recurrent",
        lambda: t.Qwen3NextForCausalLM(
            t.Qwen3NextConfig(
                **wide,
                head_dim=8,
                num_experts=2,
                num_experts_per_tok=1,
                moe_intermediate_size=16,
                shared_expert_intermediate_size=16,
                linear_num_key_heads=2,
                linear_num_value_heads=2,
                linear_key_head_dim=8,
                linear_value_head_dim=8,
                layer_types=["linear_attention", "full_attention"],
            )
        ),
        PlainBackend,
    )


@pytest.mark.parametrize(("build", "backend"), [pytest.param(b, k, id=n) for n, b, k in _architectures()])
def test_other_architectures_are_exact(build, backend):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 2:
                    parameter.mul_(4)
    generator = TorchGenerator(model, [1], str)
    if backend is not None:
        assert isinstance(generator.backend, backend)
    rng = np.random.Generator(np.random.PCG64(0))
    prompts = [rng.integers(5, 100, n).astype(np.int32) for n in (4, 23, 11)]
    for turn in range(3):
        jobs = [Job(f"r{i}", p, Sampling(max_tokens=6), 10 * turn + i) for i, p in enumerate(prompts)]
        for i, drawn in enumerate(generator.generate(jobs)):
            row = torch.from_numpy(np.concatenate([prompts[i], drawn.token_ids]).astype(np.int64))[None]
            with torch.no_grad():
                logp = torch.log_softmax(model(input_ids=row).logits[0].float(), -1)
            expected = logp[len(prompts[i]) - 1 : -1].gather(1, row[0, len(prompts[i]) :, None])[:, 0].numpy()
            np.testing.assert_allclose(drawn.logprobs, expected, atol=2e-5)
            extra = rng.integers(5, 100, 3 + 4 * i).astype(np.int32)
            prompts[i] = np.concatenate([prompts[i], drawn.token_ids, extra])


def test_slot_cache_pads_write_to_a_place_nobody_reads():
    cache = kv.SlotCache(2, 8)
    cache.begin(slice(0, 2), torch.tensor([[7, 0], [0, 1]]), 2)
    states = torch.arange(2 * 1 * 2 * 3, dtype=torch.float32).reshape(2, 1, 2, 3)
    keys, _ = cache.update(states, states, 0)
    assert keys.shape == (2, 1, 2, 3)
    assert torch.equal(keys[0, 0, 0], states[0, 0, 1])
    assert torch.equal(keys[1], states[1])
