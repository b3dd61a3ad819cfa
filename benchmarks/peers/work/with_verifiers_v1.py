"""verifiers 0.4: an environment that drives its agent turn by turn, on the null harness in the subprocess runtime."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from clock import imports, main, timed

TURNS, EPISODES, CONCURRENCY = 10, 2, 2
PROMPT = "say something"


class EchoEnvConfig(vf.EnvConfig):  # type: ignore[misc]
    """One agent on the harness without tools: it only chats."""

    player: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})


class EchoEnv(vf.Env[EchoEnvConfig]):  # type: ignore[misc]
    """Ten turns, no work."""

    async def run(self, task: Any, agents: Any) -> None:
        async with agents.player.interaction(task) as talk:
            segment = await talk.turn()
            for _ in range(TURNS - 1):
                segment = await talk.turn(f"you said {segment.last_reply}")


class Echo(vf.Taskset[vf.Task, vf.TasksetConfig]):  # type: ignore[misc]
    """Equal tasks."""

    def load(self) -> Any:
        return [vf.Task(vf.TaskData(idx=k, prompt=PROMPT)) for k in range(EPISODES)]


__all__ = ["Echo", "EchoEnv"]  # how verifiers finds a taskset and its environment in a module


async def play(url: str, episodes: int) -> int:
    """Episodes as its ``vf-eval`` plays them, in this process; the turns played."""
    env = EchoEnv(EchoEnvConfig(taskset={"id": Path(__file__).stem}))
    client = vf.EvalClientConfig(base_url=url, api_key_var="PEER_KEY")
    context, limit = vf.ModelContext(model="m", client=client), asyncio.Semaphore(CONCURRENCY)
    async with env.serving():
        slots = [slot for task in list(env.taskset)[:episodes] for slot in env.slots(task)]
        done = await asyncio.gather(*(env.run_slot(slot, context, limit) for slot in slots))
    for episode in done:
        assert episode.ok, [error.message for error in episode.errors]
    turns = sum(node.sampled for episode in done for trace in episode.traces for node in trace.nodes)
    assert turns == episodes * TURNS, f"{turns} turns played, {episodes * TURNS} expected"
    return turns


def http(options: argparse.Namespace) -> dict[str, Any]:
    os.environ["PEER_KEY"] = "none"
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))  # uv is there
    logging.disable(logging.WARNING)
    sys.path.insert(0, str(Path(__file__).parent))
    note = "Env.run_slot, null harness, subprocess runtime: the default starts the chat program anew for every turn"
    return timed(lambda: asyncio.run(play(options.url, 1 if options.small else EPISODES)), options, note)


if __name__ == "__main__":
    none = "its environments are played against a model server only: see the row over HTTP"
    main(
        {"http": http, "start": imports("verifiers.v1")},
        ("verifiers", "openai", "uv"),
        dict.fromkeys(("echo", "echo_made", "echo_recorded", "protocol"), none)
        | dict.fromkeys(("wait", "spin"), "its environments are coroutines: what blocks is its author's to move away")
        | dict.fromkeys(("lake", "sokoban", "sokoban_room"), "the games are TextArena's, played through its loop"),
    )
