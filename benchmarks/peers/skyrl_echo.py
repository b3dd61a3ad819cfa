"""The echo environment as SkyRL-Gym has it: played bare, made, and by SkyRL's generator. Needs skyrl-gym."""

from __future__ import annotations

from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

TURNS = 10
PROMPT = [{"role": "user", "content": "say something"}]


class Echo(BaseTextEnv):
    """Ten turns, no work. The generator hands over its configuration, which is not read."""

    def __init__(self, env_config: Any = None, extras: Any = None) -> None:
        super().__init__()

    def init(self, prompt: list[dict[str, str]]) -> tuple[list[dict[str, str]], dict[str, Any]]:
        self.turns = 0
        return prompt, {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        self.turns += 1
        done = self.turns >= TURNS
        said = [{"role": "user", "content": f"you said {action}"}]
        return BaseTextEnvStepOutput(observations=said, reward=1.0 if done else 0.0, done=done, metadata={})
