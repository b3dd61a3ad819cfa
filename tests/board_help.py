"""A small environment with a board of its own, and policies; importable by subprocesses as ``board_help``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agentgym import (
    BatchPolicy,
    Environment,
    EnvironmentSpec,
    Observation,
    Policy,
    PolicyRequest,
    SampledTurn,
    Step,
    Task,
    TaskSet,
)
from agentgym.leaderboards.catalogue import load_board, load_panel, load_tasks
from agentgym.leaderboards.freeze import freeze
from agentgym.leaderboards.identity import identify
from agentgym.leaderboards.run import Job
from agentgym.sandbox import bubblewrap
from agentgym.seeding import python_rng


def needs_sandbox(board: str) -> None:
    """Skip what plays ``board`` in sandboxes where none works; AGENTGYM_REQUIRE_SANDBOX=1 (CI) makes it fail."""
    why = bubblewrap.check() if board.startswith("swe") else None
    if why and os.environ.get("AGENTGYM_REQUIRE_SANDBOX") != "1":
        pytest.skip(why)


class Gates(Environment):
    """Three gates; the right one is in the text. ``broken`` tasks fail to start while the file ``broken`` is here."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        "board_help:Gates", max_turns=9, splits=("test",), kinds=("even", "odd"), action_help="Actions: open 1 to 3."
    )

    def __init__(self, word: str = "gate") -> None:
        self.word = word

    def tasks(self, split: str = "test", n: int = 12) -> TaskSet:
        kinds = ("even", "odd")
        return TaskSet(
            [Task("board_help:Gates", f"{self.word} {i}", split, i, kinds[i % 2], data=i) for i in range(n)], "gates"
        )

    def reset(self, task: Task) -> Observation:
        if task.data == 7 and Path("broken").exists():
            raise RuntimeError("the hinge broke")
        self.right, self.tries = str(1 + python_rng("gates", task.seed).randrange(3)), 0
        return self._look()

    def _look(self) -> Observation:
        return Observation(f"{self.word} {self.right}, tried {self.tries}", [f"open {i}" for i in (1, 2, 3)])

    def step(self, action: str) -> Step:
        self.tries += 1
        won = action == f"open {self.right}"
        reward = 1.0 if won else 0.1 if action.startswith("open") else 0.0
        return Step(self._look(), reward, won, won, action.startswith("open"))

    def expert(self) -> str:
        return f"open {self.right}"


class Slow(Policy):
    """Chooses by the request's seed and takes a few milliseconds; each answer has 7 + 3 tokens and costs 0.5."""

    name = "slow"

    def __init__(self, wait: float = 0.004) -> None:
        self.wait = wait

    async def act(self, request: PolicyRequest) -> SampledTurn:
        await asyncio.sleep(self.wait)
        action = python_rng("slow", request.seed).choice([*(request.admissible or ["look"]), "nothing"])
        text = request.format.render(action)
        return SampledTurn(text, prompt_tokens=7, completion_tokens=3, cost=0.5)


BOARD = """\
title: Gates
environment: board_help:Gates
split: test
{more}
limits: {{max_turns: 4, max_response_tokens: 20}}
metrics: [success, score, pass@k, turns, tokens, invalid]
choices: [prompt.system, format]
"""


def make_board(folder: Path, more: str = "attempts: 3") -> str:
    """Write and freeze a board; gives its path."""
    path = folder / "gates.yaml"
    path.write_text(BOARD.format(more=more))
    freeze(path)
    return str(path)


def make_job(board: str, model: str = "board_help:Slow", **options: Any) -> Job:
    loaded = load_board(board)
    panel = load_panel(loaded, board)
    return Job(loaded, panel, load_tasks(loaded, panel), identify(model), **options)


class SlowBatches(BatchPolicy):
    """The same answers in batches."""

    name = "slow"

    def act_batch(self, requests: Sequence[PolicyRequest]) -> list[SampledTurn | Exception]:
        return [asyncio.run(Slow(0).act(request)) for request in requests]


class Dies(Policy):
    """Takes its process with it."""

    name = "dies"

    async def act(self, request: PolicyRequest) -> SampledTurn:
        os._exit(3)
