"""Small environments and policies for tests; importable by worker processes as the module ``fakes``."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

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
from agentgym.seeding import python_rng


def tasks_for(name: str, count: int, **data: Any) -> TaskSet:
    """``count`` tasks of environment ``name``; ``data`` is in each."""
    return TaskSet([Task(name, f"t{i}", "train", seed=i, data={"n": i, **data}) for i in range(count)], name)


class Counter(Environment):
    """Say the right digit ``length`` times. All of it follows from the task's seed."""

    spec = EnvironmentSpec("fakes:Counter", max_turns=12)

    def __init__(self, length: int = 4) -> None:
        self.length = length

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        return tasks_for(self.spec.name, options.get("count", 8))

    def reset(self, task: Task) -> Observation:
        self.rng = python_rng("counter", task.seed)
        self.data = task.data or {}
        self.at, self.score = 0, 0.0
        self.milestone_names = ("half", "end")
        return self._observation()

    def _observation(self) -> Observation:
        self.digit = self.rng.randrange(3)
        return Observation(f"[{self.at}] say {self.digit}", ["0", "1", "2"], f"say {self.digit}")

    def expert(self) -> str | None:
        return str(self.digit)

    def step(self, action: str) -> Step:
        right = action == str(self.digit)
        self.at += 1
        self.score += right / self.length
        done = self.at >= self.length
        names = ("half",) * (2 * self.at >= self.length) + ("end",) * done
        return Step(
            self._observation(), right / self.length, done, done and self.score > 0.99, action in ("0", "1", "2"),
            names, info={"at": self.at},
        )  # fmt: skip


class Clock(Counter):
    """Its answers hold a number that nothing rules."""

    def comparable(self, text: str) -> str:
        return text.partition(" at ")[0]


class ThreadCounter(Counter):
    """The same, stepped in threads."""

    spec = EnvironmentSpec("fakes:ThreadCounter", max_turns=12, cheap=False)


class ProcessCounter(Counter):
    """The same, stepped in worker processes."""

    spec = EnvironmentSpec("fakes:ProcessCounter", max_turns=12, thread_safe=False)


class ShortProcessCounter(ProcessCounter):
    """An instance with a turn limit of its own, as adapters have."""

    def __init__(self, turns: int) -> None:
        super().__init__()
        vars(self)["spec"] = replace(self.spec, max_turns=turns)


class Trouble(Counter):
    """Does what ``task.data["trouble"]`` says at turn ``task.data.get("turn", 1)``; turn -1 is the reset."""

    spec = EnvironmentSpec("fakes:Trouble", max_turns=12, thread_safe=False)

    def reset(self, task: Task) -> Observation:
        observation = super().reset(task)
        if self.data.get("turn", 1) < 0:
            self._misbehave()
        return observation

    def step(self, action: str) -> Step:
        if self.at == self.data.get("turn", 1):
            self._misbehave()
        return super().step(action)

    def _misbehave(self) -> None:
        trouble = self.data.get("trouble")
        if trouble == "exit":
            print("last words", flush=True)
            os._exit(3)
        if trouble == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if trouble == "sleep":
            time.sleep(3600)
        if trouble == "raise":
            raise ValueError("no such door")
        if trouble == "sys.exit":
            raise SystemExit(7)
        if trouble == "print":
            print("\x00garbage" * 1000)


class InlineTrouble(Trouble):
    spec = EnvironmentSpec("fakes:InlineTrouble", max_turns=12)


class ThreadTrouble(Trouble):
    spec = EnvironmentSpec("fakes:ThreadTrouble", max_turns=12, cheap=False)


class Broken(Counter):
    """Cannot be constructed."""

    spec = EnvironmentSpec("fakes:Broken", thread_safe=False)

    def __init__(self, how: str = "data") -> None:
        from agentgym.errors import DataError

        if how == "data":
            raise DataError("no game files")
        os._exit(5)


class Shared(Counter):
    """Keeps how often each instance was entered: shows whether two episodes share one."""

    spec = EnvironmentSpec("fakes:Shared", max_turns=12, cheap=False)

    def reset(self, task: Task) -> Observation:
        self.owner = task.name
        return super().reset(task)

    def step(self, action: str) -> Step:
        time.sleep(0.0005)
        step = super().step(action)
        step.info = {"owner": self.owner}
        return step


def sample(request: PolicyRequest, vocabulary: int = 50) -> SampledTurn:
    """A response that follows from the request alone: its seed chooses action and tokens."""
    rng = python_rng("sample", request.seed)
    action = str(rng.randrange(4))  # 3 is refused by Counter
    prompt = np.frombuffer("".join(m["content"] for m in request.messages).encode(), np.uint8).astype(np.int32)
    ids = np.asarray([rng.randrange(vocabulary) for _ in range(3)], np.int32)
    logprobs = np.asarray([-rng.random() for _ in range(3)], np.float32)
    return SampledTurn(f"<action>{action}</action>", "stop", prompt, ids, logprobs, info={"seed": request.seed})


class SeededPolicy(Policy):
    """Tokens and actions from the request's seed; counts releases."""

    name = "seeded"

    def __init__(self) -> None:
        self.released: list[str] = []
        self.sessions: set[str] = set()

    async def act(self, request: PolicyRequest) -> SampledTurn:
        self.sessions.add(request.session)
        return sample(request)

    def release(self, session: str) -> None:
        self.released.append(session)


class SeededBatchPolicy(BatchPolicy):
    """The same in batches; keeps the sizes of its batches."""

    name = "seeded"

    def __init__(self, max_batch: int = 64) -> None:
        self.max_batch = max_batch
        self.sizes: list[int] = []
        self.released: list[str] = []
        self.busy = False

    def act_batch(self, requests: Sequence[PolicyRequest]) -> list[SampledTurn | Exception]:
        assert not self.busy, "act_batch was called twice at once"
        self.busy = True
        self.sizes.append(len(requests))
        answers: list[SampledTurn | Exception] = [sample(request) for request in requests]
        self.busy = False
        return answers

    def release(self, session: str) -> None:
        assert not self.busy, "release during a batch"
        self.released.append(session)


class ScriptedPolicy(Policy):
    """Calls ``answer(request)``; what it returns is the response, what it raises is raised. Text only."""

    name = "scripted"

    def __init__(self, answer: Callable[[PolicyRequest], SampledTurn | str], needs_expert: bool = False) -> None:
        self.answer, self.needs_expert = answer, needs_expert
        self.requests: list[PolicyRequest] = []
        self.released: list[str] = []

    async def act(self, request: PolicyRequest) -> SampledTurn:
        self.requests.append(request)
        answer = self.answer(request)
        return answer if isinstance(answer, SampledTurn) else SampledTurn(answer)

    def release(self, session: str) -> None:
        self.released.append(session)


def fingerprint(groups: Sequence[Any]) -> list[Any]:
    """All of the episodes that must not hang on how they were run."""
    return [
        (
            group.key, episode.index, episode.seed, episode.termination, episode.outcome, episode.success,
            [(t.observation, t.response, t.action, t.next_observation, t.milestones, t.rewards, t.info, t.row, t.start)
             for t in episode.turns],
            [(row.ids.tobytes(), row.mask.tobytes(), row.logprobs.tobytes(), row.turns.tobytes())
             for row in episode.rows],
        )
        for group in groups
        for episode in group
    ]  # fmt: skip
