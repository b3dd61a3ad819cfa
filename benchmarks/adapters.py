"""What the adapters cost over what they wrap, and how many steps a second a served environment takes.

Run: ``python benchmarks/adapters.py``. Targets: 3 us a step over the wrapped environment; 1,000 steps a second of one
core for the server. TextArena and GEM are measured where they are installed. CPU time of one process for the adapters;
for the server its own CPU time, while another process asks.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from common import cpu_us, save

import agentgym
from agentgym.environments.adapters.gymnasium import _uncoloured

STEPS = 200
REPEATS = 101


def compare(ours: Callable[[], int], raw: Callable[[], int]) -> dict[str, Any]:
    """Both in turns, for some milliseconds each, so that a busy machine slows both; what counts is the median pair."""
    ours(), raw()
    rounds = [(cpu_us(ours, 1)["median"], cpu_us(raw, 1)["median"]) for _ in range(REPEATS)]
    mine, theirs = zip(*rounds, strict=True)
    extra = sorted(one - other for one, other in rounds)
    return {
        "adapter, us a step": statistics.median(mine),
        "wrapped, us a step": statistics.median(theirs),
        "overhead, median of the pairs, us": statistics.median(extra),
        "its quartiles, us": [extra[REPEATS // 4], extra[-1 - REPEATS // 4]],
    }


def gymnasium_pair(id: str, action: str, number: int) -> dict[str, Any]:
    import gymnasium

    env = agentgym.make("gymnasium", id=id)
    task = env.tasks("train")[0]
    raw = gymnasium.make(id, max_episode_steps=-1, disable_env_checker=True)
    ansi = "ansi" in raw.metadata["render_modes"]
    if ansi:
        raw = gymnasium.make(id, max_episode_steps=-1, disable_env_checker=True, render_mode="ansi")

    def ours() -> int:
        env.reset(task)
        for _ in range(STEPS):
            if env.step(action).terminated:
                env.reset(task)
        return STEPS

    def shown(seen: object) -> str:
        return _uncoloured(raw.render()) if ansi else str(seen)

    def bare() -> int:
        shown(raw.reset(seed=task.seed)[0])
        for _ in range(STEPS):
            seen, _, terminated, truncated, _ = raw.step(number)
            shown(seen)
            if terminated or truncated:
                shown(raw.reset(seed=task.seed)[0])
        return STEPS

    return compare(ours, bare)


def textarena_pair() -> dict[str, Any]:
    import textarena

    env = agentgym.make("textarena", id="GuessTheNumber-v0", options={"max_turns": 10**9, "max_number": 10**9})
    task = env.tasks("train")[0]
    raw = textarena.make("GuessTheNumber-v0-raw", max_turns=10**9, max_number=10**9)
    few = 100  # the game keeps all that was said

    def ours() -> int:
        env.reset(task)
        for number in range(1, few + 1):
            env.step(f"[{number}]")
        return few

    def bare() -> int:
        raw.reset(num_players=1, seed=task.seed)
        for number in range(1, few + 1):
            raw.step(f"[{number}]")
            player, said = raw.get_observation()
            "\n".join(message.strip() for sender, message, _ in said if sender != player)
        return few

    return compare(ours, bare)


def gem_pair() -> dict[str, Any]:
    import gem

    bounds = {"max_turns": 10**9, "max_number": 10**9}
    env = agentgym.make("gem", id="game:GuessTheNumber-v0-easy", options=bounds)
    task = env.tasks("train")[0]
    raw = gem.make("game:GuessTheNumber-v0-easy", **bounds)

    def ours() -> int:
        env.reset(task)
        for number in range(1, STEPS + 1):
            env.step(f"\\boxed{{{number}}}")
        return STEPS

    def bare() -> int:
        raw.reset(seed=task.seed)
        for number in range(1, STEPS + 1):
            shown, _, _, _, info = raw.step(f"\\boxed{{{number}}}")
            f"{shown}\n{info['suffix']}"
        return STEPS

    return compare(ours, bare)


def served(seconds: float = 4.0) -> dict[str, Any]:
    """Steps of Quest over one kept connection; CPU seconds of the server's process."""
    command = [sys.executable, "-m", "agentgym", "serve", "env", "quest", "--port", "0", "--no-token"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split(" at ")[1].split(";")[0]
            env = agentgym.make("remote", url=url)
            task = env.tasks("train", count=1)[0]
            connection = http.client.HTTPConnection(url.removeprefix("http://"))
            body = json.dumps({"action": "look"}).encode()
            begun, cpu, asked = time.perf_counter(), _cpu(server.pid), 0
            while time.perf_counter() - begun < seconds:
                if asked % 5000 == 0:  # an episode has at most 10,000 turns
                    env.reset(task)
                    path = f"/episodes/{env._episode}/step"  # type: ignore[attr-defined]
                connection.request("POST", path, body)
                answer = connection.getresponse()
                text = answer.read()
                assert answer.status == 200, text
                asked += 1
            wall, cpu = time.perf_counter() - begun, _cpu(server.pid) - cpu
        finally:
            server.kill()
    return {"steps a CPU second of the server": asked / cpu, "steps a second of wall time, one client": asked / wall}


def _cpu(pid: int) -> float:
    """CPU seconds of a process so far."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    figures: dict[str, Any] = {
        "unit": "CPU us a step; targets: overhead 3 us, server 1,000 steps a second of one core",
        "gymnasium CliffWalking-v1": gymnasium_pair("CliffWalking-v1", "up", 0),
        "gymnasium Taxi-v4": gymnasium_pair("Taxi-v4", "north", 1),
        "gymnasium FrozenLake-v1": gymnasium_pair("FrozenLake-v1", "left", 0),
    }
    if importlib.util.find_spec("textarena"):
        figures["textarena GuessTheNumber-v0"] = textarena_pair()
    if importlib.util.find_spec("gem"):
        figures["gem game:GuessTheNumber-v0-easy"] = gem_pair()
    figures["agentgym serve env quest"] = served()
    save("adapters", figures)
