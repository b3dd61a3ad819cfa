"""The real ALFWorld engine: TextWorld, through the class that our equality tests compare the native engine with."""

from __future__ import annotations

import argparse
from typing import Any

from clock import imports, main, timed
from games import job

from agentgym.environments.alfworld.reference import ALFWorldReference


def reset(options: argparse.Namespace) -> dict[str, Any]:
    env, (task, _) = ALFWorldReference(), job()
    env.load(task)

    def run() -> int:
        env.reset(task)
        return 1

    return timed(run, options, "the household, loaded before")


def step(options: argparse.Namespace) -> dict[str, Any]:
    env, (task, actions) = ALFWorldReference(), job()
    env.load(task)

    def run() -> int:
        for action in actions:
            env.step(action)
        return len(actions)

    return timed(run, options, "20 commands; the admissible ones are made at every step", lambda: env.reset(task))


if __name__ == "__main__":
    main(
        {"alfworld_reset": reset, "alfworld_step": step, "start": imports("textworld")},
        ("textworld", "alfworld", "fast-downward-textworld"),
    )
