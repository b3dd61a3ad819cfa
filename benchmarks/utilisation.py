"""How busy a model server is kept: our engine, and lock-step batches, against the same simulated server.

Run: ``python benchmarks/utilisation.py``. The server has 16 slots; a response takes a + b * tokens seconds; episodes
last 5 to 50 turns. Busy share = slot-seconds spent on responses that were needed / (slots * wall-clock). Target: 0.9.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from common import save

from agentgym import Environment, EnvironmentSpec, Observation, Policy, PolicyRequest, SampledTurn, Step, Task, TaskSet
from agentgym.rollouts import RolloutConfig, RolloutEngine
from agentgym.seeding import python_rng

SLOTS = 16
A, B = 0.02, 0.0005  # seconds: per call, per token; a small model on a GPU
EPISODES = 256


class Lengths(Environment):
    """An episode of a drawn length."""

    spec = EnvironmentSpec("lengths", max_turns=50)

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        return TaskSet([Task("lengths", f"t{i}", split, seed=i) for i in range(EPISODES)])

    def reset(self, task: Task) -> Observation:
        self.left = python_rng("length", task.seed).randint(5, 50)
        return Observation("go")

    def step(self, action: str) -> Step:
        self.left -= 1
        return Step(Observation("go"), 0.0, self.left == 0, self.left == 0)


def latency(seed: int) -> float:
    """Seconds of one response of 20 to 100 tokens."""
    return A + B * python_rng("tokens", seed).randint(20, 100)


class Server(Policy):
    """The simulated model server."""

    name = "server"

    def __init__(self) -> None:
        self.slots = asyncio.Semaphore(SLOTS)
        self.busy = 0.0

    async def act(self, request: PolicyRequest) -> SampledTurn:
        async with self.slots:
            seconds = latency(request.seed)
            await asyncio.sleep(seconds)
            self.busy += seconds  # what the response needs, as for lock-step: late timers count against us
        return SampledTurn("<action>go</action>")


def ours() -> dict[str, float]:
    """Our engine with as many episodes in flight as the server has slots, and a few more to hide its own time."""
    server = Server()
    begun = time.perf_counter()
    with RolloutEngine(Lengths, server, RolloutConfig(concurrency=SLOTS + 8)) as engine:
        engine.run_sync(Lengths().tasks(), collect=False)
        turns = engine.stats.turns
    wall = time.perf_counter() - begun
    return {"busy": server.busy / (SLOTS * wall), "seconds": wall, "turns": turns, "episodes/min": EPISODES / wall * 60}


async def _lock_step() -> dict[str, float]:
    """Batches of 16 episodes; each turn waits for the slowest response, each batch for the longest episode."""
    tasks, busy, turns = list(Lengths().tasks()), 0.0, 0
    begun = time.perf_counter()
    for at in range(0, EPISODES, SLOTS):
        envs = [Lengths() for _ in range(SLOTS)]
        for env, task in zip(envs, tasks[at : at + SLOTS], strict=True):
            env.reset(task)
        turn = 0
        while live := [env for env in envs if env.left]:
            seconds = [latency(at * 1000 + turn * SLOTS + slot) for slot in range(len(live))]
            await asyncio.gather(*(asyncio.sleep(s) for s in seconds))
            busy += sum(seconds)
            turns += len(live)
            turn += 1
            for env in live:
                env.step("go")
    wall = time.perf_counter() - begun
    return {"busy": busy / (SLOTS * wall), "seconds": wall, "turns": turns, "episodes/min": EPISODES / wall * 60}


if __name__ == "__main__":
    save(
        "utilisation",
        {"slots": SLOTS, "episodes": EPISODES, "ours (target 0.9)": ours(), "lock-step": asyncio.run(_lock_step())},
    )
