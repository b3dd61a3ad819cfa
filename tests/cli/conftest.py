"""What the command tests share: a small environment, a small store, a fixed text width."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from agentgym import registry
from agentgym.environment import Environment, EnvironmentSpec
from agentgym.store import EpisodeStore
from agentgym.types import Episode, Observation, Step, Task, TaskSet, Termination, Turn

ESCAPE = "\x1b[2J\x07red"


class Doors(Environment):
    """Open the right one of three doors; the text tries to clear the screen."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        "doors", max_turns=3, snapshots=True, splits=("train", "valid"), description="three doors"
    )
    milestone_names = ("opened",)

    def __init__(self, loud: bool = False) -> None:
        self.loud = loud

    def tasks(self, split: str = "train", n: int = 3) -> TaskSet:
        return TaskSet((Task("doors", f"{split}-{i}", split, i) for i in range(n)), f"doors/{split}")

    def reset(self, task: Task) -> Observation:
        self.right, self.tries = str(1 + task.seed % 3), 0
        return self._look()

    def _look(self) -> Observation:
        return Observation(f"{ESCAPE} {self.tries} doors tried", [f"open {i}" for i in (1, 2, 3)])

    def step(self, action: str) -> Step:
        self.tries += 1
        won = action == f"open {self.right}"
        return Step(self._look(), float(won), won, won, action.startswith("open"), ("opened",) if won else ())

    def expert(self) -> str:
        return f"open {self.right}" + ("\x1b[2J" if self.loud else "")

    def snapshot(self) -> Any:
        return self.tries

    def restore(self, state: Any) -> Observation:
        self.tries = state
        return self._look()


@pytest.fixture(autouse=True)
def doors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(registry, "_registered", {"doors": Doors})


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    path = tmp_path / "kept" / "episodes"
    path.parent.mkdir()
    with EpisodeStore(path) as store:
        for number in range(3):
            won = number == 1
            turn = Turn(0, f"look {ESCAPE}", f"say {ESCAPE}", None if number == 2 else f"act {ESCAPE}", "after",
                        valid=number != 2, grounded=won, rewards={"env": float(won)})  # fmt: skip
            store.append(
                Episode(
                    Task("doors", f"task-{number}", seed=number), 0, 0, [turn],
                    Termination.ENV_DONE if won else Termination.ENV_ERROR, float(won), won,
                    error="" if won else f"worker died {ESCAPE}",
                )
            )  # fmt: skip
    return path
