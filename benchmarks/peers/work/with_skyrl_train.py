"""SkyRL: its SkyRLGymGenerator (skyrl-train) with an instant inference client."""

from __future__ import annotations

import argparse
import asyncio
import os
from functools import partial
from typing import Any

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import skyrl_gym
from byte_tokenizer import byte_tokenizer
from clock import imports, main, timed
from omegaconf import OmegaConf
from skyrl_echo import PROMPT, TURNS, Echo
from skyrl_train.generators.skyrl_gym_generator import SkyRLGymGenerator

TURN, EPISODES = 50, 32
TEXT = "<action>hello</action>"
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class Instant:
    """The inference client: fixed ids with log-probabilities, at once."""

    def __init__(self, last: int) -> None:
        self.ids = [*range(TURN - 1), last]

    async def generate(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {
            "responses": [TEXT],
            "response_ids": [list(self.ids)],
            "stop_reasons": ["stop"],
            "response_logprobs": [[-0.5] * TURN],
        }


def config(messages: bool) -> Any:
    """Its defaults, with log-probabilities asked for. ``messages``: each turn is a message, its default too."""
    return OmegaConf.create({
        "max_turns": TURNS, "batched": False, "use_conversation_multi_turn": messages, "step_wise_trajectories": False,
        "chat_template": {"source": "name", "name_or_path": None}, "chat_template_kwargs": {},
        "max_input_length": 8192, "append_eos_token_after_stop_str_in_multi_turn": True,
        "zero_reward_on_non_stop": False, "apply_overlong_filtering": False,
        "sampling_params": {"max_generate_length": 1024, "logprobs": 0, "stop": None},
    })  # fmt: skip


def play(generator: SkyRLGymGenerator, episodes: int, sampled: int) -> int:
    """All episodes at once by ``generate``; the turns played. ``sampled``: tokens that must count as the model's."""
    batch = {
        "prompts": [list(PROMPT) for _ in range(episodes)],
        "env_classes": ["peer_echo"] * episodes,
        "env_extras": [{} for _ in range(episodes)],
    }
    found: dict[str, Any] = {}

    async def whole() -> None:  # asyncio.run in Python 3.11 writes a result out as text, which is not its loop's doing
        found.update(await generator.generate(batch, disable_tqdm=True))

    asyncio.run(whole())
    for ids, mask, values in zip(found["response_ids"], found["loss_masks"], found["rollout_logprobs"], strict=True):
        assert len(ids) == len(mask) == len(values)
        assert sum(mask) == sampled, f"{sum(mask)} sampled tokens, {sampled} expected"
    return episodes * TURNS


def protocol(options: argparse.Namespace) -> dict[str, Any]:
    """Its default, and beside it all turns in one message, which its configuration offers too."""
    skyrl_gym.register("peer_echo", entry_point=Echo)
    words = byte_tokenizer(("<|im_start|>", "<|im_end|>"), "<|im_end|>", CHATML)
    episodes = 4 if options.small else EPISODES
    figures = []
    for messages in (True, False):
        client = Instant(words.eos_token_id if messages else TURN)
        workers = OmegaConf.create({"max_env_workers": 0})  # environments on its event loop, faster than in threads
        generator = SkyRLGymGenerator(config(messages), workers, client, words, "m")
        sampled = TURNS * TURN + (not messages)  # it ends the one message by itself
        figures.append(timed(partial(play, generator, episodes, sampled), options))
    note = (
        "SkyRLGymGenerator.generate, token in, token out, observations rendered by the chat template (its default); "
        "max_env_workers 0"
    )
    return {**figures[0], "note": note, "all turns in one message": figures[1]}


if __name__ == "__main__":
    gym = "skyrl-gym's: see there"
    main(
        {"protocol": protocol, "start": imports("skyrl_train.generators.skyrl_gym_generator")},
        ("skyrl-train", "skyrl-gym", "ray", "transformers", "torch"),
        dict.fromkeys(("echo", "echo_made", "echo_recorded", "lake", "sokoban", "sokoban_room", "wait", "spin"), gym)
        | {"http": "its client of remote engines asks a route of its own engines' servers"},
    )
