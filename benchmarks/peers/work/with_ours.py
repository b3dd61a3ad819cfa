"""agentgym: the same works, with the environments and the engine that its own benchmarks use."""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path
from typing import Any

from busy import ENVS
from clock import imports, main, timed

import agentgym
from agentgym import Environment, Task
from agentgym.environments.alfworld.engine import Game
from agentgym.environments.alfworld.generated import generated_problem
from agentgym.environments.alfworld.world import World
from agentgym.policies.openai_api import OpenAIPolicy
from agentgym.rollouts import RolloutConfig, RolloutEngine, record

sys.path.append(str(Path(__file__).resolve().parents[2]))
from common import Echo
from rollout_overhead import TokenPolicy

EPISODES, TURNS = 100, 10
ROOMS, MOVES = 8, 18
LAKE = ["SFFF", "FHFH", "FFFH", "HFFG"]
PAIRS = (("Up", "Down"), ("Down", "Up"), ("Left", "Right"), ("Right", "Left"))


def play(env: Environment, tasks: list[Task], actions: list[str]) -> int:
    """Whole episodes; the steps played."""
    steps = 0
    for task in tasks:
        env.reset(task)
        for action in actions:
            steps += 1
            if env.step(action).terminated:
                break
    return steps


def echo(options: argparse.Namespace) -> dict[str, Any]:
    tasks, actions = [Echo().tasks()[0]] * EPISODES, ["hello"] * TURNS
    return timed(lambda: play(Echo(), tasks, actions), options, "the class itself, no record")


def made(options: argparse.Namespace) -> dict[str, Any]:
    env = agentgym.make("common:Echo")
    tasks, actions = list(env.tasks(count=EPISODES)), ["hello"] * TURNS
    return timed(lambda: play(env, tasks, actions), options, "agentgym.make, a seeded task an episode, no record")


def recorded(options: argparse.Namespace) -> dict[str, Any]:
    env = agentgym.make("common:Echo")
    tasks, actions = list(env.tasks(count=EPISODES)), ["hello"] * TURNS
    note = "agentgym.rollouts.record: every turn with texts, rewards, state key, validity"
    return timed(lambda: sum(len(record(env, task, actions).turns) for task in tasks), options, note)


def lake(options: argparse.Namespace) -> dict[str, Any]:
    env = agentgym.make("frozenlake")
    data = {"desc": LAKE, "slippery": True, "success_rate": 1 / 3}
    tasks = [Task("frozenlake", f"peers-{k}", "train", seed=k, data=data) for k in range(EPISODES)]
    note = "Gymnasium's map and slips; observations are texts"
    return timed(lambda: play(env, tasks, ["Down", "Right"] * 15), options, note)


def walk(env: Environment, task: Task) -> list[str]:
    """A walk out and back that neither solves nor leaves the room."""
    for pair in PAIRS:
        actions = [pair[k % 2] for k in range(MOVES)]
        texts, ended = [env.reset(task).text], False
        for action in actions:
            step = env.step(action)
            texts.append(step.observation.text)
            ended = ended or step.terminated
        if not ended and all(a != b for a, b in itertools.pairwise(texts)):
            return actions
    return []


def sokoban(options: argparse.Namespace) -> dict[str, Any]:
    env = agentgym.make("sokoban", variant="retroagent")
    walks = [(task, walk(env, task)) for task in env.tasks("train", n=4 * ROOMS, size=6)]
    walks = [(task, actions) for task, actions in walks if actions][:ROOMS]
    envs = [agentgym.make("sokoban", variant="retroagent") for _ in walks]

    def prepare() -> None:
        for one, (task, _) in zip(envs, walks, strict=True):
            one.reset(task)

    def run() -> int:
        for one, (_, actions) in zip(envs, walks, strict=True):
            for action in actions:
                one.step(action)
        return len(walks) * MOVES

    return timed(run, options, "two boxes; dead states are looked for at every push", prepare)


def room(options: argparse.Namespace) -> dict[str, Any]:
    env = agentgym.make("sokoban", variant="retroagent")

    def run() -> int:
        for task in env.tasks("train", n=ROOMS, seed=0, size=6):
            env.reset(task)
        return ROOMS

    return timed(run, options, "two boxes; rooms are solved to check them (5 to 30 moves) and no two are equal")


def protocol(options: argparse.Namespace) -> dict[str, Any]:
    tasks = Echo().tasks(count=EPISODES)

    def run() -> int:
        with RolloutEngine(Echo, TokenPolicy(), RolloutConfig(concurrency=32)) as engine:
            engine.run_sync(tasks)
            return engine.stats.turns

    return timed(run, options, "RolloutEngine, ids, masks and log-probabilities, full episodes kept")


def http(options: argparse.Namespace) -> dict[str, Any]:
    tasks = Echo().tasks(count=4 if options.small else 32)

    def run() -> int:
        policy = OpenAIPolicy(options.url, model="m", concurrency=16)
        with RolloutEngine(Echo, policy, RolloutConfig(concurrency=16)) as engine:
            engine.run_sync(tasks)
            return engine.stats.turns

    return timed(run, options, "RolloutEngine with OpenAIPolicy, full episodes kept: 16 conversations at once")


def slow(kind: str, where: str, options: argparse.Namespace) -> dict[str, Any]:
    """Many slow environments at once, in threads or in worker processes."""
    from slow import ALL

    env = ALL[kind, where]
    with RolloutEngine(env, TokenPolicy(), RolloutConfig(concurrency=ENVS)) as engine:

        def run() -> int:
            before = engine.stats.turns
            engine.run_sync(env().tasks())
            return engine.stats.turns - before

        figures = timed(run, options)
        return {**figures, "note": f"RolloutEngine, full episodes kept, {engine.stats.workers_started} {where}"}


def wait(options: argparse.Namespace) -> dict[str, Any]:
    return {**slow("wait", "threads", options), "in processes": slow("wait", "processes", options)}


def spin(options: argparse.Namespace) -> dict[str, Any]:
    return {**slow("spin", "processes", options), "in threads": slow("spin", "threads", options)}


def alfworld_reset(options: argparse.Namespace) -> dict[str, Any]:
    from games import job

    env, (task, _) = agentgym.make("alfworld"), job()
    env.reset(task)

    def run() -> int:
        for _ in range(100):
            env.reset(task)
        return 100

    return timed(run, options, "the household, loaded before")


def alfworld_step(options: argparse.Namespace) -> dict[str, Any]:
    from games import job

    task, actions = job()
    problem = generated_problem(task)
    fresh: list[Game] = []

    def prepare() -> None:
        fresh[:] = [Game(World(problem))]

    def run() -> int:
        for action in actions:
            fresh[0].step(action)
            _ = fresh[0].admissible
        return len(actions)

    note = "20 commands in a freshly loaded game: nothing is remembered; the admissible ones are made at every step"
    options.least /= 10  # making a world takes longer than its steps
    return timed(run, options, note, prepare)


if __name__ == "__main__":
    main(
        {
            "echo": echo, "echo_made": made, "echo_recorded": recorded, "lake": lake, "sokoban": sokoban,
            "sokoban_room": room, "protocol": protocol, "http": http,
            "wait": wait, "spin": spin, "start": imports("agentgym.rollouts.engine"), "alfworld_reset": alfworld_reset,
            "alfworld_step": alfworld_step,
        },
        ("agentgym-turns", "numpy", "openai", "gymnasium"),
    )  # fmt: skip
