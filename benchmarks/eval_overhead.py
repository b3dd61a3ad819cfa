"""What an evaluation costs on top of asking an endpoint: CPU per turn against a bare AsyncOpenAI loop, and memory.

Run: ``python benchmarks/eval_overhead.py [EPISODES]``. 100 concurrent episodes on the board ``household-generated``
against an instant OpenAI-compatible server in another process; the bare loop sends the same messages, recorded from
the episodes, over the same client. Targets: 1.15 times the bare loop's CPU per turn; 1 KB of resident memory an episode
over 10,000 episodes. CPU is this process's; the server's is not counted.
"""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from common import save

from agentgym.leaderboards.catalogue import load_board, load_panel, load_tasks
from agentgym.leaderboards.identity import identify
from agentgym.leaderboards.ledger import Ledger
from agentgym.leaderboards.run import EPISODES, Job, LocalPlayer, run
from agentgym.policies import load_policy
from agentgym.store import EpisodeStore
from agentgym.tally import Outcome
from agentgym.types import TaskSet

CONCURRENCY, ROUNDS, BOARD = 100, 3, "household-generated"
TEXT = "<think>I look around first.</think><action>look</action>"


def serve(port: Any) -> None:
    """An instant server: one canned answer, keep-alive, asyncio streams."""
    choice = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    text = json.dumps(body | {"usage": {"prompt_tokens": 900, "completion_tokens": 15, "total_tokens": 915}}).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n".encode()

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = (await reader.readuntil(b"\r\n\r\n")).lower()
                at = request.index(b"content-length:") + 15
                await reader.readexactly(int(request[at : request.index(b"\r", at)]))
                writer.write(head + text)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def main() -> None:
        server = await asyncio.start_server(client, "127.0.0.1", 0, backlog=512, limit=1 << 22)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


@contextmanager
def server() -> Iterator[str]:
    """The URL of a server in a process of its own."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    try:
        assert mine.poll(60)
        yield f"http://127.0.0.1:{mine.recv()}/v1"
    finally:
        process.terminate()
        process.join(10)


def make_job(url: str, count: int | None = None) -> Job:
    board = load_board(BOARD)
    panel = load_panel(board)
    tasks = load_tasks(board, panel)
    return Job(board, panel, TaskSet(tasks[:count]), identify(url, {"model": "m"}), concurrency=CONCURRENCY)


def evaluated(job: Job, url: str, folder: Path) -> tuple[float, int]:
    """CPU seconds and turns of a whole evaluation, entry included."""
    policy = load_policy(url, model="m", concurrency=CONCURRENCY)
    begun = time.process_time()
    entry = run(job, LocalPlayer(policy), folder)
    return time.process_time() - begun, round((entry.numbers["turns"].value or 0) * entry.tasks)


def conversations(job: Job, store: Path) -> list[list[list[dict[str, str]]]]:
    """The messages of every turn of every episode, as the evaluation sent them."""
    layout, form = job.config().layout, job.config().format
    from agentgym.registry import environment_class

    help_text = environment_class(job.board.environment).spec.action_help
    return [
        [
            [dict(m) for m in layout.messages(e.turns[:i], t.observation, t.admissible, form, help_text)]
            for i, t in enumerate(e.turns)
        ]
        for e in EpisodeStore(store)
    ]


def bare(url: str, episodes: list[list[list[dict[str, str]]]], job: Job) -> tuple[float, int]:
    """The same requests from a plain loop over the client that the policy uses."""
    import openai

    sampling = job.config().sampling

    async def main() -> int:
        try:
            import httpx2 as http
        except ImportError:
            import httpx as http
        limits = http.Limits(max_connections=CONCURRENCY, max_keepalive_connections=CONCURRENCY)
        client = openai.AsyncOpenAI(
            base_url=url, api_key="none", max_retries=0, timeout=120,
            http_client=openai.DefaultAsyncHttpxClient(limits=limits),
        )  # fmt: skip
        waiting = iter(episodes)
        turns = 0

        async def slot() -> None:
            nonlocal turns
            for episode in waiting:
                for messages in episode:
                    answer = await client.chat.completions.create(
                        model="m", messages=messages, temperature=sampling.temperature, top_p=sampling.top_p,
                        max_tokens=sampling.max_tokens, seed=1,
                    )  # fmt: skip
                    assert answer.choices[0].message.content == TEXT
                    turns += 1

        await asyncio.gather(*(slot() for _ in range(CONCURRENCY)))
        await client.close()
        return turns

    begun = time.process_time()
    count = asyncio.run(main())
    return time.process_time() - begun, count


def memory(count: int) -> dict[str, float]:
    """Resident memory while ``count`` episodes go through an evaluation's books and file; scripted, 20 turns each."""
    board = load_board(BOARD)
    panel = load_panel(board)
    tasks = load_tasks(board, panel)
    board = board.model_copy(update={"attempts": -(-count // len(tasks))})
    points: list[tuple[int, int]] = []

    def progress(ledger: Ledger, outcome: Outcome | None) -> None:
        if outcome is not None:
            progress.done += 1  # type: ignore[attr-defined]
            if progress.done % (count // 20) == 0:  # type: ignore[attr-defined]
                gc.collect()
                points.append((progress.done, psutil.Process().memory_info().rss))  # type: ignore[attr-defined]

    progress.done = 0  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as folder:
        job = Job(board, panel, tasks, identify("noop"), concurrency=CONCURRENCY, progress=progress)
        entry = run(job, LocalPlayer(load_policy("noop")), Path(folder) / "out")
        size = (Path(folder) / "out" / EPISODES).stat().st_size
    later = points[len(points) // 5 :]
    slope = float(np.polyfit([p[0] for p in later], [p[1] for p in later], 1)[0])
    total = entry.tasks * entry.attempts
    return {"episodes": total, "RSS slope, bytes an episode (target 1024)": slope,
            "RSS at the end, MB": points[-1][1] / 1e6, "file bytes an episode": size / total}  # fmt: skip


def main() -> None:
    """Measure in turns, so that both see the same machine."""
    ours: list[float] = []
    theirs: list[float] = []
    with server() as url, tempfile.TemporaryDirectory() as folder:
        job = make_job(url, CONCURRENCY)
        evaluated(job, url, Path(folder) / "warm")
        said = conversations(job, Path(folder) / "warm" / EPISODES)
        for index in range(ROUNDS):
            seconds, turns = evaluated(job, url, Path(folder) / str(index))
            ours.append(seconds / turns * 1e6)
            seconds, count = bare(url, said, job)
            assert count == turns
            theirs.append(seconds / count * 1e6)
            print(f"round {index}: {ours[-1]:.0f} us against {theirs[-1]:.0f} us a turn", file=sys.stderr, flush=True)
    figures: dict[str, Any] = {
        "concurrency": CONCURRENCY, "turns a round": turns, "rounds": ROUNDS,
        "evaluation, CPU us a turn": {"median": statistics.median(ours), "min": min(ours), "max": max(ours)},
        "bare AsyncOpenAI loop, CPU us a turn": {"median": statistics.median(theirs), "min": min(theirs),
                                                 "max": max(theirs)},
        "ratio of medians (target 1.15)": statistics.median(ours) / statistics.median(theirs),
        "ratio of minima": min(ours) / min(theirs),
    }  # fmt: skip
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    save("eval_overhead", {**figures, "memory": memory(count)})


if __name__ == "__main__":
    main()
