"""TRL: the environment loop of GRPOTrainer, in which a model acts by calling an environment's methods as tools."""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
import trl
from byte_tokenizer import byte_tokenizer
from clock import imports, main, timed
from datasets import Dataset
from transformers import Qwen3Config, Qwen3ForCausalLM

TURNS, EPISODES = 10, 32
CALL = '<tool_call>\n{"name": "say", "arguments": {"text": "hello"}}\n</tool_call><|im_end|>'
MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>")


class Echo:
    """Ten turns, no work."""

    def reset(self, **_: Any) -> str:
        self.turn = 0
        return ""

    def say(self, text: str) -> str:
        """
        Say something.

        Args:
            text: what to say.
        """
        self.turn += 1
        return f"you said {text}"

    def get_reward(self) -> float:
        return float(self.turn >= TURNS)


class Instant(trl.GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer with an engine that answers at once: a call in every turn but the one after the last."""

    def engine(self, ids: list[int], last: list[int]) -> None:
        self._said, self._last, self.asked = ids, last, 0

    def _generate_single_turn(self, prompt_ids: Any, *_: Any, **__: Any) -> Any:
        self.asked += 1
        said = self._said if self.asked <= TURNS else self._last
        return [list(said) for _ in prompt_ids], [[-0.5] * len(said) for _ in prompt_ids]


def trainer(folder: str, episodes: int) -> Instant:
    """A trainer of a tiny Qwen3 with random weights, its environments bound by one step of its own."""
    template = Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja"
    words = byte_tokenizer(MARKS, "<|endoftext|>", template.read_text(encoding="utf-8"))
    size = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "head_dim": 8}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 8192}
    model = Qwen3ForCausalLM(Qwen3Config(vocab_size=len(words), **size, **heads))
    config = trl.GRPOConfig(
        output_dir=folder, per_device_train_batch_size=episodes, num_generations=episodes, use_cpu=True,
        max_completion_length=4000, max_tool_calling_iterations=TURNS, report_to=[], bf16=False, disable_tqdm=True,
    )  # fmt: skip
    rows = Dataset.from_list([{"prompt": question()} for _ in range(episodes)])
    made = Instant(model, args=config, train_dataset=rows, processing_class=words, environment_factory=Echo)
    made.engine(words(CALL)["input_ids"], words("I am done.<|im_end|>")["input_ids"])
    made._generate_and_score_completions([{"prompt": question()} for _ in range(episodes)])
    return made


def question() -> list[dict[str, str]]:
    """The prompt."""
    return [{"role": "user", "content": "say something"}]


def play(made: Instant, episodes: int) -> int:
    """All episodes by the trainer's own loop; the turns played."""
    made.asked = 0
    for environment in made.environments:
        environment.reset()
    found = made._generate([question() for _ in range(episodes)])
    masks, ids, logprobs = found[2], found[1], found[4]
    for mask, row, values in zip(masks, ids, logprobs, strict=True):
        assert len(mask) == len(row) == len(values)
        assert sum(mask) >= TURNS * len(made._said)
    assert all(environment.turn == TURNS for environment in made.environments)
    return episodes * TURNS


def protocol(options: argparse.Namespace) -> dict[str, Any]:
    logging.disable(logging.WARNING)
    episodes = 4 if options.small else EPISODES
    with tempfile.TemporaryDirectory() as folder:
        made = trainer(folder, episodes)
        note = (
            f"GRPOTrainer._generate, {episodes} at once: prompts, calls parsed and answers rendered in Qwen3's form, "
            "masks, log-probabilities, its metrics, resets; an instant engine in the place of _generate_single_turn, "
            f"{len(made._said)} tokens a turn and an eleventh answer that ends the episode; no forward pass"
        )
        return timed(lambda: play(made, episodes), options, note)


if __name__ == "__main__":
    none = "an environment is played by its trainer's loop only: see the row of the protocol"
    main(
        {"protocol": protocol, "start": imports("trl.trainer.grpo_trainer")},
        ("trl", "transformers", "torch"),
        dict.fromkeys(("echo", "echo_made", "echo_recorded", "wait", "spin"), none)
        | dict.fromkeys(("lake", "sokoban", "sokoban_room"), "brings no environments")
        | {"http": "its trainer's server (vLLM) speaks a protocol of its own"},
    )
