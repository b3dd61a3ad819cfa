"""Seconds to score an answer at every turn of a batch of episodes: one pass a row (tree attention) against one row a
block (plain), with the largest difference between the two.

    python benchmarks/scoring.py [--model FOLDER] [--episodes N] [--turns N] [--tokens N] [--device cpu] [--json OUT]

Without ``--model``: a Llama of a few million random weights. Rows have up to ``tokens`` ids, their turns begin at
equal distances; the block is a wrapper and an answer of 12 ids together. CPU seconds (wall seconds on a GPU),
median of 3 with minimum and maximum.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import numpy as np
import torch

from agentgym.credit.protocols import ScoredRow
from agentgym.policies.scorers import HFScorer

BLOCK = 12


def make_rows(vocabulary: int, episodes: int, turns: int, tokens: int) -> list[ScoredRow]:
    """Random rows of about ``tokens`` ids (the shortest has three quarters), a block behind the start of every turn."""
    rng = np.random.Generator(np.random.PCG64(0))
    rows = []
    for _ in range(episodes):
        size = int(rng.integers(3 * tokens // 4, tokens + 1))
        cuts = np.linspace(size // turns, size, turns).astype(int).tolist()
        block = rng.integers(0, vocabulary, BLOCK).astype(np.int32)
        row = rng.integers(0, vocabulary, size).astype(np.int32)
        rows.append(ScoredRow(row, tuple((cut, block) for cut in cuts)))
    return rows


def measure(scorer: HFScorer, rows: list[ScoredRow], device: str, repeats: int = 3) -> tuple[dict[str, float], Any]:
    """Seconds of one call, after one to warm up, and the numbers: CPU time on the CPU, wall time on a GPU."""
    clock = time.perf_counter if device.startswith("cuda") else time.process_time
    found = scorer.logprobs(rows[:2])
    times = []
    for _ in range(repeats):
        start = clock()
        found = scorer.logprobs(rows)
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        times.append(clock() - start)
    return {"median_s": statistics.median(times), "min_s": min(times), "max_s": max(times)}, found


def load(folder: str, device: str) -> Any:
    """The model of a folder, or a small Llama with random weights."""
    if folder:
        from agentgym.policies.hf import load_model

        return load_model(folder, device=device)[0]
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shape = LlamaConfig(
        vocab_size=2000, hidden_size=192, intermediate_size=512, num_hidden_layers=6, num_attention_heads=6,
        num_key_value_heads=3, max_position_embeddings=32_768, initializer_range=0.1,
    )  # fmt: skip
    return LlamaForCausalLM(shape).to(device).eval()


def main() -> None:
    """Measure both paths on the same rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="", help="folder of a transformers model")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", default="", help="also write the figures here")
    for name, default in (("episodes", 8), ("turns", 10), ("tokens", 800)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    model = load(options.model, options.device)
    rows = make_rows(int(model.config.get_text_config().vocab_size), options.episodes, options.turns, options.tokens)
    figures: dict[str, Any] = {
        "parameters": sum(p.numel() for p in model.parameters()), "device": options.device,
        "threads": torch.get_num_threads(), "episodes": options.episodes, "turns": options.turns,
        "row_tokens": sum(len(row.row) for row in rows),
        "plain_tokens": sum(cut + len(ids) for row in rows for cut, ids in row.blocks),
    }  # fmt: skip
    tree, left = measure(HFScorer(model, None, tree=True), rows, options.device)
    plain, right = measure(HFScorer(model, None, tree=False), rows, options.device)
    gaps = [abs(a - b).max() for one, other in zip(left, right, strict=True) for a, b in zip(one, other, strict=True)]
    figures |= {"tree": tree, "plain": plain, "ratio": plain["median_s"] / tree["median_s"], "max_gap": max(gaps)}
    text = json.dumps(figures, indent=1, default=float)
    print(text)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
