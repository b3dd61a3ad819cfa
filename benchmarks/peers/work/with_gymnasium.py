"""Gymnasium: the bare class, and ``make`` with its usual wrappers (order, time limit, checks)."""

from __future__ import annotations

import argparse
import string
from functools import partial
from typing import Any

import gymnasium
from busy import ENVS, STEPS, WORK
from clock import imports, main, timed

EPISODES, TURNS = 100, 10


class Echo(gymnasium.Env[str, str]):
    """Ten turns, no work."""

    observation_space = gymnasium.spaces.Text(200, charset=string.printable)
    action_space = gymnasium.spaces.Text(200, charset=string.printable)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.turn = 0
        return "say something", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        done = self.turn >= TURNS
        return f"you said {action}", 1.0 if done else 0.0, done, False, {}


def play(env: Any, seeded: bool, actions: tuple[Any, ...] = ("hello",) * TURNS, episodes: int = EPISODES) -> int:
    """Whole episodes; the steps played."""
    steps = 0
    for episode in range(episodes):
        env.reset(seed=episode if seeded else None)
        for action in actions:
            steps += 1
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                break
    return steps


def bare(options: argparse.Namespace) -> dict[str, Any]:
    env = Echo()
    return timed(lambda: play(env, False), options, "the class itself, unseeded reset")


def made(options: argparse.Namespace) -> dict[str, Any]:
    gymnasium.register("PeerEcho-v0", entry_point=Echo, max_episode_steps=100)
    env = gymnasium.make("PeerEcho-v0")
    return timed(lambda: play(env, True), options, "make with its default wrappers, seeded reset")


def lake(options: argparse.Namespace) -> dict[str, Any]:
    env = gymnasium.make("FrozenLake-v1")
    actions = (1, 2) * 15
    return timed(lambda: play(env, True, actions), options, "make; observations are numbers, no text is made")


class Slow(gymnasium.Env[int, int]):
    """Each step waits or computes; it does not end."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, kind: str) -> None:
        self.work = WORK[kind]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.work()
        return 0, 0.0, False, False, {}


def vector(kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """Its vector environment with a process for each environment; beside it the serial one."""
    makers = [partial(Slow, kind)] * ENVS
    figures = []
    for env in (gymnasium.vector.AsyncVectorEnv(makers), gymnasium.vector.SyncVectorEnv(makers)):
        env.reset(seed=0)
        figures.append(
            timed(partial(steps_of, env), options, f"{type(env).__name__}, {ENVS} environments in lock-step")
        )
        env.close()
    return {**figures[0], "SyncVectorEnv": figures[1]}


def steps_of(env: Any) -> int:
    """Steps of all environments, then the next ones."""
    for _ in range(STEPS):
        env.step(env.action_space.sample())
    return ENVS * STEPS


if __name__ == "__main__":
    main(
        {
            "echo": bare,
            "echo_made": made,
            "lake": lake,
            "wait": partial(vector, "wait"),
            "spin": partial(vector, "spin"),
            "start": imports("gymnasium"),
        },
        ("gymnasium", "numpy"),
        {
            "echo_recorded": "keeps no record of the turns: RecordEpisodeStatistics holds sums and lengths only",
            "sokoban": "has no Sokoban",
            "sokoban_room": "has no Sokoban",
            "protocol": "has no rollout loop, tokens or masks",
            "http": "has no model client",
        },
    )
