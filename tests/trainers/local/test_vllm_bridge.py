"""The bridge to vLLM, against a stand-in: one event loop for the engine, weights pushed only when they changed."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch

from agentgym.parsing import ActionFormat
from agentgym.policy import Policy, PolicyRequest, SampledTurn, Sampling
from agentgym.trainers.local.vllm_bridge import VLLMBridge


class StandIn(Policy):
    name = "stand-in"
    renderer = "renderer"
    end_ids = frozenset({2})

    def __init__(self, folder):
        self.folders, self.loops, self.released = [folder], set(), []
        self.loop = asyncio.get_running_loop()  # as vLLM's engine: bound to the loop it was made in

    async def act(self, request):
        assert asyncio.get_running_loop() is self.loop
        await asyncio.sleep(0)
        return SampledTurn(request.session, token_ids=np.array([2], np.int32), logprobs=np.zeros(1, np.float32))

    async def refresh(self, folder):
        assert asyncio.get_running_loop() is self.loop
        assert (folder / "model.safetensors").exists()
        self.folders.append(folder)

    def release(self, session):
        self.released.append(session)


class Tokenizer:
    def save_pretrained(self, folder):
        (folder / "tokenizer.json").write_text("{}")


def request(session):
    return PolicyRequest(session, 0, [], Sampling(), ActionFormat(), 0)


@pytest.fixture
def bridge(model, tmp_path):
    found = VLLMBridge(model, Tokenizer(), tmp_path / "vllm", StandIn)
    yield found
    asyncio.run(found.aclose())


def test_requests_of_any_loop_reach_the_engines_own(bridge):
    async def two():
        return await asyncio.gather(bridge.act(request("a")), bridge.act(request("b")))

    for _ in range(2):  # every rollout is an asyncio.run of its own
        assert [turn.text for turn in asyncio.run(two())] == ["a", "b"]
    bridge.release("a")
    assert bridge.inner.released == ["a"]
    assert (bridge.renderer, bridge.end_ids) == ("renderer", {2})


def test_weights_are_pushed_only_when_they_changed(bridge, model):
    bridge.refresh()
    assert len(bridge.inner.folders) == 1
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    bridge.refresh()
    bridge.refresh()
    assert [f.name for f in bridge.inner.folders] == ["1", "2"]
    assert [f.name for f in bridge.folder.iterdir()] == ["2"]  # the old one is gone
