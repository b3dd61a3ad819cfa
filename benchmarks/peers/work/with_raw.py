"""No framework: the floor. Plain Python for the games, a plain loop over AsyncOpenAI for the HTTP turn."""

from __future__ import annotations

import argparse
import random
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from busy import ENVS, STEPS, WORK
from clock import imports, main, timed
from plain import ask

EPISODES, TURNS = 100, 10
MAP = "SFFFFHFHFFFHHFFG"


def echo(options: argparse.Namespace) -> dict[str, Any]:
    """The echo environment as a function's loop with one method call a step."""

    class Echo:
        def reset(self) -> str:
            self.turn = 0
            return "say something"

        def step(self, action: str) -> tuple[str, float, bool]:
            self.turn += 1
            done = self.turn >= TURNS
            return f"you said {action}", 1.0 if done else 0.0, done

    def run() -> int:
        env = Echo()
        for _ in range(EPISODES):
            env.reset()
            for _ in range(TURNS):
                env.step("hello")
        return EPISODES * TURNS

    return timed(run, options, "a class with reset and step")


def table() -> list[list[list[int]]]:
    """Next cell by cell, action (left, down, right, up) and slip (before, straight, after)."""

    def moved(cell: int, action: int) -> int:
        row, column = divmod(cell, 4)
        row = min(max(row + (0, 1, 0, -1)[action % 4], 0), 3)
        column = min(max(column + (-1, 0, 1, 0)[action % 4], 0), 3)
        return row * 4 + column

    return [[[moved(cell, action + slip) for slip in (-1, 0, 1)] for action in range(4)] for cell in range(16)]


def lake(options: argparse.Namespace) -> dict[str, Any]:
    """FrozenLake with a table and the standard library's generator, seeded at every reset."""
    moves = table()

    def run() -> int:
        steps = 0
        for seed in range(EPISODES):
            rng, cell = random.Random(seed), 0
            for turn in range(30):
                cell = moves[cell][1 + turn % 2][int(3 * rng.random())]
                steps += 1
                if MAP[cell] in "HG":
                    break
        return steps

    return timed(run, options, "a table and random.Random; observations are numbers, no text is made")


def http(options: argparse.Namespace) -> dict[str, Any]:
    note = "a plain loop over AsyncOpenAI: 16 conversations at once"
    return timed(lambda: ask(options.url, 4 if options.small else 32, TURNS, 16), options, note)


def wait(options: argparse.Namespace) -> dict[str, Any]:
    with ThreadPoolExecutor(ENVS) as pool:
        return timed(lambda: together(pool, "wait"), options, f"ThreadPoolExecutor, {ENVS} threads")


def spin(options: argparse.Namespace) -> dict[str, Any]:
    with ProcessPoolExecutor() as pool:
        return timed(lambda: together(pool, "spin"), options, "ProcessPoolExecutor, a process for each core")


def together(pool: Executor, kind: str) -> int:
    """Steps of all environments, then the next ones."""
    for _ in range(STEPS):
        list(pool.map(step, [kind] * ENVS))
    return ENVS * STEPS


def step(kind: str) -> None:
    """In a process of the pool, which knows functions of this module by name."""
    WORK[kind]()


if __name__ == "__main__":
    none = "no plain version of it was written"
    works = {"echo": echo, "lake": lake, "http": http, "wait": wait, "spin": spin, "start": imports("sys")}
    rest = ("echo_made", "echo_recorded", "sokoban", "sokoban_room", "protocol", "alfworld_reset", "alfworld_step")
    main(works, ("openai",), dict.fromkeys(rest, none))
