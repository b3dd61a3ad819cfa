"""The vLLM policy against a stand-in engine: what it is asked, how its answers are read."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace

import pytest

from agentgym.errors import ContextOverflow, MissingDependency, PolicyFault
from agentgym.policies import load_policy
from agentgym.policies.vllm import VLLMPolicy
from agentgym.policy import Sampling

from .conftest import OBSERVATIONS, request

MESSAGES = [{"role": "user", "content": OBSERVATIONS[0]}]


class FakeEngine:
    """Answers fixed ids the way ``AsyncLLM.generate`` does."""

    def __init__(self, ids, finish="stop", logprobs=True, error=None):
        self.ids, self.finish, self.logprobs, self.error, self.calls, self.resets = ids, finish, logprobs, error, [], 0

    async def generate(self, prompt, params, request_id, **options):
        self.calls.append((prompt, params, request_id, options))
        if self.error:
            raise self.error
        entries = [
            {i: SimpleNamespace(logprob=-0.5 - k), 0: SimpleNamespace(logprob=-9.0)} for k, i in enumerate(self.ids)
        ]
        yield SimpleNamespace(
            outputs=[
                SimpleNamespace(
                    token_ids=tuple(self.ids), logprobs=entries if self.logprobs else None, finish_reason=self.finish
                )
            ]
        )

    async def reset_prefix_cache(self):
        self.resets += 1

    async def collective_rpc(self, method, kwargs):
        self.calls.append((method, kwargs))


def policy_with(policy, engine, window=500):
    return VLLMPolicy(
        engine,
        policy.tokenizer,
        make_params=dict,
        make_prompt=lambda ids: {"prompt_token_ids": ids},
        end_ids=[],
        window=window,
    )


def test_a_turn_in_tokens(policy):
    tokenizer = policy.tokenizer
    ids = [*tokenizer("<action>look</action>", add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    engine = FakeEngine(ids)
    own = policy_with(policy, engine)
    answer = asyncio.run(
        own.act(request("s", 0, MESSAGES, 77, Sampling(temperature=0.7, max_tokens=9, stop=("</x>",))))
    )
    prompt, params, _, options = engine.calls[0]
    assert prompt["prompt_token_ids"] == answer.prompt_ids.tolist()
    assert (params["seed"], params["temperature"], params["max_tokens"], params["logprobs"]) == (77, 0.7, 9, 0)
    assert params["stop_token_ids"] == [tokenizer.eos_token_id]
    assert params["stop"] == ["</x>"]
    assert options == {}
    assert answer.text == "<action>look</action>"
    assert answer.token_ids.tolist() == ids
    assert answer.logprobs.tolist() == [-0.5 - k for k in range(len(ids))]
    messages = [*MESSAGES, {"role": "assistant", "content": answer.text}, {"role": "user", "content": "look"}]
    second = asyncio.run(own.act(request("s", 1, messages)))
    known = answer.prompt_ids.tolist() + ids
    assert second.prompt_ids.tolist()[: len(known)] == known


def test_failures_become_our_errors(policy):
    def act(engine, **options):
        return asyncio.run(policy_with(policy, engine, **options).act(request("s", 0, MESSAGES)))

    with pytest.raises(PolicyFault, match="without a log-probability"):
        act(FakeEngine([20, 21], logprobs=False))
    with pytest.raises(PolicyFault, match="abort"):
        act(FakeEngine([20, 21], finish="abort"))
    with pytest.raises(PolicyFault, match="engine dead"):
        act(FakeEngine([20], error=RuntimeError("engine dead")))
    with pytest.raises(ContextOverflow, match="window of 20"):
        act(FakeEngine([20]), window=20)
    assert act(FakeEngine([20, 21], finish="length")).finish_reason == "length"


def test_refresh_reloads_and_drops_the_prefix_cache(policy, tmp_path):
    engine = FakeEngine([20])
    own = policy_with(policy, engine)
    asyncio.run(own.refresh(tmp_path))
    assert engine.calls == [("reload_weights", {"weights_path": str(tmp_path)})]
    assert engine.resets == own.version == 1


def test_without_vllm_the_install_line_is_given(tiny):
    try:
        import vllm  # noqa: F401
    except ImportError:
        with pytest.raises(MissingDependency, match=r"pip install 'agentgym-turns\[vllm\]'"):
            load_policy(tiny, generator="vllm")


def test_a_machine_without_a_device_is_told_so(tmp_path, monkeypatch):
    """vLLM 0.33 for CUDA installs anywhere; ``vllm.platforms`` is no attribute of it before it is imported."""
    package = tmp_path / "vllm"
    (package / "platforms").mkdir(parents=True)
    (package / "__init__.py").write_text("__version__ = '0.33.0'\n")
    (package / "platforms" / "__init__.py").write_text(
        "class Platform:\n    def is_unspecified(self):\n        return True\n\n\ncurrent_platform = Platform()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("vllm", "vllm.platforms"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(MissingDependency, match=r"vLLM 0\.33\.0 finds no device here.*generator=torch"):
        VLLMPolicy.from_pretrained(tmp_path)
    for name in ("vllm", "vllm.platforms"):
        sys.modules.pop(name, None)
