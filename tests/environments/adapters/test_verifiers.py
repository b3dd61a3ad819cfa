"""verifiers' tasksets from the package itself. Run by ``make test-adapters``; the tasksets lie in ``tasksets``."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

import agentgym
from agentgym.check import Settings, check_here
from agentgym.errors import ConfigError, DataError, EnvironmentFault
from agentgym.rollouts.api import rollout
from agentgym.types import Task


@pytest.fixture(autouse=True)
def tasksets(monkeypatch: pytest.MonkeyPatch) -> None:
    """verifiers there, or a skip; the test tasksets importable, in worker processes too."""
    if os.environ.get("AGENTGYM_REQUIRE_ADAPTERS"):
        importlib.import_module("verifiers.v1")
    else:
        pytest.importorskip("verifiers.v1")
    folder = str(Path(__file__).with_name("tasksets"))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", folder)


def test_one_question_and_its_weighted_rewards() -> None:
    env = agentgym.make("verifiers:sums-v1")
    task = env.tasks("train")[3]
    assert env.reset(task).text == "Add.\n\nWhat is 3 + 6?"
    for answer, reward in (("9", 1.0), ("It is, I believe, 9", 0.75), ("8", 0.0)):
        env.reset(task)
        step = env.step(answer)
        assert (step.terminated, step.reward, step.success) == (True, reward, reward == 1.0)
    assert step.info == {"rewards": {"right": 0.0, "bare": 0.0}}
    assert agentgym.make("verifiers", id="sums-v1", solved=0.75).spec.name == "verifiers"
    env.close()


def test_rows_are_dealt_to_the_splits() -> None:
    env = agentgym.make("verifiers:sums-v1", config={"rows": 25})
    sizes = {split: [task.seed for task in env.tasks(split)] for split in env.spec.splits}
    assert sizes["valid"] == [8, 18]
    assert sizes["test"] == [9, 19]
    assert sorted(seed for seeds in sizes.values() for seed in seeds) == list(range(25))
    assert [task.seed for task in env.tasks("train", n=2, first=8)] == [10, 11]
    whole = agentgym.make("verifiers:sums-v1", config={"rows": 25}, deal=False)
    assert [task.seed for task in whole.tasks("test")] == list(range(25))


def test_an_environment_that_drives_the_agent_is_played_turn_by_turn() -> None:
    env = agentgym.make("verifiers:higher-v1")
    task = env.tasks("train", n=6)[5]  # 5 * 7 % 10 is 5
    assert env.reset(task).text == "Guess a number from 0 to 9."
    assert env.step("7").observation.text == "lower, 3 left"
    assert env.step("what?").observation.text == "higher, 2 left"
    kept = env.snapshot()
    step = env.step("5")
    assert (step.terminated, step.success, step.reward) == (True, True, 1.0)
    assert env.restore(kept).text == "higher, 2 left"
    assert env.step("4").observation.text == "higher, 1 left"
    assert env.step("4").reward == 0.0
    with pytest.raises(EnvironmentFault, match="reset"):
        env.step("4")
    env.close()


def test_the_scores_are_those_of_verifiers_own_scoring() -> None:
    import asyncio

    import verifiers.v1 as vf

    env = agentgym.make("verifiers:sums-v1")
    taskset = vf.load_taskset(vf.taskset_config_type("sums-v1")(id="sums-v1"))
    for row in taskset.take(4):
        for reply in (str(row.data.answer), "something else"):
            said = vf.MessageNode(message=vf.AssistantMessage(content=reply), sampled=True)
            facts = vf.TraceTask(type="SumTask", data=row.data)
            trace = vf.Trace(task=facts, agent=vf.AgentInfo(config=vf.AgentConfig()), nodes=[said])
            asyncio.run(row.score(trace))
            env.reset(env.tasks("train")[row.data.idx])
            assert env.step(reply).reward == trace.reward


def test_the_checker_finds_no_error() -> None:
    report = check_here("verifiers:sums-v1", Settings(tasks=2, turns=5, seconds=5.0))
    assert report.of("error") == []


def test_rollouts_of_worker_processes() -> None:
    env = agentgym.make("verifiers:higher-v1")
    groups = rollout("verifiers:higher-v1", agentgym.load_policy("noop"), env.tasks("valid", n=2), n=2)
    assert [episode.termination.value for group in groups for episode in group.episodes] == ["env_done"] * 4


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("boxed", "Boxed needs a runtime in its rewards"),
        ("stopped", "Stopped needs @stop hooks"),
        ("prepared", "Prepared needs a runtime in setup"),
        ("image", "Fails needs a container"),
    ],
)
def test_what_a_conversation_cannot_give_is_refused_with_the_reason(what: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"{said}.*serve policy"):
        agentgym.make("verifiers:needy-v1", config={"what": what}).tasks()


def test_what_goes_wrong_is_told() -> None:
    with pytest.raises(ConfigError, match="there is no taskset 'no-such-v1'"):
        agentgym.make("verifiers:no-such-v1")
    with pytest.raises(ConfigError, match=r"(?s)'sums-v1' cannot be made.*rowz"):
        agentgym.make("verifiers:sums-v1", config={"rowz": 3})
    with pytest.raises(ConfigError, match="is for 2 agents"):
        agentgym.make("verifiers:sums-v1", env={"id": "user-sim"})
    env = agentgym.make("verifiers:needy-v1", config={"what": "fails"})
    env.reset(env.tasks()[0])
    with pytest.raises(EnvironmentFault, match="no score"):
        env.step("x")
    env = agentgym.make("verifiers:sums-v1")
    with pytest.raises(DataError, match="another one"):
        env.reset(Task("verifiers:sums-v1", "sums-v1-3", "train", 3, data={"id": "sums-v1", "key": "0"}))
