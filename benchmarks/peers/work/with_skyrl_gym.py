"""SkyRL-Gym: one environment reused, and ``make`` for every episode as its generator does."""

from __future__ import annotations

import argparse
from typing import Any

import skyrl_gym
from clock import imports, main, timed
from skyrl_echo import PROMPT, TURNS, Echo

EPISODES = 100


def play(env: Any) -> int:
    """One episode; the steps played."""
    env.init(PROMPT)
    for _ in range(TURNS):
        env.step("hello")
    return TURNS


def bare(options: argparse.Namespace) -> dict[str, Any]:
    env = Echo()
    return timed(lambda: sum(play(env) for _ in range(EPISODES)), options, "one instance reused; init takes no seed")


def made(options: argparse.Namespace) -> dict[str, Any]:
    skyrl_gym.register("peer_echo", entry_point=Echo)
    note = "make for every episode, as its generator does; init takes no seed"
    return timed(lambda: sum(play(skyrl_gym.make("peer_echo")) for _ in range(EPISODES)), options, note)


if __name__ == "__main__":
    trainer = "the loop (SkyRLGymGenerator) is the trainer's: see skyrl-train"
    main(
        {"echo": bare, "echo_made": made, "start": imports("skyrl_gym")},
        ("skyrl-gym",),
        {
            "echo_recorded": "keeps no record: that is its trainer's part",
            "lake": "has no FrozenLake",
            "sokoban": "has no Sokoban",
            "sokoban_room": "has no Sokoban",
            "wait": "has no vector environment: its trainer runs steps in a pool of threads",
            "spin": "has no vector environment: its trainer runs steps in a pool of threads",
            "protocol": trainer,
            "http": trainer,
        },
    )
