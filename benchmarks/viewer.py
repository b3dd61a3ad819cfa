"""Size and speed of the viewer's page and of the leaderboard site.

    python benchmarks/viewer.py [--no-browser]

Targets: a page of 200 episodes under 5 MB that opens in under 2 s; a site of 200 entries over 12 boards built in under
5 s. The episodes are made: 25 tasks x 8 episodes of 15 to 30 turns, observations of some 600 characters, responses of
40 words of a vocabulary of 3,000, 5 to 40 sampled tokens a turn: they repeat less than real ones. Opening is measured
in headless Chromium, from the request to the first task being shown, median of 5: wall time, which is only worth
something on an idle machine (the load is kept with it), and CPU time of the page's main thread. Building is CPU time,
median of 3.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import save

from agentgym.leaderboards.catalogue import board_names, load_board
from agentgym.leaderboards.entry import Entry, ModelIdentity, Number, Training
from agentgym.leaderboards.site import build
from agentgym.store import EpisodeStore
from agentgym.tokens import TokenRow
from agentgym.types import Episode, Group, Task, Termination, Turn
from agentgym.viewer import Credit, Source, write_html

EPISODES, SIZE, ENTRIES, BOARDS = 200, 8, 200, 12


def make_store(path: Path) -> None:
    """The episodes of the page."""
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(3000)]
    with EpisodeStore(path) as store:
        for number in range(EPISODES):
            task = Task("household", f"task {number // SIZE}", "test", number // SIZE, f"kind {number // SIZE % 6}")
            store.append(_episode(task, number % SIZE, rng, words))


def _episode(task: Task, index: int, rng: np.random.Generator, words: list[str]) -> Episode:
    count = int(rng.integers(15, 31))
    turns, ids, mask, owner = [], [], [], []
    observation = f"You are in a house. Your task is {task.name}."
    for t in range(count):
        drawn = int(rng.integers(5, 41))
        start = len(ids) + 20
        ids += rng.integers(0, 500, 20 + drawn).tolist()
        mask += [False] * 20 + [True] * drawn
        owner += [-1] * 20 + [t] * drawn
        after = "You see " + " ".join(f"a thing {k}" for k in rng.integers(0, 900, 60))
        said = " ".join(words[k] for k in rng.integers(0, 3000, 40))
        turns.append(
            Turn(t, observation, f"<think>{said}</think><action>go to shelf {t}</action>", f"go to shelf {t}", after,
                 grounded=t % 5 > 0, rewards={"env": 0.0, "milestone": float(rng.random() < 0.1)}, row=0, start=start,
                 end=start + drawn, prompt_tokens=20, sampled_tokens=drawn)
        )  # fmt: skip
        observation = after
    solved = bool(rng.random() < 0.5)
    logprobs = np.where(mask, -rng.exponential(0.5, len(ids)), 0).astype(np.float32)
    row = TokenRow(np.array(ids, np.int32), np.array(mask), logprobs, np.array(owner, np.int32))
    end = Termination.ENV_DONE if solved else Termination.MAX_TURNS
    return Episode(task, index, index, turns, end, float(solved), solved, rows=[row], policy="made")


def random_credit() -> Credit:
    """Advantages without regularity, so that they compress as little as real ones."""
    rng = np.random.default_rng(1)

    def assign(groups: list[Group]) -> list[list[list[float]]]:
        return [[rng.normal(size=len(episode.turns)).tolist() for episode in group] for group in groups]

    return Credit("random", assign)


def make_entries(folder: Path) -> int:
    """The entries of the site; gives the number of boards they lie on."""
    rng = np.random.default_rng(0)
    boards = [load_board(name) for name in board_names()]
    boards = [board for board in boards if board.kind == "eval"][:BOARDS]
    for number in range(ENTRIES):
        board = boards[number % len(boards)]
        value = float(rng.random())
        figure = Number(value=value, low=max(0, value - 0.07), high=min(1, value + 0.07), n=140, clusters=140)
        plain = Number(value=100 * value, low=90 * value, high=110 * value, n=140, clusters=140)
        shares = ("success", "score", "invalid", "refused")
        entry = Entry(
            board=board.name, board_hash=board.hash, code_version="0.1.0", tasks=140,
            model=ModelIdentity(label=f"model {number}", kind="checkpoint", parameters=int(10 ** rng.uniform(5, 9))),
            numbers={name: figure if name in shares else plain for name in ("turns", "tokens", "cost", *shares)},
            kinds={f"kind {k}": {"success": figure} for k in range(6)},
            results={f"{k:016x}": [int(rng.random() < value)] for k in range(140)},
            training=Training(recipe="r", steps=120, curves={c: [(s, s * value / 120) for s in range(0, 121, 10)]
                                                             for c in ("success", "outcome")}),
        )  # fmt: skip
        (folder / f"{number}.json").write_text(entry.to_json(), encoding="utf-8")
    return len(boards)


def cpu(function: Callable[[], Any], repeats: int = 3) -> float:
    """CPU seconds, median."""
    found = []
    for _ in range(repeats):
        begun = time.process_time()
        function()
        found.append(time.process_time() - begun)
    return statistics.median(found)


def opening(path: Path, repeats: int = 5) -> dict[str, float]:
    """Seconds until the page shows its first task, and until the largest credit is found."""
    from playwright.sync_api import sync_playwright

    opened, found, busy = [], [], []
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        for _ in range(repeats):
            page = browser.new_context().new_page()
            measure = page.context.new_cdp_session(page)
            measure.send("Performance.enable", {"timeDomain": "threadTicks"})
            begun = time.perf_counter()
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-ready]")
            opened.append(time.perf_counter() - begun)
            metrics = {m["name"]: m["value"] for m in measure.send("Performance.getMetrics")["metrics"]}
            busy.append(metrics["TaskDuration"])
            begun = time.perf_counter()
            page.keyboard.press("c")
            page.wait_for_selector(".turn.here")
            found.append(time.perf_counter() - begun)
            page.context.close()
        browser.close()
    return {
        "open_cpu_seconds": statistics.median(busy), "open_seconds": statistics.median(opened),
        "largest_credit_seconds": statistics.median(found), "load": os.getloadavg()[0],
    }  # fmt: skip


def main() -> None:
    """Measure and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-browser", action="store_true", help="leave opening out; needs Chromium and playwright")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_store(folder / "made.agym")
        page, sources = folder / "page.html", [Source("made", folder / "made.agym")]
        seconds = cpu(lambda: write_html(page, sources, title="made", credit=random_credit()))
        viewer: dict[str, Any] = {"episodes": EPISODES, "bytes": page.stat().st_size, "build_cpu_seconds": seconds}
        if not arguments.no_browser:
            viewer |= opening(page)
        (folder / "entries").mkdir()
        boards = make_entries(folder / "entries")
        seconds = cpu(lambda: build(folder / "entries", folder / "site"))
        size = sum(path.stat().st_size for path in (folder / "site").rglob("*.html"))
        site = {"entries": ENTRIES, "boards_with_entries": boards, "bytes": size, "build_cpu_seconds": seconds}
    save("viewer", {"viewer": viewer, "site": site})


if __name__ == "__main__":
    main()
