"""How fast the torch generator is: turns a second, what kept keys and values save, and transformers' generate().

    python benchmarks/generation.py [--quick]

Times are CPU seconds of this process with one thread (they hardly move when other programs run); each figure is the
best of several repeats, and compared variants take turns within one run. Prints a table and writes
benchmarks/results/generation.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import transformers

from agentgym.config.recipe import TinyModelSection
from agentgym.parsing import ActionFormat
from agentgym.policies.generation import Job, TorchGenerator
from agentgym.policies.hf import HFPolicy
from agentgym.policies.tiny import make_tiny
from agentgym.policy import PolicyRequest, Sampling

RESULTS = Path(__file__).parent / "results" / "generation.json"
ROOM = "You are in the middle of a room. Looking quickly around you, you see a drawer 1, a desk 1, and a drawer 12."
SEEN = "On the desk 1, you see a red key, a mug 3, and a drawer 12. It is open."  # about 25 tokens with the template
MODELS = {
    "0.1M": TinyModelSection(hidden_size=64, layers=2, heads=4),
    "2.4M": TinyModelSection(hidden_size=224, layers=4, heads=4),
}


def best(repeats: int, *variants: Callable[[], Any]) -> list[float]:
    """Least CPU seconds of each variant; they take turns."""
    times = [float("inf")] * len(variants)
    for _ in range(repeats):
        for index, variant in enumerate(variants):
            begin = time.process_time()
            variant()
            times[index] = min(times[index], time.process_time() - begin)
    return times


def play(policy: HFPolicy, sessions: int, turns: int, tag: list[int]) -> tuple[int, int]:
    """Whole conversations through the policy; numbers of turns and of sampled tokens."""
    tag[0] += 1
    names = [f"{tag[0]}-{i}" for i in range(sessions)]
    messages = [[{"role": "user", "content": ROOM}] for _ in names]
    sampling, form, drawn = Sampling(max_tokens=8), ActionFormat(), 0
    for turn in range(turns):
        out = policy.act_batch(
            [
                PolicyRequest(s, turn, m, sampling, form, 1000 * i + turn)
                for i, (s, m) in enumerate(zip(names, messages, strict=True))
            ]
        )
        for conversation, answer in zip(messages, out, strict=True):
            drawn += len(answer.token_ids)
            conversation += [{"role": "assistant", "content": answer.text}, {"role": "user", "content": SEEN}]
    for name in names:
        policy.release(name)
    return sessions * turns, drawn


def turns_per_second(folder: Path, repeats: int) -> dict[str, float]:
    """Chat turns through HFPolicy: render, encode, generate, decode, record."""
    policy = HFPolicy.from_pretrained(folder, device="cpu")
    policy.generator.stop_ids = frozenset()  # every response has its 8 tokens
    tag = [0]
    out: dict[str, float] = {}
    for batch in (1, 16, 64):
        turns, drawn = play(policy, batch, 20, tag)
        (seconds,) = best(repeats, lambda batch=batch: play(policy, batch, 20, tag))
        out[f"batch_{batch}_turns_per_cpu_second"] = turns / seconds
        out[f"batch_{batch}_sampled_tokens_per_cpu_second"] = drawn / seconds
    out["new_prompt_tokens_per_turn"] = len(policy.renderer.encode([f"<|user|>{SEEN}<|assistant|>"])[0])
    return out


def kept_against_encoded_anew(folder: Path, repeats: int) -> dict[str, float]:
    """A 20-turn episode with kept keys and values against encoding the whole prompt every turn, batch 16."""
    kept = HFPolicy.from_pretrained(folder, device="cpu", reuse=True)
    anew = HFPolicy.from_pretrained(folder, device="cpu", reuse=False)
    tag = [0]
    first, second = best(repeats, lambda: play(kept, 16, 20, tag), lambda: play(anew, 16, 20, tag))
    return {"kept_cpu_seconds": first, "encoded_anew_cpu_seconds": second, "times_cheaper": second / first}


def against_generate(folder: Path, repeats: int) -> dict[str, float]:
    """Prompt 64 + 32 new tokens, batch 32, sampling: this generator against transformers' generate()."""
    policy = HFPolicy.from_pretrained(folder, device="cpu")
    model = policy.model
    ids = np.random.Generator(np.random.PCG64(0)).integers(10, len(policy.tokenizer), (32, 64)).astype(np.int32)
    tensor = torch.from_numpy(ids.astype(np.int64))
    mask = torch.ones_like(tensor)
    generator = TorchGenerator(model, [], str)
    sampling = Sampling(max_tokens=32)

    def ours() -> None:
        generator.generate([Job(f"s{i}", row, sampling, i) for i, row in enumerate(ids)])
        generator.clear()

    def theirs() -> None:
        with torch.inference_mode():
            model.generate(
                input_ids=tensor, attention_mask=mask, do_sample=True, top_k=0, min_new_tokens=32, max_new_tokens=32
            )

    ours(), theirs()
    first, second = best(repeats, ours, theirs)
    tokens = 32 * 32
    return {
        "ours_tokens_per_cpu_second": tokens / first,
        "generate_tokens_per_cpu_second": tokens / second,
        "ours_over_generate": second / first,
    }


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repeats; writes no file")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    repeats = 2 if quick else 7
    results: dict[str, Any] = {
        "machine": f"{platform.processor() or platform.machine()}, 1 thread",
        "load_average_at_start": os.getloadavg()[0],
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "models": {},
    }
    with tempfile.TemporaryDirectory() as scratch:
        for name, section in MODELS.items():
            folder = make_tiny(Path(scratch) / name, [ROOM, SEEN], section, seed=0)
            policy = HFPolicy.from_pretrained(folder, device="cpu")
            some = repeats if name == "0.1M" else max(2, repeats // 2)
            results["models"][name] = {
                "parameters": policy.model.num_parameters(),
                "conversation": turns_per_second(folder, some),
                "twenty_turns": kept_against_encoded_anew(folder, some),
                "one_call": against_generate(folder, some),
            }
            print(name, json.dumps(results["models"][name], indent=2))
    if not quick:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
        print(f"written: {RESULTS}")


if __name__ == "__main__":
    main()
