"""GEM: the bare class; ``gem.make``; the wrapper that keeps observations and actions."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import gem
from busy import ENVS, STEPS, WORK
from clock import Missing, imports, main, timed
from gem.core import Env
from gem.wrappers.observation_wrapper import ObservationWrapper

EPISODES, TURNS = 100, 10
ACTION = "\\boxed{hello}"
PAIRS = (("up", "down"), ("down", "up"), ("left", "right"), ("right", "left"))
MOVES, ROOMS = 18, 8


class Echo(Env):
    """Ten turns, no work."""

    def __init__(self, **_: Any) -> None:
        self.turn = 0

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed)
        self.turn = 0
        return "say something", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        done = self.turn >= TURNS
        return f"you said {action}", 1.0 if done else 0.0, done, False, {}


def play(env: Any, seeded: bool) -> int:
    """Whole episodes; the steps played."""
    for episode in range(EPISODES):
        env.reset(seed=episode) if seeded else env.reset()
        for _ in range(TURNS):
            env.step(ACTION)
    return EPISODES * TURNS


def bare(options: argparse.Namespace) -> dict[str, Any]:
    env = Echo()
    return timed(lambda: play(env, False), options, "the class itself, unseeded reset")


def made(options: argparse.Namespace) -> dict[str, Any]:
    gem.register("peer:Echo-v0", Echo)
    env = gem.make("peer:Echo-v0")
    return timed(lambda: play(env, True), options, "gem.make, seeded reset (seeds the global generators)")


def recorded(options: argparse.Namespace) -> dict[str, Any]:
    env = ObservationWrapper(Echo(), include_action=True, include_chat_template=False)
    note = "wrapper concat_with_action: keeps the texts of an episode and hands out all of them at every step"
    return timed(lambda: play(env, True), options, note)


def made_sokoban() -> Any:
    return gem.make("game:Sokoban-v0-easy", max_turns=MOVES + 1)


def walk(env: Any, seed: int) -> list[str]:
    """A walk out and back that neither solves nor leaves the room of ``seed``."""
    for pair in PAIRS:
        actions = [f"\\boxed{{{pair[k % 2]}}}" for k in range(MOVES)]
        env.reset(seed=seed)
        shown = [env.step(action) for action in actions]
        if not any(row[2] or row[3] or "cannot" in row[0] or "invalid" in row[0] for row in shown):
            return actions
    raise Missing(f"no walk out and back in the room of seed {seed}")


def sokoban(options: argparse.Namespace) -> dict[str, Any]:
    envs = [made_sokoban() for _ in range(ROOMS)]
    walks = [walk(env, seed) for seed, env in enumerate(envs)]

    def run() -> int:
        for env, actions in zip(envs, walks, strict=True):
            for action in actions:
                env.step(action)
        return ROOMS * MOVES

    def prepare() -> None:
        for seed, env in enumerate(envs):
            env.reset(seed=seed)

    return timed(run, options, "game:Sokoban-v0-easy, two boxes", prepare)


def room(options: argparse.Namespace) -> dict[str, Any]:
    env = made_sokoban()

    def run() -> int:
        for seed in range(ROOMS):
            env.reset(seed=seed)
        return ROOMS

    return timed(run, options, "two boxes; the room is not solved to check it")


class Slow(Echo):
    """Each step waits or computes; it does not end."""

    def __init__(self, kind: str, **_: Any) -> None:
        self.work = WORK[kind]

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.work()
        return f"you said {action}", 0.0, False, False, {}


def vector(kind: str, threads: bool, options: argparse.Namespace) -> dict[str, Any]:
    """Its vector environment; beside it the other of its two kinds."""
    gem.register("peer:Slow-v0", Slow)
    figures = []
    for threaded in (threads, not threads):
        env = gem.make_vec(["peer:Slow-v0"] * ENVS, async_mode=threaded, kind=kind)
        env.reset(seed=0)
        note = f"make_vec, async_mode={threaded} ({'a thread each' if threaded else 'serial'}), in lock-step"
        figures.append(timed(partial(steps_of, env), options, note))
    return {**figures[0], f"async_mode={not threads}": figures[1]}


def steps_of(env: Any) -> int:
    """Steps of all environments, then the next ones."""
    for _ in range(STEPS):
        env.step([ACTION] * ENVS)
    return ENVS * STEPS


if __name__ == "__main__":
    main(
        {
            "echo": bare, "echo_made": made, "echo_recorded": recorded, "sokoban": sokoban, "sokoban_room": room,
            "wait": partial(vector, "wait", True), "spin": partial(vector, "spin", False), "start": imports("gem"),
        },
        ("gem-llm", "numpy"),
        {
            "lake": "has no FrozenLake",
            "protocol": "its rollout loops are examples beside the package, bound to their trainers (oat, verl)",
            "http": "its rollout loops are examples beside the package",
        },
    )  # fmt: skip
