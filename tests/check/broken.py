"""One environment that keeps the contract, and one for each way to break it. Imported by workers as ``broken``."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from agentgym import Environment, EnvironmentSpec, Observation, Step, Task, TaskSet
from agentgym.errors import EnvironmentFault, unknown
from agentgym.seeding import python_rng

LETTERS = "abcd"


class Right(Environment):
    """Say the letters of a word in order. Correct in every respect."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        "letters", max_turns=12, snapshots=True, splits=("train", "valid"), action_help="Say the next letter.",
        description="say the letters of a word",
    )  # fmt: skip
    milestone_names = ("half",)

    def tasks(self, split: str = "train", n: int = 20) -> TaskSet:
        if split not in self.spec.splits:
            raise unknown("split", split, self.spec.splits)
        first = 1000 * self.spec.splits.index(split)
        return TaskSet((Task("letters", f"word-{k}", split, first + k) for k in range(n)), f"letters/{split}")

    def reset(self, task: Task) -> Observation:
        self.rng = python_rng("letters", task.seed)
        self.word = "".join(self.rng.choice(LETTERS) for _ in range(4))
        self.at, self.note, self.half = 0, "", False
        return self.look()

    def look(self) -> Observation:
        return Observation(f"{self.note}word {self.word}, said {self.word[: self.at]!r}", list(LETTERS))

    def step(self, action: str) -> Step:
        known = action in LETTERS and len(action) == 1
        right = known and action == self.word[self.at]
        self.at += right
        self.note = "" if known else "Not a letter. "
        self.half = self.half or self.at >= 2
        done = self.at == len(self.word)
        return Step(self.look(), float(done), done, done, known, ("half",) if self.half else ())

    def expert(self) -> str | None:
        return self.word[self.at] if self.at < len(self.word) else None

    def snapshot(self) -> Any:
        return self.word, self.at, self.note, self.half

    def restore(self, state: Any) -> Observation:
        if not isinstance(state, tuple) or len(state) != 4:
            raise EnvironmentFault(f"letters: expected a snapshot (word, at, note, half), got {state!r:.80}")
        self.word, self.at, self.note, self.half = state
        return self.look()


class GlobalRandom(Right):
    """Draws the word from the process-wide generator, which reset seeds."""

    def reset(self, task: Task) -> Observation:
        random.seed(task.seed)
        seen = super().reset(task)
        self.word = "".join(random.choice(LETTERS) for _ in range(4))
        self.note = ""
        return Observation(seen.text, seen.admissible) and self.look()


class NumpyRandom(Right):
    """Draws from NumPy's process-wide generator in step."""

    def step(self, action: str) -> Step:
        np.random.random()  # noqa: NPY002 - the bug
        return super().step(action)


class Unseeded(Right):
    """A generator of its own, but not made of the task's seed."""

    def reset(self, task: Task) -> Observation:
        super().reset(task)
        self.word = "".join(random.Random().choice(LETTERS) for _ in range(8))
        return self.look()


class NotReset(Right):
    """Something of the last episode is left."""

    def __init__(self) -> None:
        self.played = 0

    def reset(self, task: Task) -> Observation:
        super().reset(task)
        self.played += 1
        self.note = f"game {self.played}. "
        return self.look()


class HashOrder(Right):
    """The list of actions has the order of a set."""

    def look(self) -> Observation:
        return Observation(super().look().text, list({f"{c}{c}{c}" for c in LETTERS} | set(LETTERS)))


class SharedState(Right):
    """Where the episode stands is kept in the class."""

    place: ClassVar[dict[str, int]] = {"at": 0}

    @property
    def at(self) -> int:
        return self.place["at"]

    @at.setter
    def at(self, value: int) -> None:
        self.place["at"] = value


class NotThreadSafe(Right):
    """Passes the action through a global while it works."""

    heard: ClassVar[list[str]] = [""]

    def step(self, action: str) -> Step:
        self.heard[0] = action
        time.sleep(0.0002)
        return super().step(self.heard[0])


class Unfaithful(Right):
    """The snapshot leaves out what was reached and how far."""

    def snapshot(self) -> Any:
        return self.word, min(self.at, 1), self.note, self.half


class AliasedSnapshot(Right):
    """The snapshot is the living state."""

    def reset(self, task: Task) -> Observation:
        seen = super().reset(task)
        self.living = {"at": self.at, "note": self.note, "half": self.half}
        return seen

    def step(self, action: str) -> Step:
        step = super().step(action)
        self.living.update(at=self.at, note=self.note, half=self.half)
        return step

    def snapshot(self) -> Any:
        return self.living

    def restore(self, state: Any) -> Observation:
        if not isinstance(state, dict) or "at" not in state:
            raise EnvironmentFault("letters: no snapshot")
        self.at, self.note, self.half = state["at"], state["note"], state["half"]
        return self.look()


class BareRefusal(Right):
    """restore(None) raises what Python raises."""

    def restore(self, state: Any) -> Observation:
        self.word, self.at, self.note, self.half = state
        return self.look()


class CountsTurns(Right):
    """Ends by itself at the turn limit."""

    def reset(self, task: Task) -> Observation:
        self.turn = 0
        return super().reset(task)

    def step(self, action: str) -> Step:
        self.turn += 1
        step = super().step(action)
        return replace(step, terminated=step.terminated or self.turn >= self.spec.max_turns)


class NotTerminated(Right):
    """Says success and goes on."""

    def step(self, action: str) -> Step:
        step = super().step(action)
        return Step(step.observation, step.reward, False, step.success)


class BadExpert(Right):
    """The expert leads nowhere."""

    def expert(self) -> str | None:
        return next(c for c in LETTERS if self.at >= len(self.word) or c != self.word[self.at])


class PaysTwice(Right):
    """The outcome of a solved task is not 1."""

    def step(self, action: str) -> Step:
        step = super().step(action)
        return replace(step, reward=2 * step.reward)


class FreeLunch(Right):
    """Whoever does nothing has won."""

    def step(self, action: str) -> Step:
        step = super().step(action)
        return step if step.grounded else replace(step, reward=1.0, terminated=True, success=True)


class RaisesOnNonsense(Right):
    """A bad action raises."""

    def step(self, action: str) -> Step:
        if action not in LETTERS:
            raise KeyError(action)
        return super().step(action)


class RepeatsNoise(Right):
    """The answer to a bad action repeats it, whatever it holds."""

    def step(self, action: str) -> Step:
        step = super().step(action)
        if step.grounded:
            return step
        self.note = f"You said {action}. "
        return replace(step, observation=self.look())


class Sloppy(Right):
    """The first letter of an action counts."""

    def step(self, action: str) -> Step:
        return super().step(self.word[self.at] if "\x00" in action or len(action) > 9999 else action[:1])


class HarmedByNonsense(Right):
    """A bad action leaves a mark that reset does not remove."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def step(self, action: str) -> Step:
        if isinstance(action, str) and "etc" in action:
            self.seen.append(action)
        return super().step(action)

    def look(self) -> Observation:
        seen = super().look()
        return Observation(seen.text + "!" * len(self.seen), seen.admissible)


class ChangingTasks(Right):
    """Task seeds are drawn anew."""

    def tasks(self, split: str = "train", n: int = 20) -> TaskSet:
        known = super().tasks(split, n)
        return TaskSet([replace(t, seed=t.seed + 10_000 * random.Random().randrange(1, 1000), id="") for t in known])


class Overlap(Right):
    """The splits hold the same words."""

    def tasks(self, split: str = "train", n: int = 20) -> TaskSet:
        super().tasks(split, n)
        return TaskSet(Task("letters", f"{split}-{k}", split, k) for k in range(n))


class AnySplit(Right):
    """Takes whatever split it is asked for."""

    def tasks(self, split: str = "train", n: int = 20) -> TaskSet:
        return super().tasks(split if split in self.spec.splits else "train", n)


class WrongTypes(Right):
    """reset gives text."""

    def reset(self, task: Task) -> Any:
        return super().reset(task).text


class ShrinkingMilestones(Right):
    """Forgets what was reached."""

    def step(self, action: str) -> Step:
        step = super().step(action)
        return replace(step, milestones=("half",) if self.at == 2 else ())


class UnknownMilestones(Right):
    """Reports a name that it never announced."""

    def step(self, action: str) -> Step:
        step = super().step(action)
        return replace(step, milestones=(*step.milestones, "surprise"))


class Flood(Right):
    """Shows far too much."""

    def look(self) -> Observation:
        seen = super().look()
        return Observation(seen.text + "." * 30_000, seen.admissible)


class Escapes(Right):
    """Its text drives the terminal."""

    def look(self) -> Observation:
        seen = super().look()
        return Observation(seen.text + "\x1b[2J", seen.admissible)


class Surrogates(Right):
    """Its text cannot be encoded."""

    def look(self) -> Observation:
        seen = super().look()
        return Observation(seen.text + "\udc80", seen.admissible)


class Aliased(Right):
    """All observations share one list, which it changes."""

    def reset(self, task: Task) -> Observation:
        self.shared = list(LETTERS)
        return super().reset(task)

    def look(self) -> Observation:
        self.shared.append(f"x{len(self.shared)}")
        return Observation(super().look().text, self.shared)


class PlainInfo(Right):
    """Its info cannot be stored."""

    def step(self, action: str) -> Step:
        return replace(super().step(action), info={"where": object()})


class Slow(Right):
    """Says cheap, and is not."""

    def step(self, action: str) -> Step:
        time.sleep(0.004)
        return super().step(action)


class Clock(Right):
    """Correct: its text holds the time, and it says what of it must be the same."""

    def look(self) -> Observation:
        seen = super().look()
        text = f"{seen.text} at {time.perf_counter_ns()} ns"
        return Observation(text, seen.admissible, self.comparable(text))

    def comparable(self, text: str) -> str:
        return re.sub(r"\d+ ns", "...", text)


class NotComparable(Right):
    """Keeps a number of its text."""

    def comparable(self, text: str) -> str:
        return len(text)  # type: ignore[return-value]


class Patient(Right):
    """Correct, but each step takes long."""

    spec = replace(Right.spec, cheap=False)

    def step(self, action: str) -> Step:
        time.sleep(0.15)
        return super().step(action)


class Hangs(Right):
    """A long action never comes back."""

    def step(self, action: str) -> Step:
        if isinstance(action, str) and len(action) > 9999:
            threading.Event().wait()
        return super().step(action)


class Dies(Right):
    """A control character ends the process."""

    def step(self, action: str) -> Step:
        if isinstance(action, str) and "\x00" in action:
            print("last words", flush=True)
            os._exit(3)
        return super().step(action)


class Leaks(Right):
    """Keeps a megabyte of every episode."""

    kept: ClassVar[list[bytearray]] = []

    def reset(self, task: Task) -> Observation:
        self.kept.append(bytearray(b"x" * 300_000))
        return super().reset(task)
