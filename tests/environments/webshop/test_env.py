"""WebShop behind the contract: rewards, ends, milestones, options, isolation, determinism."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

import agentgym
from agentgym.environments.webshop import WebShop
from agentgym.environments.webshop.env import ANY_SEARCH
from agentgym.environments.webshop.generated import GENERATED_SPLITS
from agentgym.errors import AgentGymError, ConfigError, DataError, EnvironmentFault, UnknownNameError
from agentgym.seeding import python_rng
from agentgym.types import Task, TaskSet, content_hash


@pytest.fixture(scope="module")
def tasks() -> TaskSet:
    """Tasks that are there without any data."""
    return WebShop().tasks("generated", n=12)


def play(task: Task, env: WebShop | None = None, turns: int = 12) -> list[Any]:
    """Everything that a seeded mixture of expert and random actions shows."""
    env = env or WebShop()
    observation, rng, rows = env.reset(task), python_rng("test", task.id), []
    for _ in range(turns):
        action = env.expert() if rng.random() < 0.6 else rng.choice(list(observation.admissible or ()))
        step = env.step(action or "")
        observation = step.observation
        rows.append((action, observation.text, observation.admissible, step.reward, step.milestones, step.info))
        if step.terminated:
            break
    return rows


def test_is_registered_and_describes_itself() -> None:
    env = agentgym.make("webshop", observation="text_rich")
    assert isinstance(env, WebShop)
    assert (env.spec.max_turns, env.spec.thread_safe, env.spec.cheap, env.spec.snapshots) == (15, True, True, True)
    assert {"train", "eval", "test", *GENERATED_SPLITS} == set(env.spec.splits)


@pytest.mark.parametrize("split", GENERATED_SPLITS)
def test_the_expert_scores_one_on_every_embedded_task(split: str) -> None:
    env = WebShop()
    for task in env.tasks(split):
        env.reset(task)
        for _ in range(env.spec.max_turns):
            step = env.step(env.expert() or "")
            assert step.grounded
            if step.terminated:
                break
            assert step.reward == 0.0
        assert (step.reward, step.success) == (1.0, True), task
        assert step.milestones == env.milestone_names
        assert env.expert() is None


def test_doing_nothing_scores_nothing(tasks: TaskSet) -> None:
    env = WebShop()
    for task in tasks:
        env.reset(task)
        for action in ("", "noop", "click[search]", "look"):
            step = env.step(action)
            assert (step.reward, step.terminated, step.grounded, step.milestones) == (0.0, False, False, ())


def test_milestones_come_from_facts_and_stay(tasks: TaskSet) -> None:
    env = WebShop()
    task = next(t for t in tasks if len(t.data["goal"]["options"]) == 2)
    asin, options = task.data["goal"]["asin"].lower(), list(task.data["goal"]["options"].values())
    env.reset(task)
    assert env.milestone_names == ("found", "opened", "chosen", "affordable")
    assert env.step("search[zzz]").milestones == ()
    query = env.step("click[back to search]") and env.expert()
    assert env.step(query or "").milestones == ("found",)
    assert env.step(f"click[{asin}]").milestones == ("found", "opened", "affordable")
    assert env.step(f"click[{options[0]}]").milestones == ("found", "opened", "affordable")
    assert env.step(f"click[{options[1]}]").milestones == env.milestone_names
    assert env.step("click[back to search]").milestones == env.milestone_names


def test_the_breakdown_comes_with_the_purchase(tasks: TaskSet) -> None:
    env = WebShop()
    env.reset(tasks[0])
    env.step(env.expert() or "")
    env.step(env.expert() or "")
    step = env.step("click[buy now]")
    count = len(tasks[0].data["goal"]["options"])
    assert (step.terminated, step.success) == (True, False)
    assert 0 < step.reward < 1
    assert step.info is not None
    assert json.loads(json.dumps(step.info)) == step.info
    assert step.info["r_option"] < 1
    weights = {part: step.info[f"w_{part}"] for part in ("att", "option", "price")}
    assert sum(weights.values()) == pytest.approx(1)
    assert weights["option"] == pytest.approx(count * weights["price"])
    assert step.reward == pytest.approx(
        step.info["r_type"] * sum(w * float(step.info[f"r_{part}"]) for part, w in weights.items())
    )


def test_admissible_actions_can_be_taken(tasks: TaskSet) -> None:
    env = WebShop()
    observation = env.reset(tasks[0])
    assert observation.admissible == [ANY_SEARCH]
    env.step(env.expert() or "")
    state = env.snapshot()
    for action in list(env.restore(state).admissible or ()):
        env.restore(state)
        assert env.step(action).grounded, action


def test_snapshots_branch_exactly(tasks: TaskSet) -> None:
    env, other = WebShop(), WebShop()
    env.reset(tasks[1])
    env.step(env.expert() or "")
    step = env.step(env.expert() or "")
    state = pickle.loads(pickle.dumps(env.snapshot()))

    def follow(player: WebShop) -> list[Any]:
        rows: list[Any] = []
        while not rows or not rows[-1][1].terminated:
            action = player.expert() or ""
            rows.append((action, player.step(action)))
        return rows

    first = follow(env)
    assert env.restore(state) == step.observation
    assert follow(env) == first
    other.reset(tasks[1])
    other.restore(state)
    assert follow(other) == first
    other.reset(tasks[2])
    with pytest.raises(AgentGymError, match="reset it to the"):
        other.restore(state)


def test_interleaved_episodes_do_not_touch_each_other(tasks: TaskSet) -> None:
    alone = {task.id: play(task) for task in tasks}
    envs = {task.id: WebShop() for task in tasks}
    for task in tasks:
        envs[task.id].reset(task)
    for turn in range(12):
        for task in tasks:
            if turn < len(alone[task.id]):
                action, text, *_ = alone[task.id][turn]
                assert envs[task.id].step(action).observation.text == text


def test_threads_see_the_same_episodes(tasks: TaskSet) -> None:
    expected = [play(task) for task in tasks]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(play, [*tasks, *tasks, *tasks])) == expected * 3


def test_every_process_sees_the_same_episodes(tasks: TaskSet) -> None:
    code = (
        "import sys; from agentgym.environments.webshop import WebShop; from agentgym.types import content_hash\n"
        "env = WebShop(); tasks = env.tasks('generated', n=12); print(tasks.hash); rows = []\n"
        "for task in tasks:\n"
        "    env.reset(task)\n"
        "    for action in ('search[<r>]', 'click[next >]', env.expert()):\n"
        "        rows.append(env.step(action or '').observation.text)\n"
        "print(content_hash(rows)); print(any(m in sys.modules for m in ('torch', 'nltk', 'spacy')))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "7")
    }  # fmt: skip
    env, rows = WebShop(), []
    for task in tasks:
        env.reset(task)
        for action in ("search[<r>]", "click[next >]", env.expert()):
            rows.append(env.step(action or "").observation.text)
    assert outputs == {f"{tasks.hash}\n{content_hash(rows)}\nFalse\n"}


def test_random_listings_hang_on_the_tasks_seed(tasks: TaskSet) -> None:
    env, texts = WebShop(), []
    for task in (tasks[0], tasks[0], replace(tasks[0], seed=1)):
        env.reset(task)
        texts.append(env.step("search[<r>]").observation.text)
    assert texts[0] == texts[1] != texts[2]


def test_the_state_mode_is_named_in_every_result(tasks: TaskSet) -> None:
    env = WebShop(observation="state")
    env.reset(tasks[0])
    while True:
        step = env.step(env.expert() or "")
        assert (step.info or {})["observation"] == "state"
        if step.terminated:
            break
    plain = WebShop()
    plain.reset(tasks[0])
    assert plain.step("search[x]").info is None


def test_tasks_are_json_and_options_are_checked(tasks: TaskSet) -> None:
    env = WebShop()
    for task in tasks:
        assert Task(task.env, task.name, task.split, task.seed, task.kind, json.loads(json.dumps(task.data))) == task
    again = WebShop(price_seed=7).tasks("generated", n=12)
    assert [t.name for t in again] == [t.name for t in tasks]
    assert again.hash != tasks.hash
    assert {task.kind for task in env.tasks("generated", kinds=["beauty", "office"])} == {"beauty", "office"}
    assert len(env.tasks("generated", kinds="beauty", n=3, seed=1)) == 3
    for options, message in (
        ({"n": 0}, "n must be an integer from 1 to"), ({"n": 10**6}, "from 1 to"), ({"n": True}, "from 1 to"),
        ({"n": 1, "seed": -1}, "seed must be"), ({"kinds": 3}, "kinds must be a list"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=message):
            env.tasks("generated", **options)
    for call, near in (
        (lambda: env.tasks("generatd"), "'generated'"), (lambda: env.tasks("generated", kind="x"), "'kinds'"),
        (lambda: env.tasks("generated", kinds=["beuty"]), "'beauty'"),
        (lambda: WebShop(observation="rich"), "'text_rich'"),
        (lambda: WebShop(goals="humans"), "'human'"), (lambda: WebShop(prices="products"), "'product'"),
    ):  # fmt: skip
        with pytest.raises(UnknownNameError, match=near):
            call()
    with pytest.raises(ConfigError, match="price_seed"):
        WebShop(price_seed=-1)
    with pytest.raises(ConfigError, match="show_attributes"):
        WebShop(show_attributes="yes")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="synthetic goals only"):
        WebShop(goals="human").tasks("generated")


def test_a_task_that_does_not_fit_is_refused(tasks: TaskSet) -> None:
    env, task = WebShop(), tasks[0]
    for change, message in (
        ({"catalogue": "0" * 16}, r"catalogue with hash 0{16}, but the generated catalogue has hash \w{16} \(576"),
        ({"goal": {**task.data["goal"], "asin": "GNOTHING00"}}, "'GNOTHING00' is not in the generated catalogue"),
        ({"goal": []}, "its goal must be an object"), ({"goal": {}}, "its goal is not usable"),
        ({"price_seed": "x"}, "price_seed"), ({"price_seed": None}, "price_seed"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=message):
            env.reset(Task("webshop", "changed", seed=1, data={**task.data, **change}))
    for data in (None, {}, {"goal": {}}, [1]):
        with pytest.raises(DataError, match="must hold 'catalogue' and 'goal'"):
            env.reset(Task("webshop", "empty", data=data))
    for change in ({"prices": "cheap"}, {"products": "many"}):
        with pytest.raises(ConfigError, match="must be one of"):
            env.reset(Task("webshop", "changed", data={**task.data, **change}))


def test_misuse_is_refused(tasks: TaskSet) -> None:
    env = WebShop()
    for call in (lambda: env.step("look"), env.expert, env.snapshot, lambda: env.clickables):
        with pytest.raises(EnvironmentFault, match="must come first"):
            call()
    with pytest.raises(EnvironmentFault, match="'alfworld'"):
        env.reset(Task("alfworld", "x"))
    env.reset(tasks[0])
    while not env.step(env.expert() or "").terminated:
        pass
    with pytest.raises(EnvironmentFault, match="is over; reset first"):
        env.step("search[x]")
    assert env.reset(tasks[0]).text.startswith("WebShop [SEP] ")
    env.close()
    with pytest.raises(EnvironmentFault, match="must come first"):
        env.step("look")


def test_runs_in_the_engine() -> None:
    tasks = WebShop().tasks("generated", n=3)
    groups = agentgym.rollout("webshop", agentgym.load_policy("expert"), tasks=tasks, n=2, seed=0)
    assert [[e.outcome for e in group] for group in groups] == [[1.0, 1.0]] * 3
    idle = agentgym.rollout("webshop", agentgym.load_policy("noop"), tasks=tasks, n=1, seed=0)
    assert [[(e.outcome, e.success) for e in group] for group in idle] == [[(0.0, False)]] * 3
