"""Memory over 10,000 episodes that go to a store and are not kept, and the store's write and read rates.

Run: ``python benchmarks/memory.py [EPISODES]``. Target: at most 1 KB of resident memory an episode; 2,000 small
episodes written a second.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from common import Echo, save
from rollout_overhead import ACTIONS, TokenPolicy

from agentgym import EpisodeStore, Task
from agentgym.rollouts import RolloutConfig, RolloutEngine, record


def rss() -> int:
    """Resident bytes of this process."""
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def main(count: int) -> dict[str, Any]:
    """Episodes through the engine into a store; resident memory every tenth."""
    points: list[tuple[int, int]] = []
    done = 0
    with tempfile.TemporaryDirectory() as folder, EpisodeStore(Path(folder) / "episodes") as store:

        def seen(episode: Any) -> None:
            nonlocal done
            store.append(episode)
            done += 1
            if done % (count // 20) == 0:
                points.append((done, rss()))

        tasks = (Task("echo", f"t{i}", seed=i) for i in range(count))
        begun = time.perf_counter()
        with RolloutEngine(Echo, TokenPolicy(), RolloutConfig()) as engine:
            engine.run_sync(tasks, on_episode=seen, collect=False)
        seconds = time.perf_counter() - begun
        store.flush()
        size = store.path.stat().st_size
        assert len(store) == count
    later = points[len(points) // 5 :]  # the first fifth warms up allocators
    slope = float(np.polyfit([p[0] for p in later], [p[1] for p in later], 1)[0])
    return {
        "episodes": count, "RSS slope, bytes an episode (target 1024)": slope,
        "RSS at the end, MB": points[-1][1] / 1e6,
        "file bytes an episode": size / count, "episodes/s, engine and store": count / seconds,
    }  # fmt: skip


def store_rates() -> dict[str, float]:
    """Episodes a second of the store alone: ten turns without tokens, and flushed one by one."""
    env, task, rates = Echo(), Echo().tasks()[0], {}
    episode = record(env, task, ACTIONS)
    for name, wait in (("write/s", 1.0), ("write/s, each flushed (target 2000)", 0.0)):
        with tempfile.TemporaryDirectory() as folder, EpisodeStore(Path(folder) / "e", flush_seconds=wait) as store:
            begun = time.perf_counter()
            for _ in range(4000):
                store.append(episode)
            store.flush()
            rates[name] = 4000 / (time.perf_counter() - begun)
            begun = time.perf_counter()
            assert sum(1 for _ in store) == 4000
            rates[name.replace("write", "read")] = 4000 / (time.perf_counter() - begun)
    return rates


if __name__ == "__main__":
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    save("memory", {**main(total), "store": store_rates()})
