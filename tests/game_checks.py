"""Checks that every small game must pass; used by ``tests/environments/test_*.py``."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import agentgym
from agentgym import Environment, Observation, Step, Task
from agentgym.environments import _games
from agentgym.errors import ConfigError, DataError, EnvironmentFault, UnknownNameError
from agentgym.seeding import python_rng

#: actions that no game understands
HOSTILE = (
    "",
    " \n\t ",
    "\x00",
    "\x1b[2J\x07",
    "x" * 100_000,
    "(" * 100_000,
    "||" * 5_000,
    "9" * 5_000,
    "ünïcödé \u202e \U0001f600",
    "\ud800",
    "<action>",
    "__import__('os').system('true')",
)
Choose = Callable[[Environment, Observation, Any], str]


def expert(env: Environment, observation: Observation, rng: Any) -> str:
    """The expert's action."""
    return env.expert() or ""


def mixed(env: Environment, observation: Observation, rng: Any) -> str:
    """Half the expert's actions, half at random; now and then one that is none."""
    if observation.admissible and rng.random() < 0.5:
        return str(rng.choice(list(observation.admissible)))
    return "no such action" if rng.random() < 0.1 else env.expert() or ""


def play(env: Environment, task: Task, choose: Choose = expert, turns: int | None = None) -> list[Step]:
    """One episode; at most ``turns`` turns (default: the environment's limit)."""
    rng = python_rng("game checks", task.seed)
    observation, steps = env.reset(task), []
    for _ in range(turns or env.spec.max_turns):
        steps.append(env.step(choose(env, observation, rng)))
        observation = steps[-1].observation
        if steps[-1].terminated:
            break
    return steps


def plain(step: Step) -> tuple[Any, ...]:
    """All that a step says."""
    seen = step.observation
    info = dict(step.info or {})
    listed = None if seen.admissible is None else tuple(seen.admissible)
    return (seen.text, listed, seen.state_key, step.reward, step.terminated, step.success, step.grounded,
            step.milestones, step.score, info)  # fmt: skip


def fingerprint(name: str, split: str, count: int, options: dict[str, Any]) -> str:
    """A hash over the tasks and mixed episodes of a split; the same in every process."""
    env = agentgym.make(name)
    digest = hashlib.sha256()
    for task in env.tasks(split, n=count, **options):
        digest.update(repr((task.id, task.name, env.reset(task).text)).encode())
        digest.update(repr([plain(step) for step in play(env, task, mixed)]).encode())
    return digest.hexdigest()


def check_other_process(name: str, count: int = 8, split: str = "valid", **options: Any) -> None:
    """Another process with another hash seed plays the same episodes."""
    root = Path(__file__).parent.parent
    code = f"import game_checks; print(game_checks.fingerprint({name!r}, {split!r}, {count}, {options!r}))"
    variables = {**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": f"{root}{os.pathsep}{root / 'tests'}"}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == fingerprint(name, split, count, options)


def check_interleaved(make: Callable[[], Environment], tasks: Iterable[Task], turns: int = 12) -> None:
    """Episodes stepped in turn are the ones stepped alone."""
    tasks = list(tasks)
    alone = [[plain(step) for step in play(make(), task, mixed, turns)] for task in tasks]
    envs = [make() for _ in tasks]
    seen = [env.reset(task) for env, task in zip(envs, tasks, strict=True)]
    rngs = [python_rng("game checks", task.seed) for task in tasks]
    together: list[list[Any]] = [[] for _ in tasks]
    for _ in range(turns):
        for k, env in enumerate(envs):
            if not (together[k] and together[k][-1][4]):
                step = env.step(mixed(env, seen[k], rngs[k]))
                seen[k] = step.observation
                together[k].append(plain(step))
    assert together == alone


def check_snapshots(make: Callable[[], Environment], tasks: Iterable[Task], turns: int = 12) -> None:
    """From every state of an episode, a pickled snapshot in another instance goes on in the same way."""
    for task in tasks:
        env, other = make(), make()
        first = env.reset(task)
        other.reset(task)
        rng = python_rng("game checks", task.seed)
        states, actions, steps, observation = [pickle.dumps(env.snapshot())], [], [], first
        for _ in range(turns):
            # The first action is refused, so that what a refusal shows must come back too.
            actions.append(mixed(env, observation, rng) if actions else "no such action")
            steps.append(env.step(actions[-1]))
            observation = steps[-1].observation
            states.append(pickle.dumps(env.snapshot()))
            if steps[-1].terminated:
                break
        for k in reversed(range(len(actions))):
            back = other.restore(pickle.loads(states[k]))
            expected = first if k == 0 else steps[k - 1].observation
            assert back.text == expected.text
            assert back.state_key == expected.state_key
            assert back.admissible == expected.admissible
            assert [plain(other.step(action)) for action in actions[k:]] == [plain(step) for step in steps[k:]]
        with pytest.raises(EnvironmentFault, match="reset it to the"):
            make().restore(pickle.loads(states[0]))


def check_bad_snapshots(env: Environment, task: Task) -> None:
    """What is no snapshot of the task is refused with what was expected, and changes nothing."""
    env.reset(task)
    env.step("no such action")
    good = env.snapshot()
    wrong: list[Any] = [
        None,
        "junk",
        5,
        {},
        (),
        (task.id,),
        [task.id, task.id],
        good[:-1],
        (*good, 0),
        (None, *good[1:]),
    ]
    for k in range(1, len(good)):
        changed: list[Any] = [object(), [], 1.5]
        if type(good[k]) is int:
            changed += [-1, 10**30, True, None, "0"]
        wrong += [(*good[:k], value, *good[k + 1 :]) for value in changed]
    for state in wrong:
        with pytest.raises(EnvironmentFault, match=r"expected a snapshot \(task id, .*, got "):
            env.restore(state)
        assert env.snapshot() == good
    with pytest.raises(EnvironmentFault, match="reset it to the"):
        env.restore(("other task", *good[1:]))
    assert env.snapshot() == good


def check_hostile(env: Environment, task: Task, actions: Iterable[str] = HOSTILE) -> list[Step]:
    """Hostile actions are refused, change nothing and earn at most 0; returns what they were answered."""
    before, answers = env.reset(task), []
    for action in actions:
        step = env.step(action)
        assert not step.grounded, action[:40]
        assert not step.terminated
        assert step.reward <= 0
        assert not step.milestones
        assert step.observation.state_key == before.state_key
        assert step.observation.admissible == before.admissible
        assert len(step.observation.text) < 4000, "a refused action must not flood the prompt"
        step.observation.text.encode()
        answers.append(step)
    return answers


def check_splits(name: str, content: Callable[[Task], Any], n: int = 25, **options: Any) -> None:
    """No game is in two splits, whatever the seed; tasks do not depend on ``n``; wrong input is refused."""
    env = agentgym.make(name)
    splits: dict[str, set[str]] = {split: set() for split in _games.SPLITS}
    for split, keys in splits.items():
        for seed in range(3):
            tasks = env.tasks(split, n=n, seed=seed, **options)
            assert len(tasks) == n
            assert len({_games.content_key(name, content(task)) for task in tasks}) == n, "games repeat"
            keys |= {_games.content_key(name, content(task)) for task in tasks}
            assert all(_games.split_of(name, content(task)) == task.split == split for task in tasks)
            assert [t.id for t in env.tasks(split, n=5, seed=seed, **options)] == [t.id for t in tasks[:5]]
    assert not splits["train"] & splits["valid"]
    assert not splits["train"] & splits["test"]
    assert not splits["valid"] & splits["test"]
    check_refusals(env)


def check_refusals(env: Environment) -> None:
    """Unknown splits and options, impossible numbers, tasks of others and broken data are named."""
    with pytest.raises(UnknownNameError, match="train"):
        env.tasks("trian")
    for wrong in (["test"], {}, None):
        with pytest.raises(UnknownNameError, match="unknown split"):
            env.tasks(wrong)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="seed"):
        env.tasks("train", sede=3)
    for wrong in (0, -1, True, "3", 1.5):
        with pytest.raises(ConfigError, match="n must be"):
            env.tasks("train", n=wrong)
    with pytest.raises(ConfigError, match="seed must be"):
        env.tasks("train", seed=-1)
    with pytest.raises(EnvironmentFault, match="task of environment 'other'"):
        env.reset(Task("other", "x"))
    for data in (None, 3, [], {}, {"nothing": 1}):
        with pytest.raises(DataError, match="task 'broken'"):
            env.reset(Task(env.spec.name, "broken", data=data))
    fresh = type(env)()
    for call in (lambda: fresh.step("x"), fresh.expert, fresh.snapshot):
        with pytest.raises(EnvironmentFault, match="reset"):
            call()
